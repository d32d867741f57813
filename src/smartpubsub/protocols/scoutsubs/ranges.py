"""Acknowledgements of consecutive events of a publisher, sent as one message.

Components queue one message for each event. Before the outbox sends a bundle, it joins those of
consecutive events; the receiver takes them apart before any component sees them.
"""

from __future__ import annotations

from dataclasses import dataclass
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
from smartpubsub.seam.tuples import made

RANGED = frozenset({Admitted, Confirm, Done, Recorded})
"""The messages that may cover several events."""
_NUMBER_MAX = (1 << 32) - 1
"""The highest number of an event."""
_MORE_MAX = RANGE_COUNT_MAX - 1
_RANGE = Struct(">II")
"""The number of the first event, and how many follow it."""


class EventRange(NamedTuple):
    """Consecutive events of one incarnation of a publisher."""

    first: EventId
    more: int

    def __contains__(self, id: object) -> bool:
        if type(id) is not EventId:
            return False
        (publisher, incarnation, first), more = self
        whose, of, number = id
        return first <= number <= first + more and whose == publisher and of == incarnation


def in_ranges(queue: list[Any]) -> list[Part]:
    """Join the acknowledgements of consecutive events in a queue of messages.

    The joined message takes the place of the last one. An acknowledgement may come later, except
    for `Done`: it must not move behind a `Record` of the same event.
    """
    if RANGED.isdisjoint(map(type, queue)):
        return queue
    found: list[Any] = []
    runs: dict[tuple[Any, ...], _Run] = {}
    runs_of_done: dict[tuple[Any, ...], _Run] = {}
    for part in queue:
        kind = type(part)
        if kind not in RANGED or part[-1]:
            runs_of_done.clear()
            found.append(part)
            continue
        publisher, incarnation, number = part[0]
        known = runs_of_done if kind is Done else runs
        about = (kind, publisher, incarnation, part[1:])
        run = known.get(about)
        if run is None or run.first[0][2] + run.more + 1 != number or run.more == _MORE_MAX:
            known[about] = run = _Run(part)
        else:
            run.more += 1
            found[run.place] = None
        run.place = len(found)
        found.append(run)
    return [
        part if type(part) is not _Run else part.message() for part in found if part is not None
    ]


@dataclass(slots=True, eq=False)
class _Run:
    """Equal messages about consecutive events."""

    first: Any
    more: int = 0
    place: int = 0

    def message(self) -> Any:
        return self.first._replace(more=self.more) if self.more else self.first


def is_range(part: Any) -> bool:
    """Whether a message acknowledges several events."""
    return type(part) in RANGED and part.more > 0


def singly(part: Any) -> list[Any]:
    """The message for each of the events that a message acknowledges."""
    (publisher, incarnation, number), more = part.id, min(part.more, RANGE_COUNT_MAX - 1)
    single = part._replace(more=0)
    if type(part) in (Admitted, Recorded) and part.evidence:
        single = single._replace(evidence=part.evidence + _RANGE.pack(number, more))
    kind, said = type(part), single[1:]
    return [
        made(kind, (made(EventId, (publisher, incarnation, each)), *said))
        for each in range(number, min(number + more, _NUMBER_MAX) + 1)
    ]


def range_in(evidence: bytes, id: EventId) -> tuple[EventRange, bytes]:
    """The events that evidence for one of them covers, and the evidence as signed."""
    beyond_signature = len(evidence) - SIGNATURE_BYTES
    if beyond_signature < RANGE_BYTES or beyond_signature % STEP_BYTES != RANGE_BYTES:
        return EventRange(id, 0), evidence
    number, more = _RANGE.unpack(evidence[-RANGE_BYTES:])
    return EventRange(id._replace(number=number), more), evidence[:-RANGE_BYTES]
