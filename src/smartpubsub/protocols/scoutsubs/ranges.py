"""Acknowledgements of consecutive events of a publisher, sent as one message.

Components queue one message for each event. Before a bundle is sent, those that follow each other
become one; the receiver takes it apart before any component sees it.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Any, NamedTuple

from smartpubsub.protocols.evidence import RANGE_BYTES, STEP_BYTES
from smartpubsub.protocols.publication import SIGNATURE_BYTES, EventId
from smartpubsub.protocols.scoutsubs.messages import (
    RANGE_COUNT_MAX,
    Admitted,
    Confirm,
    Done,
    Part,
    Recorded,
)

_RANGED = frozenset({Admitted, Confirm, Done, Recorded})
_NUMBER_MAX = (1 << 32) - 1
"""Of an event."""
_RANGE = Struct(">II")
"""The number of the first event, and how many follow it."""


class EventRange(NamedTuple):
    """Consecutive events of one incarnation of a publisher."""

    first: EventId
    more: int

    def __contains__(self, id: object) -> bool:
        if not isinstance(id, EventId):
            return False
        publisher, incarnation, number = self.first
        is_same = id.publisher == publisher and id.incarnation == incarnation
        return is_same and number <= id.number <= number + self.more


def in_ranges(queue: list[Any]) -> list[Part]:
    """Messages with the acknowledgements of consecutive events as one.

    It takes the place of its last message. That an acknowledgement comes later changes nothing,
    except for `Done`: it must not follow a `Record` of the same event that it preceded.
    """
    if _RANGED.isdisjoint(map(type, queue)):
        return queue
    found: list[Any] = []
    places: dict[tuple[Any, ...], int] = {}
    places_of_done: dict[tuple[Any, ...], int] = {}
    for part in queue:
        kind = type(part)
        if kind not in _RANGED:
            places_of_done.clear()
            found.append(part)
            continue
        (publisher, incarnation, number), *said = part
        known, about = places, (kind, publisher, incarnation, *said)
        if kind is Done:
            known = places_of_done
        place = known.get(about, -1)
        before = None if place < 0 else found[place]
        if (
            before is not None
            and before.id.number + before.more + 1 == number
            and before.more + 1 < RANGE_COUNT_MAX
        ):
            found[place] = None
            part = kind(*before[:-1], before.more + 1)
        known[about] = len(found)
        found.append(part)
    return [part for part in found if part is not None]


def is_range(part: Any) -> bool:
    """Whether a message acknowledges several events."""
    return type(part) in _RANGED and part.more > 0


def singly(part: Any) -> Iterator[Any]:
    """The message for each of the events that a message acknowledges."""
    (publisher, incarnation, number), more = part.id, min(part.more, RANGE_COUNT_MAX - 1)
    single = part._replace(more=0)
    if type(part) in (Admitted, Recorded) and part.evidence:
        single = single._replace(evidence=part.evidence + _RANGE.pack(number, more))
    kind, said = type(part), single[1:]
    for each in range(number, min(number + more, _NUMBER_MAX) + 1):
        yield kind(EventId(publisher, incarnation, each), *said)


def range_in(evidence: bytes, id: EventId) -> tuple[EventRange, bytes]:
    """The events that evidence for one of them is about, and what the signer has made."""
    if (len(evidence) - SIGNATURE_BYTES) % STEP_BYTES != RANGE_BYTES:
        return EventRange(id, 0), evidence
    number, more = _RANGE.unpack(evidence[-RANGE_BYTES:])
    return EventRange(id._replace(number=number), more), evidence[:-RANGE_BYTES]
