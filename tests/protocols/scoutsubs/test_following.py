"""Events that wait at the rendezvous for the one before them."""

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
    following = forest.scouts(0).office.following
    wait = following.wait
    waits_ms = iter([900, 700, 500, 300])
    monkeypatch.setattr(following, "wait", lambda part, _: wait(part, next(waits_ms) * MS))
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
    assert (len(following), len(following._waiting)) == (0, 0)


@pytest.mark.parametrize("later", [0, 1])
def test_no_event_waits_for_one_that_does_not_come_before_it(later: int) -> None:
    forest = Forest(5)
    forest.subscribed(4, "surf")
    id = forest.publish(3, "surf")
    forest.run(SECOND)
    (part,) = [s.part for s in forest.said if isinstance(s.part, Raise) and s.receiver == 0]
    admitting = forest.scouts(0).office.admitting
    assert not admitting._has_to_wait(part._replace(previous=id.number + later))
    assert admitting.waiting_count == 0
