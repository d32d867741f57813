"""An application of a soak ends a subscription when it has all that it is owed."""

from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from smartpubsub.kademlia.settings import SECOND
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.publication import EventId, Publication
from smartpubsub.protocols.pubsub import Delivery, Published, Subscribed, Subscription
from smartpubsub.protocols.spec import ProtocolOptions
from smartpubsub.sim.experiments.calls import Call
from smartpubsub.sim.experiments.running import RunOptions
from smartpubsub.testbed.messages import Delivered, Note, Value
from smartpubsub.testbed.soak.interests import Interest
from smartpubsub.testbed.soak.plan import Fault, Kind
from smartpubsub.testbed.soak.run import Soak, SoakOptions
from smartpubsub.testbed.soak.whole import WholeNode

SURF = Predicate.parse("surf")
EVENT = Publication.of(EventId(b"publisher", 1, 1), SURF, b"", b"signature", 0)
DELIVERY = Delivery(EVENT, (1,), 1)


class _Told:
    """A cluster that notes what nodes are told."""

    def __init__(self) -> None:
        self.kinds: list[str] = []

    async def send(self, command: object) -> None:
        self.kinds.append(type(command).__name__)


def soak_with_an_event_under_way(monkeypatch: pytest.MonkeyPatch) -> tuple[Soak, _Told]:
    """Node 1 has had a subscription in force, and lacks an event of half a minute ago."""
    options = RunOptions(protocol="scoutsubs", protocol_options=ProtocolOptions(), nodes=2, seed=1)
    soak, told = Soak(options, SoakOptions(seconds=1, rate=1)), _Told()
    monkeypatch.setattr(Soak, "now", 60 * SECOND)
    monkeypatch.setattr(soak, "_cluster", told, raising=False)
    soak._present[1] = [Interest(SURF, keep=False)]
    soak._ready[1] = None
    notes: list[tuple[int, Value]] = [
        (1, Call("subscribe", 1, SURF)),
        (1, Delivered(0, Subscribed(Subscription(1, SURF)))),
        (0, Call("publish", EVENT.id, SURF, 0)),
        (0, Delivered(0, Published(EVENT.id, ()))),
    ]
    for at, (node, value) in enumerate(notes, 30 * SECOND):
        soak._ledger.enter(Note(at, node, value))
    return soak, told


@pytest.mark.parametrize("is_down", [False, True])
def test_a_subscription_ends_when_the_events_of_before_have_come(
    monkeypatch: pytest.MonkeyPatch, *, is_down: bool
) -> None:
    soak, told = soak_with_an_event_under_way(monkeypatch)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(soak._resubscribe, Fault(Kind.SUBSCRIPTIONS, 1, 1.0))
            await wait_all_tasks_blocked()
            await soak._resubscribe(Fault(Kind.SUBSCRIPTIONS, 1, 1.0))  # One at a time.
            await trio.sleep(60)
            assert told.kinds == []
            if is_down:
                soak._struck[1] = Kind.KILLS
            soak._ledger.enter(Note(61 * SECOND, 1, Delivered(0, DELIVERY)))
            await trio.sleep(60)
            assert (told.kinds == []) == is_down
            soak._struck.clear()

    trio.run(main, clock=MockClock(autojump_threshold=0))
    assert told.kinds == ["StopReading", "Read"]
    assert soak._present[1][0].predicate != SURF


def test_at_the_end_of_a_soak_a_subscription_still_waits_for_an_event(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    soak, told = soak_with_an_event_under_way(monkeypatch)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(soak._resubscribe, Fault(Kind.SUBSCRIPTIONS, 1, 1.0))
            await wait_all_tasks_blocked()
            soak._ends.set()

    trio.run(main, clock=MockClock(autojump_threshold=0))
    assert told.kinds == []
    assert soak._ledger.given_up_us == {}
    assert soak._present[1] == [Interest(SURF, keep=False)]


class _Node:
    """A node with one subscription."""

    def has(self, number: int) -> bool:
        return number == 1

    def is_on_disk(self, _: int) -> bool:
        return False


def test_an_event_that_the_node_drops_since_the_subscription_has_ended_is_not_noted() -> None:
    noted: list[tuple[int, ...]] = []
    whole: Any = WholeNode.__new__(WholeNode)
    whole._node = _Node()
    whole._note_delivery = lambda _, numbers: noted.append(tuple(numbers))

    whole._on_deliver(DELIVERY._replace(subscriptions=(1, 2)))
    assert noted == [(1,)]
