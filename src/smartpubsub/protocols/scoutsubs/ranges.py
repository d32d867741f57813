"""Acknowledgements of consecutive events of a publisher, sent as one message.

Components queue one message for each event. Before a bundle is sent, those that follow each other
become one; the receiver takes it apart before any component sees it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Any, NamedTuple

from smartpubsub.protocols.evidence import STEP_BYTES
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


def in_ranges(queue: Iterable[Any]) -> list[Part]:
    """Messages with the acknowledgements of consecutive events as one.

    It takes the place of its last message, and no message of another kind comes between them: an
    acknowledgement stays behind the messages that it followed.
    """
    found: list[Any] = []
    places: dict[tuple[Any, ...], int] = {}
    for part in queue:
        if type(part) not in _RANGED:
            places.clear()
            found.append(part)
            continue
        (publisher, incarnation, number), *said = part
        about = (type(part), publisher, incarnation, *said)
        place = places.get(about, -1)
        before = None if place < 0 else found[place]
        if (
            before is not None
            and before.id.number + before.more + 1 == number
            and before.more + 1 < RANGE_COUNT_MAX
        ):
            found[place] = None
            part = before._replace(more=before.more + 1)
        places[about] = len(found)
        found.append(part)
    return [part for part in found if part is not None]


def singly(part: Any) -> Iterator[Part]:
    """The message for each of the events that a message acknowledges."""
    (publisher, incarnation, number), more = part.id, min(part.more, RANGE_COUNT_MAX - 1)
    single = part._replace(more=0)
    if type(part) in (Admitted, Recorded) and part.evidence:
        single = single._replace(evidence=part.evidence + _RANGE.pack(number, more))
    for each in range(number, min(number + more, _NUMBER_MAX) + 1):
        yield single._replace(id=EventId(publisher, incarnation, each))


def range_in(evidence: bytes, id: EventId) -> tuple[EventRange, bytes]:
    """The events that evidence for one of them is about, and what the signer has made."""
    if (len(evidence) - SIGNATURE_BYTES) % STEP_BYTES != _RANGE.size:
        return EventRange(id, 0), evidence
    number, more = _RANGE.unpack(evidence[-_RANGE.size :])
    return EventRange(id._replace(number=number), more), evidence[: -_RANGE.size]
