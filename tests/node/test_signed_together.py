"""Events that wait at the same time share a signature, and keep the order of their calls."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import cast

import pytest
import trio

from smartpubsub import Node
from smartpubsub.node.api.event_records import Content
from smartpubsub.node.api.events import Event
from smartpubsub.node.api.signed_together import SignedTogether
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.evidence import STATEMENTS_MAX
from smartpubsub.protocols.node import NodeCore
from smartpubsub.protocols.publication import SIGNATURE_BYTES, EventId, Publication
from tests.node.hosts import LOOPBACK, run

SURF = Predicate.parse("surf")


class Numbered:
    """A core that only numbers events."""

    def __init__(self, incarnation: int = 1) -> None:
        self._incarnation = incarnation
        self._last = 0
        self.batches: list[int] = []

    @property
    def last_event(self) -> EventId:
        return EventId(b"own", self._incarnation, self._last)

    def new_events(
        self, contents: Iterable[tuple[Predicate, bytes]], now: int
    ) -> list[Publication]:
        made = []
        for predicate, payload in contents:
            self._last += 1
            made.append(Publication.of(self.last_event, predicate, payload, b"", now))
        self.batches.append(len(made))
        return made

    def skip(self) -> None:
        """Make an event for somebody else."""
        self._last += 1


def together_on(core: Numbered) -> SignedTogether:
    return SignedTogether(lambda: cast(NodeCore, core))


def content(number: int) -> Content:
    return Content(SURF, str(number).encode())


def test_all_that_wait_are_made_at_once_and_each_has_its_own() -> None:
    core = Numbered()
    together = together_on(core)
    waiting = [together.add(content(number)) for number in range(STATEMENTS_MAX + 3)]

    events = [together.event_of(each, 7) for each in waiting]

    assert [event.payload for event in events] == [str(n).encode() for n in range(len(waiting))]
    assert [event.id.number for event in events] == list(range(1, len(waiting) + 1))
    assert core.batches == [STATEMENTS_MAX, 3]


def test_an_event_that_nobody_waits_for_any_more_is_passed_over() -> None:
    core = Numbered()
    together = together_on(core)
    first, gone, also_gone, last = [together.add(content(number)) for number in range(4)]
    assert together.event_of(first, 7).payload == b"0"
    together.forget(gone)
    together.forget(also_gone)

    assert together.event_of(last, 7).payload == b"3"
    assert core.batches == [4]


def test_numbers_follow_the_order_of_the_calls_when_other_events_are_made_in_between() -> None:
    core = Numbered()
    together = together_on(core)
    waiting = [together.add(content(number)) for number in range(500)]
    numbers = []
    for each in waiting:
        numbers.append(together.event_of(each, 7).id.number)
        core.skip()
        numbers.append(core.last_event.number)

    assert numbers == sorted(numbers)
    assert sum(core.batches) < 3 * len(waiting), "events are made again and again"


def test_events_for_a_core_that_was_replaced_are_made_again() -> None:
    cores = [Numbered(1), Numbered(2)]
    together = SignedTogether(lambda: cast(NodeCore, cores[0]))
    first, second = together.add(content(1)), together.add(content(2))
    assert together.event_of(first, 7).id == EventId(b"own", 1, 1)
    del cores[0]

    assert together.event_of(second, 7).id == EventId(b"own", 2, 1)


@pytest.mark.parametrize("protocol", ["scoutsubs", "gossipsub"])
def test_events_that_are_published_at_once_share_a_signature_where_the_protocol_knows_that(
    tmp_path: Path, protocol: str
) -> None:
    async def main() -> None:
        async with (
            Node(data=tmp_path, listen=[LOOPBACK], protocol=protocol) as node,
            node.subscribe("surf") as events,
            trio.open_nursery() as nursery,
        ):
            for number in range(20):
                nursery.start_soon(node.publish, "surf", str(number).encode())
            got = [await anext(events) for _ in range(20)]
        assert {event.payload for event in got} == {str(number).encode() for number in range(20)}
        signed = [event.signed for event in got if event.signed is not None]
        assert len(signed) == len(got)
        alone = [event for event in signed if len(event.signature) == SIGNATURE_BYTES]
        assert len(alone) == (20 if protocol == "gossipsub" else 0)
        assert {Event.from_block(event.to_block()).id for event in got} == {e.id for e in got}

    run(main)
