"""The requests of the control socket: their fields, and how to parse them."""

from __future__ import annotations

import base64
import json
from binascii import Error as Base64Error
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from smartpubsub.errors import SmartPubSubError
from smartpubsub.node.api.choices import (
    ACKNOWLEDGE_S_MAX,
    BUFFER_COUNT_MAX,
    Overflow,
    Wait,
    choice,
)
from smartpubsub.node.api.event_records import checked_key
from smartpubsub.node.configuration import ATTRIBUTE_COUNT_MAX
from smartpubsub.node.errors import LimitError
from smartpubsub.node.tracking import EventFacts
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.blocks import Cid, cid_from_text
from smartpubsub.protocols.publication import PAYLOAD_BYTES_MAX, event_id_from_text, too_long

RequestId: TypeAlias = int | str | None

_ID_CHARACTERS_MAX = 100
_TEXT_CHARACTERS_MAX = 1_000
_LIMIT_MAX = 1 << 53
_S_MAX = 600.0
EVENTS_AT_ONCE_MAX = 1_000
PROBLEM_CHARACTERS_MAX = 2_000
"""A problem repeats what the client has sent, which may be a line of megabytes, and goes to the
log."""


class RequestError(Exception):
    """A malformed request."""

    def __init__(self, problem: str, id: RequestId = None, kind: str = "ControlError") -> None:
        super().__init__(_shortened(problem))
        self.id = id
        self.kind = kind
        """The class of the error that a client raises."""


@dataclass(frozen=True)
class Request:
    """A request with checked fields, and with defaults for omitted ones."""

    id: RequestId
    do: str
    fields: dict[str, Any]

    @property
    def has_page(self) -> bool:
        """Whether the answer has a page of blocks."""
        return _PAGE.keys() <= self.fields.keys()


def _shortened(problem: str) -> str:
    """Leave out the middle of a long problem, which ends with what to do.

    >>> _shortened("a" * 3_000 + "; send less")[-20:]
    'aaaaaaaaa; send less'
    """
    half = PROBLEM_CHARACTERS_MAX // 2
    if len(problem) <= 2 * half:
        return problem
    return f"{problem[: half - 5]} ... {problem[-half:]}"


def request_of(line: bytes) -> Request:
    """Read a request."""
    try:
        content = json.loads(line)
    except (ValueError, RecursionError):
        raise RequestError("not a line of JSON") from None
    if not isinstance(content, dict):
        raise RequestError("not a JSON object")
    id = content.pop("id", None)
    if not _is_id(id):
        raise RequestError(f"an id is a number or at most {_ID_CHARACTERS_MAX} characters")
    do = content.pop("do", None)
    if not isinstance(do, str) or do not in _FIELDS:
        raise RequestError(f'"do" is one of {", ".join(_FIELDS)}', id)
    try:
        return Request(id, do, _fields_of(content, _FIELDS[do]))
    except SmartPubSubError as error:
        raise RequestError(f"{do}: {error}", id, type(error).__name__) from None
    except ValueError as error:
        raise RequestError(f"{do}: {error}", id) from None


def _is_id(value: object) -> bool:
    if isinstance(value, str):
        return len(value) <= _ID_CHARACTERS_MAX
    return value is None or (type(value) is int and abs(value) <= _LIMIT_MAX)


@dataclass(frozen=True)
class _Field:
    read: Callable[[Any], object]
    """Converts the value; a ValueError says what is wrong."""
    default: object = ...
    """The value of an omitted field; without one, the field is required."""


def _fields_of(content: dict[str, Any], allowed: dict[str, _Field]) -> dict[str, Any]:
    for name in content:
        if name not in allowed:
            raise ValueError(f"there is no field {name[:_ID_CHARACTERS_MAX]!r}")
    fields = {}
    for name, field in allowed.items():
        if name not in content and field.default is ...:
            raise ValueError(f"the field {name!r} is missing")
        fields[name] = field.read(content[name]) if name in content else field.default
    return fields


def _predicate(value: object) -> Predicate:
    if not isinstance(value, str):
        raise ValueError("a predicate is written as text")
    return Predicate.parse(value, ATTRIBUTE_COUNT_MAX)  # The node has a limit of its own.


def _bytes(value: object, what: str) -> bytes:
    try:
        read = base64.b64decode(value, validate=True) if isinstance(value, str) else None
    except (Base64Error, ValueError):
        read = None
    if read is None:
        raise ValueError(f"{what} is written in base 64")
    return read


def _payload(value: object) -> bytes:
    payload = _bytes(value, "a payload")
    if len(payload) > PAYLOAD_BYTES_MAX:
        raise LimitError(too_long())
    return payload


