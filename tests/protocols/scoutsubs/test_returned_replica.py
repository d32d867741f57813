"""A replica that was away when an event was completed asks before it sends the event again."""

import pytest

from smartpubsub.kademlia.settings import MINUTE, SECOND
from smartpubsub.protocols.publication import EventId
from smartpubsub.protocols.runtime.rules import refusal_of
from smartpubsub.protocols.scoutsubs.messages import Done, Recorded
from smartpubsub.protocols.scoutsubs.settings import ScoutSettings
from tests.protocols.scoutsubs.forest import Forest

WITH_HISTORY = ScoutSettings(history_us_max=60 * MINUTE)


def completed_without_replica(settings: ScoutSettings) -> tuple[Forest, EventId]:
    """Node 1, a replica of node 0, was down when an event of node 4 reached node 5."""
    forest = Forest(6, settings)
    forest.subscribed(5, "surf")
    forest.cut(5, 0, 10 * SECOND)  # Node 0 cannot complete the event yet.
    id = forest.published(4, "surf")
    forest.crash(1)
    forest.run(MINUTE)
    assert forest.holders(id) == []
    forest.join(1, 2)
    forest.run_until(lambda: forest.holders(id) == [1])
    return forest, id


@pytest.mark.parametrize("settings", [ScoutSettings(), WITH_HISTORY], ids=["", "history"])
def test_a_later_subscription_does_not_get_an_event_from_a_replica_that_was_away(
    settings: ScoutSettings,
) -> None:
    forest, id = completed_without_replica(settings)
    forest.run(30 * SECOND)
    assert forest.holders(id) == []

    forest.subscribed(3, "surf")
    forest.crash(0)
    forest.run(2 * MINUTE)

    assert forest.roots() == [1]
    assert forest.receivers(id) == [5]


def test_a_rendezvous_that_has_restarted_knows_from_its_history_what_it_has_completed() -> None:
    forest, id = completed_without_replica(WITH_HISTORY)
    forest.crash(0)
    forest.join(0, 2)

    forest.run_until(lambda: forest.holders(id) == [])

    assert forest.receivers(id) == [5]


def test_a_replica_whose_done_was_lost_asks_for_it() -> None:
    forest = Forest(6)
    forest.subscribed(5, "surf")
    forest.cut(5, 0, 10 * SECOND)
    id = forest.published(4, "surf")
    forest.run_until(lambda: not forest.scouts(0)._dissemination.root_flights())
    forest.cut(0, 1, SECOND)
    forest.run_until(lambda: forest.count(Done).total() > 0)
    forest.run(SECOND)
    assert forest.holders(id) == [1]

    forest.run(2 * MINUTE)

    assert forest.holders(id) == []


def test_a_replica_keeps_an_event_that_is_not_completed_and_asks_seldom() -> None:
    forest = Forest(6)
    forest.subscribed(5, "surf")
    forest.cut(5, 0, 20 * MINUTE)
    id = forest.published(4, "surf")
    before = forest.count(Recorded)[0]

    forest.run(18 * MINUTE)

    assert forest.holders(id) == [0, 1, 2]
    assert forest.count(Recorded)[0] - before == 2 * 4  # After 1, 2, 5 and 10 minutes.


def test_a_rendezvous_that_never_had_an_event_does_not_say_that_it_is_completed() -> None:
    forest = Forest(6)
    forest.subscribed(5, "surf")
    id = EventId(forest.contacts[4].peer, 0, 7)
    before = forest.count(Done)[1]

    forest.send(1, 0, Recorded(id, "surf", False))
    forest.run(SECOND)

    assert forest.count(Done)[1] == before
    assert forest.rejected(0)[refusal_of(Recorded)] == 1
