"""Writes docs/api.md: the public names of the package, from their docstrings and signatures."""

import inspect
import sys
from collections.abc import Iterator
from enum import Enum
from typing import Any

import smartpubsub

HEAD = """\
# Python API

Written from the code by `.venv/bin/python tools/api_reference.py > docs/api.md`.
[client.md](client.md) and [node.md](node.md) show how to use it. `Client`, `AsyncioNode` and `Node`
have the asynchronous methods of `NodeInterface`; `BlockingClient` and `SyncNode` have the same
without `await`.
"""
CLASSES = ("NodeInterface", "EventStream", "TopicStream", "Topic", "Group", "Sealed", "Circle")
RECORDS = ("Event", "Entry", "Receipt", "EventInfo", "SubscriptionInfo", "Predicate", "Interval")
CHOICES = ("Wait", "Overflow", "EventState")


def lines() -> Iterator[str]:
    yield HEAD
    yield from function("connect", smartpubsub.connect, "##")
    for name in CLASSES + RECORDS:
        yield from class_lines(name, getattr(smartpubsub, name))
    for name in CHOICES:
        kind = getattr(smartpubsub, name)
        yield (
            f"## {name}\n\n{summary(kind)}\n\n"
            + ", ".join(f"`{each.value}`" for each in kind)
            + "\n"
        )
    yield "## Errors\n\n| error | meaning |\n| --- | --- |"
    for name in smartpubsub.__all__:
        if name.endswith("Error"):
            yield f"| `{name}` | {summary(getattr(smartpubsub, name))} |"


def class_lines(name: str, kind: type[Any]) -> Iterator[str]:
    yield f"## {name}\n\n{text(kind)}\n"
    for member, value in inspect.getmembers_static(kind):
        if member.startswith("_"):
            continue
        if isinstance(value, (staticmethod, classmethod)):
            value = value.__func__
        if inspect.isfunction(value) and value.__doc__:
            yield from function(member, value, "###")
        elif isinstance(value, property) and value.__doc__:
            yield f"### {member}\n\n{text(value)}\n"


def function(name: str, value: Any, heading: str) -> Iterator[str]:
    signature = inspect.signature(value)
    parameters = [
        p.replace(annotation=p.empty, default=shown_default(p.default))
        for p in signature.parameters.values()
    ]
    shown = signature.replace(parameters=parameters, return_annotation=signature.empty)
    kind = "async " if inspect.iscoroutinefunction(value) else ""
    yield f"{heading} {name}\n\n```text\n{kind}{name}{shown}\n```\n\n{text(value)}\n"


def shown_default(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    return ... if " object at " in repr(value) else value


def text(value: Any) -> str:
    return inspect.getdoc(value) or ""


def summary(value: Any) -> str:
    return text(value).partition("\n\n")[0].replace("\n", " ")


if __name__ == "__main__":
    sys.stdout.write("\n".join(lines()).rstrip() + "\n")
