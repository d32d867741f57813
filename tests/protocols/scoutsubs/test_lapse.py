"""Filters have to be renewed, or they lapse."""

import pytest

from smartpubsub.kademlia.settings import HOUR, MINUTE, SECOND
from smartpubsub.protocols.scoutsubs.messages import Announce, Notify
from smartpubsub.protocols.scoutsubs.settings import ScoutSettings
from tests.protocols.scoutsubs.forest import Forest, chain

QUICK = ScoutSettings(renew_us=2 * MINUTE)
LAPSE_US = 2 * QUICK.renew_us


def test_filters_of_a_child_that_is_gone_lapse_after_twice_the_time_of_renewal() -> None:
    forest = Forest(8, QUICK)
    for number in (5, 7):
        forest.subscribed(number, "surf")
    forest.crash(7)
    forest.run(LAPSE_US - QUICK.renew_us - MINUTE)
    assert sorted(forest.children(0)) == [5, 7]

    forest.run(QUICK.renew_us + 2 * MINUTE)
    assert sorted(forest.children(0)) == [5]
    forest.said.clear()
    forest.published(3, "surf")
    forest.run(SECOND)
    assert forest.count(Notify) == {5: 1}


def test_filters_that_lapse_are_withdrawn_all_the_way_up() -> None:
    forest = chain(5, QUICK)
    forest.subscribed(4, "surf")
    forest.crash(4)
    forest.run(2 * LAPSE_US)

    assert [forest.children(number) for number in range(4)] == [{}] * 4


def test_filters_of_a_child_that_is_there_do_not_lapse() -> None:
    forest = Forest(8, QUICK)
    for number in (5, 7):
        forest.subscribed(number, "surf")
    forest.run(HOUR)

    assert sorted(forest.children(0)) == [5, 7]
    id = forest.publish(3, "surf")
    forest.run(SECOND)
    assert forest.receivers(id) == [5, 7]


def test_a_renewal_says_only_that_nothing_has_changed() -> None:
    forest = Forest(8, QUICK)
    for step in range(50):
        forest.subscribe(7, f"surf/price[{10 * step},{10 * step + 5}]")
    forest.run(10 * SECOND)
    forest.said.clear()
    forest.run(HOUR)

    announcements = [said.part for said in forest.said if isinstance(said.part, Announce)]
    assert 20 <= len(announcements) <= 60
    assert all(not part.added and not part.removed for part in announcements)
    assert len(forest.children(0)[7]) == 50


@pytest.mark.parametrize("drift_ppm", [-1_000, 1_000])
def test_clocks_that_drift_do_not_let_filters_lapse(drift_ppm: int) -> None:
    forest = Forest(8, QUICK)
    forest.host(0).drift_ppm = drift_ppm
    forest.host(7).skew_us = -MINUTE
    forest.subscribed(7, "surf")
    forest.run(HOUR)

    id = forest.publish(3, "surf")
    forest.run(SECOND)
    assert forest.receivers(id) == [7]


def test_events_in_flight_to_a_lapsed_child_are_given_up() -> None:
    forest = Forest(8, QUICK)
    forest.subscribed(7, "surf")
    forest.crash(7)
    id = forest.published(3, "surf", wants_all=True)
    forest.run(MINUTE)
    assert forest.holders(id) == [0, 1, 2]

    forest.run(2 * LAPSE_US)
    assert forest.holders(id) == []


def test_an_event_is_remembered_for_longer_than_it_may_be_sent_again() -> None:
    settings = ScoutSettings()
    assert settings.seen_us > 2 * settings.renew_us + settings.check_us_max


def test_an_event_whose_confirmation_does_not_get_back_is_not_handed_over_again() -> None:
    """The rendezvous sends it for as long as filters last, and there are other events meanwhile."""
    forest = Forest(8)
    forest.subscribed(7, "surf")
    forest.cut(7, 0, 28 * MINUTE)
    ids = [forest.published(3, "surf")]
    for _ in range(35):
        forest.run(MINUTE)
        ids.append(forest.publish(3, "surf"))
    forest.run(5 * MINUTE)

    for id in ids:
        assert forest.receivers(id) == [7]


def test_a_renewal_that_gets_lost_is_repeated() -> None:
    """Or with the next one lost as well a subscription would lapse that is still wanted."""
    forest = Forest(6, ScoutSettings(renew_us=2 * MINUTE, backups=0, tries_max=1_000))
    forest.subscribed(5, "surf")
    forest.said.clear()
    forest.run_until(lambda: bool(forest.announced_to(0)), within=4 * MINUTE)
    forest.run(MINUTE)
    forest.cut(5, 0, 90 * SECOND)
    forest.run(90 * SECOND)
    forest.said.clear()
    forest.run(20 * SECOND)

    assert len(forest.announced_to(0)) == 1
