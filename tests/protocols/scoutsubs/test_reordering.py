"""Events that wait at the rendezvous for their predecessors."""

import pytest

from smartpubsub.kademlia.settings import SECOND
from smartpubsub.protocols.scoutsubs.messages import Raise
from tests.protocols.scoutsubs.forest import MS, Forest


def test_a_chain_of_waiting_events_keeps_its_order_when_later_ones_wait_shorter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As when answers come sooner and sooner."""
    forest = Forest(5)
    forest.subscribed(4, "surf")
    admission, outbox = forest.scouts(0)._admission, forest.scouts(0)._outbox
    set_timer = outbox.set_timer
    waits_ms = iter([900, 700, 500, 300])

    def set_shorter_timer(name: tuple[object, ...], after_us: int) -> None:
        is_first = name[0] == "reorder" and name not in seen
        seen[name] = None
        set_timer(name, next(waits_ms) * MS if is_first else after_us)

    seen: dict[tuple[object, ...], None] = {}
    monkeypatch.setattr(outbox, "set_timer", set_shorter_timer)
    forest.cut(3, 0, 15 * MS)
    lost = forest.publish(3, "surf")
    forest.run(20 * MS)
    ids = []
    for _ in range(4):
        ids.append(forest.publish(3, "surf"))
        forest.run(10 * MS)
    forest.run(10 * SECOND)

    assert [id for id in forest.received(4) if id != lost] == ids
    assert forest.received(4).count(lost) == 1
    assert not len(admission)


@pytest.mark.parametrize("later", [0, 1])
def test_no_event_waits_for_one_that_does_not_come_before_it(later: int) -> None:
    forest = Forest(5)
    forest.subscribed(4, "surf")
    id = forest.publish(3, "surf")
    forest.run(SECOND)
    (part,) = [s.part for s in forest.said if isinstance(s.part, Raise) and s.receiver == 0]
    event = forest.event(3, id.number + 10, "surf")
    forest.receive(3, 0, part._replace(event=event, previous=event.id.number + later))
    assert forest.held(0, "events that wait for a predecessor") == 0
    assert forest.holders(event.id) != [] or forest.receivers(event.id) == [4]


def test_a_replica_that_becomes_rendezvous_does_not_wait_for_a_completed_predecessor() -> None:
    forest = Forest(5)
    forest.subscribed(4, "surf")
    first = forest.published(1, "surf")
    forest.run(5 * SECOND)
    forest.crash(0)
    forest.run_until(lambda: forest.roots() == [1])

    second = forest.publish(1, "surf")
    forest.run(200 * MS)

    assert forest.is_published(second)
    assert forest.received(4) == [first, second]
