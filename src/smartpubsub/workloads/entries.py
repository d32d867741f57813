"""A line of a workload file by itself, without its context."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from smartpubsub.workloads.lines import Line, found

AT_MS_MAX = 365 * 24 * 3600 * 1000


class Verb(StrEnum):
    """The kinds of lines."""

    SUBSCRIBE = "subscribe"
    UNSUBSCRIBE = "unsubscribe"
    PUBLISH = "publish"
    CREATE_TOPIC = "create_topic"
    CRASH = "crash"
    LEAVE = "leave"
    RESTART = "restart"
    IDLE = "idle"
    """Names an idle node, so that it has a number."""
    SETTLE = "settle"
    """Waits until every call is acknowledged; times restart from 0 after it."""


_BESIDE: dict[str, set[str]] = {
    Verb.SUBSCRIBE: {"node", "at_ms"},
    Verb.UNSUBSCRIBE: {"node", "at_ms"},
    Verb.PUBLISH: {"node", "at_ms", "payload"},
    Verb.CREATE_TOPIC: {"node", "at_ms", "ordered"},
    Verb.CRASH: {"node", "at_ms"},
    Verb.LEAVE: {"node", "at_ms"},
    Verb.RESTART: {"node", "at_ms"},
    Verb.IDLE: {"node"},
    Verb.SETTLE: set(),
}
_WITH_TEXT = frozenset({Verb.SUBSCRIBE, Verb.UNSUBSCRIBE, Verb.PUBLISH, Verb.CREATE_TOPIC})
_KEYS = {*_BESIDE, *(key for beside in _BESIDE.values() for key in beside)}


class Entry(NamedTuple):
    """A line that is valid by itself."""

    line: Line
    verb: Verb
    node: str
    text: str
    payload: bytes
    ordered: bool
    at_us: int | None


def entry_of(line: Line) -> Entry:
    """Read one line; raise WorkloadError with its number if it is invalid."""
    verb = _verb(line)
    for key in line.fields:
        if key != verb and key not in _BESIDE[verb]:
            line.fail(f"{key} has no meaning beside {verb}; leave it out")
    node = line.node() if "node" in _BESIDE[verb] else ""
    text = ""
    if verb in _WITH_TEXT:
        text = line.text(verb)
    elif line.fields[verb] is not True:
        line.fail(f"{verb} can only be true, {found(line.fields, verb)}")
    payload = line.payload("payload", line.text("payload")) if "payload" in line.fields else b""
    return Entry(line, verb, node, text, payload, _ordered(line), _at_us(line))


def _verb(line: Line) -> Verb:
    for key in line.fields:
        if key not in _KEYS:
            line.fail(f"unknown key {key!r}; the keys are {', '.join(sorted(_KEYS))}")
    verbs = [Verb(key) for key in line.fields if key in _BESIDE]
    if not verbs:
        line.fail(f"nothing to do; write one of {', '.join(_BESIDE)}")
    if len(verbs) > 1:
        line.fail(f"{' and '.join(verbs)} in one line; write a line for each")
    return verbs[0]


def _ordered(line: Line) -> bool:
    ordered = line.fields.get("ordered", False)
    if not isinstance(ordered, bool):
        line.fail(f"ordered is true or false, {found(line.fields, 'ordered')}")
    return ordered


def _at_us(line: Line) -> int | None:
    if "at_ms" not in line.fields:
        return None
    at_ms = line.fields["at_ms"]
    if isinstance(at_ms, bool) or not isinstance(at_ms, int | float):
        line.fail(f"at_ms is a number of milliseconds, {found(line.fields, 'at_ms')}")
    if not 0 <= at_ms <= AT_MS_MAX:
        line.fail(f"at_ms lies between 0 and {AT_MS_MAX}, {found(line.fields, 'at_ms')}")
    return round(at_ms * 1000)