def _new_events(value: object) -> list[tuple[Predicate | None, bytes, str]]:
    """Events to publish: predicates, payloads and keys; in a topic without predicates."""
    if not isinstance(value, list) or not 1 <= len(value) <= EVENTS_AT_ONCE_MAX:
        raise ValueError(f"a list of 1 to {EVENTS_AT_ONCE_MAX} events")
    return [_new_event(each) for each in value]


def _new_event(value: object) -> tuple[Predicate | None, bytes, str]:
    if not isinstance(value, dict) or not value.keys() <= {"event", "payload", "key"}:
        raise ValueError("an event is an object with an event, a payload and a key")
    event = value.get("event")
    predicate = None if event is None else _predicate(event)
    return predicate, _payload(value.get("payload", "")), _key(value.get("key"))


def _wait(value: object) -> Wait:
    return choice(Wait, _text(value), "wait")


def _overflow(value: object) -> Overflow:
    return choice(Overflow, _text(value), "overflow")


def _key(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("a key is a text")
    return checked_key(value)


def _event_id(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("an event's id is a text")
    event_id_from_text(value)
    return value


def _facts(value: object) -> EventFacts:
    if not isinstance(value, dict):
        raise ValueError("the facts that another node remembers of an event are an object")
    return EventFacts.read(value)


def _text(value: object) -> str:
    if not isinstance(value, str) or not 1 <= len(value) <= _TEXT_CHARACTERS_MAX:
        raise ValueError(f"a text of 1 to {_TEXT_CHARACTERS_MAX} characters")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError("a text in UTF-8") from None
    return value


def _texts(value: object) -> list[str]:
    if not isinstance(value, list):
        raise ValueError("a list of texts")
    return [_text(each) for each in value]


def _links(value: object) -> dict[str, str | None]:
    """Topic ids by name; null removes a sub-topic."""
    if not isinstance(value, dict):
        raise ValueError("sub-topics are an object, each a topic's content id by its name")
    return {_text(name): None if id is None else _text(id) for name, id in value.items()}


def _heads(value: object) -> dict[Cid, int]:
    """Heights by content id."""
    if not isinstance(value, dict):
        raise ValueError("heads are an object, each a height by a content id")
    return {cid_from_text(_text(cid)): _count(height) for cid, height in value.items()}


def _blocks(value: object) -> list[bytes]:
    if not isinstance(value, list):
        raise ValueError("blocks are a list, each written in base 64")
    return [_bytes(each, "a block") for each in value]  # The core checks their size.


def _request_id(value: object) -> object:
    if not _is_id(value):
        raise ValueError("the id of a request")
    return value


def _reply(value: object) -> str | None:
    """A reason for a refusal, "" for none, or null if nothing is decided."""
    return None if value is None else "" if value == "" else _text(value)


def _switch(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("a switch is true or false")
    return value


def _count(value: object) -> int:
    if type(value) is not int or not 0 <= value <= _LIMIT_MAX:
        raise ValueError("a number is whole, and not negative")
    return value


def _positive(value: object) -> int:
    if _count(value) == 0:
        raise ValueError("a number from 1 on")
    return _count(value)


def _seconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= _S_MAX:
        raise ValueError(f"a time is a number of seconds up to {_S_MAX:g}")
    return float(value)


_READING = {
    "limit": _Field(_count, None),
    "overflow": _Field(_overflow, Overflow.DROP_OLDEST),
    "buffer_count_max": _Field(_count, BUFFER_COUNT_MAX),
    "proof": _Field(_switch, False),
    "window": _Field(_count, None),
}
"""How events are sent.

With "proof" each has its signature, or the whole block. With "window" the node sends so many
events, and then as many as the client requests by "more".
"""

_PAST = {"since": _Field(_text, None), "last": _Field(_count, None)}

_PAGE = {"raw": _Field(_switch, False)}
"""Whether the page may follow the line as bytes."""

_JOURNAL = {"subscription": _Field(_count), "epoch": _Field(_text)}

_TOPIC_RULES = {
    "ordered": _Field(_switch, False),
    "publishers": _Field(_texts, None),
    "requesters": _Field(_texts, None),
    "linking": _Field(_text, None),
    "subtopics": _Field(_links, {}),
}
"""The rules of a topic; an omitted rule has its default, or does not change."""

_FIELDS: dict[str, dict[str, _Field]] = {
    "info": {},
    "metrics": {},
    "peers": {},
    "subscriptions": {},
    "publish": {
        "event": _Field(_predicate),
        "payload": _Field(_payload, b""),
        "wait": _Field(_wait, Wait.RENDEZVOUS),
        "key": _Field(_key, None),
        "again": _Field(_event_id, None),
        "replicas_min": _Field(_count, 0),
        "deadline_s": _Field(_seconds, ACKNOWLEDGE_S_MAX),
    },
    "publish-all": {
        "events": _Field(_new_events),
        "topic": _Field(_text, None),
        "deadline_s": _Field(_seconds, ACKNOWLEDGE_S_MAX),
    },
    "event": {"event": _Field(_event_id)},
    "event-facts": {"event": _Field(_event_id)},
    "why": {
        "event": _Field(_event_id),
        "subscription": _Field(_count, None),
        "filter": _Field(_predicate, None),
        "publisher_facts": _Field(_facts, None),
    },
    "subscribe": {
        "predicate": _Field(_predicate),
        "keep": _Field(_switch, False),
        **_PAST,
        **_READING,
    },
    "more": {"of": _Field(_request_id), "count": _Field(_count)},
    "past-events": {
        "predicate": _Field(_predicate),
        "since": _Field(_text),
        "until_us": _Field(_count),
        "part": _Field(_count, 0),
        "parts": _Field(_positive, 1),
        "first": _Field(_count, 0),
        "limit": _Field(_count, None),
        **_PAGE,
    },
    "journal-open": {"predicate": _Field(_predicate), "since": _Field(_text, None)},
    "journal-state": _JOURNAL,
    "journal-read": {**_JOURNAL, "first": _Field(_count), "end": _Field(_count), **_PAGE},
    "journal-take": {**_JOURNAL, "end": _Field(_count)},
    "take": {"subscription": _Field(_count), "event": _Field(_text)},
    "unsubscribe": {"subscription": _Field(_count)},
    "group-create": {
        "group": _Field(_predicate),
        "private": _Field(_switch, False),
        "advertised": _Field(_switch, True),
        "asks": _Field(_switch, False),
    },
    "answer": {
        "of": _Field(_request_id),
        "number": _Field(_count),
        "reply": _Field(_reply),
    },
    "group-list": {},
    "group-advertise": {"group": _Field(_predicate)},
    "group-invite": {"group": _Field(_predicate), "peer": _Field(_text)},
    "group-search": {"predicate": _Field(_predicate)},
    "group-join": {
        "group": _Field(_predicate),
        "owner": _Field(_text),
        "wanted": _Field(_predicate, None),
        "invitation": _Field(_payload, b""),
        "everywhere": _Field(_switch, False),
        "deadline_s": _Field(_seconds, ACKNOWLEDGE_S_MAX),
        **_READING,
    },
    "group-publish": {
        "group": _Field(_predicate),
        "event": _Field(_predicate),
        "payload": _Field(_payload, b""),
        "wait": _Field(_wait, Wait.RENDEZVOUS),
        "everywhere": _Field(_switch, False),
        "key": _Field(_key, None),
        "deadline_s": _Field(_seconds, ACKNOWLEDGE_S_MAX),
    },
    "topic-list": {"proof": _Field(_switch, False)},
    "topic-create": {"name": _Field(_text), **_TOPIC_RULES},
    "topic-update": {"topic": _Field(_text), **_TOPIC_RULES, "ordered": _Field(_switch, None)},
    "topic-pin": {"topic": _Field(_text), "pinned": _Field(_switch, True)},
    "topic-show": {"topic": _Field(_text), "proof": _Field(_switch, False)},
    "topic-publish": {
        "topic": _Field(_text),
        "payload": _Field(_payload, b""),
        "parents": _Field(_texts, None),
        "wait": _Field(_wait, Wait.RENDEZVOUS),
        "key": _Field(_key, None),
        "deadline_s": _Field(_seconds, ACKNOWLEDGE_S_MAX),
    },
    "topic-subscribe": {
        "topic": _Field(_text),
        "keep": _Field(_switch, False),
        **_PAST,
        **_READING,
    },
    "topic-history": {"topic": _Field(_text), "proof": _Field(_switch, False), **_PAST},
    "topic-heads": {
        "topic": _Field(_text),
        "after": _Field(_heads, {}),
        "until": _Field(_heads, None),
        "limit": _Field(_count, None),
        "before_us": _Field(_count, None),
        "proof": _Field(_switch, False),
    },
    "topic-range": {
        "topic": _Field(_text),
        "after": _Field(_heads),
        "until": _Field(_heads),
        "first": _Field(_count, 0),
        "limit": _Field(_count, None),
        **_PAGE,
    },
    "topic-export": {"topic": _Field(_text)},
    "topic-import": {"blocks": _Field(_blocks)},
    "group-end": {"group": _Field(_predicate)},
    "group-leave": {"group": _Field(_predicate), "owner": _Field(_text, None)},
}
