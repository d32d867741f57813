"""Which peers may send which message: a table of rules, checked before a component sees it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, NamedTuple, TypeVar

from smartpubsub.kademlia.keys import Contact

View = TypeVar("View")
Message = TypeVar("Message")


class Rule(NamedTuple, Generic[View, Message]):
    """Which peers may send a message, in words and as a check on what the receiver knows.

    Any peer may send a message that proves by itself that it is genuine. A check that cannot decide
    yet returns None, and the view holds the message until it can.
    """

    senders: str
    allows: Callable[[View, Contact, Message], bool | None] = lambda *_: True


def refusal_of(kind: type) -> str:
    """The reason under which a refused message of a kind is counted.

    >>> refusal_of(int)
    'int: sender not entitled'
    """
    return f"{kind.__name__}: sender not entitled"


def rules_table(rules: Mapping[type, Rule[View, Message]]) -> str:
    """A table of rules as Markdown, for the documentation.

    >>> print(rules_table({int: Rule("any node")}))
    | message | who may send it |
    | --- | --- |
    | `int` | any node |
    """
    rows = [f"| `{kind.__name__}` | {rule.senders} |" for kind, rule in rules.items()]
    return "\n".join(["| message | who may send it |", "| --- | --- |", *rows])
