"""The state of a node is bounded; it refuses what is beyond a limit before it acknowledges it."""

from dataclasses import replace

import pytest

from smartpubsub.kademlia.settings import HOUR, MINUTE, SECOND
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.pubsub import Subscribed, Unsubscribed
from smartpubsub.protocols.scoutsubs import admission
from smartpubsub.protocols.scoutsubs.messages import ChildCopy, CopyTree
from smartpubsub.protocols.scoutsubs.settings import ScoutSettings
from tests.protocols.scoutsubs.forest import MS, Forest

SMALL = ScoutSettings(record_count_max=5)


def assert_within_bounds(forest: Forest) -> None:
    for number in forest.numbers:
        if forest.host(number).is_up:
            for what, held, held_max in forest.scouts(number).inspect().bounds:
                assert held <= held_max, what


# --- events ---


def with_open_events() -> Forest:
    """A forest whose rendezvous has as many open events as it may have."""
    forest = Forest(8, SMALL)
    for number in (6, 7):
        forest.subscribed(number, "surf")
    forest.world.pause(forest.host(7), forest.world.now + MINUTE)
    for _ in range(5):
        forest.published(3, "surf")
    return forest


def test_a_rendezvous_with_too_many_event_in_flights_refuses_more_and_says_so() -> None:
    forest = with_open_events()
    id = forest.publish(4, "surf")
    forest.run(5 * SECOND)

    (refusal,) = forest.refusals()
    assert refusal.id == id
    assert "too many" in refusal.reason
    assert not forest.is_published(id)
    assert_within_bounds(forest)
    forest.run(5 * MINUTE)
    assert forest.receivers(id) == []


def test_a_subscriber_that_confirms_nothing_hurts_only_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    forest = Forest(8, SMALL)
    for number in (6, 7):
        forest.subscribed(number, "surf")
    monkeypatch.setattr(forest.scouts(7)._dissemination, "_confirm", lambda *_: None)
    for _ in range(5):
        forest.published(3, "surf")
    refused = forest.publish(4, "surf")
    forest.run(5 * MINUTE)
    assert [refusal.id for refusal in forest.refusals()] == [refused]

    for _ in range(8):
        id = forest.published(4, "surf")
        assert forest.receivers(id) == [6, 7]
        forest.run(MINUTE)
    assert forest.rejected(forest.roots()[0])["late events"] > 0
    assert_within_bounds(forest)


def test_the_late_events_of_a_subscriber_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    forest = Forest(8, replace(ScoutSettings(), late_count_max=3))
    forest.subscribed(7, "surf")
    monkeypatch.setattr(forest.scouts(7)._dissemination, "_confirm", lambda *_: None)
    for _ in range(10):
        forest.published(3, "surf")
    forest.run(7 * MINUTE)
    assert forest.held(forest.roots()[0], "events in flight") == 3


def test_acknowledged_events_arrive_though_others_were_refused() -> None:
    forest = with_open_events()
    for _ in range(10):
        forest.publish(4, "surf")
        forest.run(SECOND)
    forest.run(5 * MINUTE)

    assert len(forest.refusals()) == 10
    assert len(forest.received(7)) == len(forest.received(6)) == 5


def test_a_rendezvous_takes_events_again_when_others_are_done() -> None:
    forest = with_open_events()
    forest.run(3 * MINUTE)
    id = forest.published(4, "surf")
    forest.run(SECOND)

    assert forest.receivers(id) == [6, 7]


def test_a_publisher_whose_events_are_not_acknowledged_is_told_to_wait() -> None:
    forest = Forest(8, SMALL)
    forest.cut_off(3, MINUTE)
    ids = [forest.publish(3, "surf") for _ in range(7)]

    assert [refusal.id for refusal in forest.refusals()] == ids[5:]
    forest.run(3 * MINUTE)
    assert [id for id in ids if forest.is_published(id)] == ids[:5]


def test_an_event_is_not_acknowledged_if_a_replica_has_no_room_for_it() -> None:
    small = replace(SMALL, record_count_max=2)
    forest = Forest(8, ScoutSettings(record_count_max=1_000), settings_of={1: small, 2: small})
    forest.subscribed(7, "surf")
    forest.world.pause(forest.host(7), forest.world.now + 10 * MINUTE)
    ids = [forest.publish(3, "surf") for _ in range(5)]
    forest.run(20 * SECOND)

    published = [id for id in ids if forest.is_published(id)]
    assert len(published) >= 2
    for id in published:
        assert len(forest.holders(id)) >= 3
    refused = {refusal.id for refusal in forest.refusals()}
    assert refused == set(ids) - set(published)
    assert_within_bounds(forest)


@pytest.mark.parametrize("seen_count_max", [10])
def test_the_duplicate_window_is_bounded(seen_count_max: int) -> None:
    forest = Forest(8, ScoutSettings(seen_count_max=seen_count_max))
    forest.subscribed(7, "surf")
    ids = []
    for _ in range(60):
        ids.append(forest.publish(3, "surf"))
        forest.run(20 * MS)
    forest.run(SECOND)

    assert forest.received(7) == ids
    assert len(forest.scouts(7)._dissemination._delivered) <= seen_count_max


# --- filters ---


def acknowledged(forest: Forest) -> list[int]:
    return sorted({told.node for told in forest.told if isinstance(told.item, Subscribed)})


def test_a_node_with_too_many_children_takes_no_more_and_acknowledges_none_of_them() -> None:
    forest = Forest(10, ScoutSettings(child_count_max=3))
    for number in range(3, 10):
        forest.subscribe(number, "surf")
        forest.run(SECOND)
    forest.run(5 * MINUTE)

    assert len(forest.tree(0).children) <= 3
    assert any(forest.rejected(n) for n in forest.numbers)
    id = forest.published(1, "surf")
    forest.run(5 * SECOND)
    assert set(acknowledged(forest)) <= set(forest.receivers(id))


def test_a_refused_child_does_not_become_a_second_rendezvous() -> None:
    forest = Forest(10, ScoutSettings(child_count_max=3))
    for number in range(3, 10):
        forest.subscribe(number, "surf")
    forest.run(5 * MINUTE)

    assert forest.roots() == [0]


def test_a_child_with_too_many_filters_is_not_told_that_they_are_in_force() -> None:
    forest = Forest(6, ScoutSettings(filter_count_max=5))
    for step in range(10):
        forest.subscribe(5, f"surf/price[{10 * step},{10 * step + 1}]")
        forest.run(SECOND)
    forest.run(5 * MINUTE)

    assert all(len(filters) <= 5 for filters in forest.children(0).values())
    in_force = [i.subscription for i in forest.items(5) if isinstance(i, Subscribed)]
    assert len(in_force) == 5
    assert forest.roots() == [0]
    for subscription in in_force:
        id = forest.publish(1, str(subscription.predicate))
        forest.run(SECOND)
        assert forest.receivers(id) == [5]


def test_a_subscription_comes_into_force_when_there_is_room_for_it() -> None:
    forest = Forest(6, ScoutSettings(filter_count_max=1))
    first = forest.subscribed(5, "surf/price[0,1]")
    second = forest.subscribe(5, "surf/price[10,11]")
    forest.run(10 * SECOND)
    assert not forest.is_in_force(5, second)

    forest.unsubscribe(5, first)
    forest.run(3 * MINUTE)
    assert forest.is_in_force(5, second)
    assert forest.children(0) == {5: ["surf/price[10,11]"]}


def test_a_child_that_says_again_all_it_has_does_not_count_twice() -> None:
    forest = Forest(6, ScoutSettings(filter_count_max=3))
    numbers = [forest.subscribed(5, f"surf/price[{n},{n}]") for n in (1, 3, 5)]
    forest.crash(5)
    forest.restart(5)
    forest.run(20 * SECOND)
    forest.told.clear()
    forest.unsubscribed(5, numbers[0])

    assert forest.children(0) == {5: ["surf/price=3", "surf/price=5"]}


def test_a_node_with_too_many_trees_acknowledges_no_subscription_in_others() -> None:
    forest = Forest(6, ScoutSettings(tree_count_max=4))
    for number in forest.numbers:
        for step in range(4):
            forest.subscribe(number, f"topic{number}.{step}")
    forest.run(MINUTE)

    assert_within_bounds(forest)
    for number in forest.numbers:
        for item in forest.items(number):
            if isinstance(item, Subscribed):
                id = forest.publish((number + 1) % 6, str(item.subscription.predicate))
                forest.run(5 * SECOND)
                if not any(refusal.id == id for refusal in forest.refusals()):
                    assert forest.receivers(id) == [number]


def test_a_replica_without_room_is_waited_for_and_not_suspected() -> None:
    """What it has no room for is not acknowledged until it has."""
    settings = ScoutSettings(backups=1, renew_us=2 * MINUTE)
    forest = Forest(8, settings, settings_of={1: replace(settings, copied_bytes_max=4_000)})
    forest.run(SECOND)
    child = ChildCopy(forest.contacts[6], 0, 1, (Predicate.parse("ski"),), None, ())
    forest.receive(5, 1, CopyTree("ski", False, 1, True, (child,), ()))
    number = forest.subscribe(7, "surf")
    forest.run(30 * SECOND)
    assert not forest.is_in_force(7, number)
    assert forest.contacts[1].peer not in forest.scouts(0).view().suspected
    assert forest.keepers(0) == []

    forest.receive(5, 1, CopyTree("ski", False, 2, True, (), ()))
    forest.run(2 * MINUTE)
    assert forest.is_in_force(7, number)
    assert forest.keepers(0) == [1]


def test_a_copy_whose_owner_takes_its_leave_unheard_is_forgotten() -> None:
    settings = ScoutSettings(backups=1, renew_us=2 * MINUTE)
    forest = Forest(8, settings)
    number = forest.subscribed(7, "surf")
    forest.run(20 * settings.renew_us)
    assert forest.keepers(0) == [1]  # As long as it is wanted.

    forest.cut(0, 1, 2 * SECOND)
    forest.unsubscribe(7, number)
    forest.run(4 * settings.renew_us)
    assert forest.keepers(0) == []


def test_events_that_wait_on_their_way_up_are_limited() -> None:
    forest = Forest(8, SMALL)
    forest.crash(0)
    for _ in range(5):
        for number in (4, 5, 6, 7):
            forest.publish(number, "surf")
            forest.run(100 * MS)
            assert_within_bounds(forest)
    forest.run(3 * MINUTE)
    assert_within_bounds(forest)


def test_a_subscription_that_was_refused_can_be_ended() -> None:
    forest = Forest(6, ScoutSettings(tree_count_max=1))
    forest.subscribed(3, "surf")
    second = forest.subscribe(3, "ski")
    forest.run(5 * SECOND)
    assert not forest.is_in_force(3, second)

    forest.unsubscribe(3, second)
    forest.run(5 * SECOND)
    assert any(isinstance(item, Unsubscribed) for item in forest.items(3))


# --- nothing piles up ---


def test_a_node_leaves_trees_without_filters() -> None:
    settings = ScoutSettings(renew_us=2 * MINUTE)
    forest = Forest(8, settings)
    for step in range(50):
        number = forest.subscribed(step % 8, f"topic{step}")
        forest.publish((step + 3) % 8, f"topic{step}")
        forest.unsubscribed(step % 8, number)
    forest.run(HOUR)

    for number in forest.numbers:
        assert forest.scouts(number).view().trees == ()
        assert forest.scouts(number).view().replicas == {}


def test_room_for_trees_comes_back_when_they_are_not_wanted_any_more() -> None:
    forest = Forest(6, ScoutSettings(tree_count_max=3, renew_us=2 * MINUTE))
    for step in range(10):
        number = forest.subscribed(5, f"topic{step}")
        forest.unsubscribed(5, number)
        forest.run(10 * MINUTE)


def test_after_a_quiet_time_nothing_is_open() -> None:
    forest = Forest(12, k=3)
    for number in forest.numbers:
        forest.subscribe(number, "surf")
    forest.run(5 * SECOND)
    for step in range(100):
        forest.publish(step % 12, "surf", wants_all=True)
        forest.run(10 * MS)
    forest.run(MINUTE)

    for number in forest.numbers:
        assert forest.held(number, "events in flight") == 0
        assert forest.held(number, "events without an acknowledgement") == 0
        assert forest.scouts(number).view().records == ()
    assert_within_bounds(forest)


def test_a_publisher_waits_for_a_limited_number_of_confirmations() -> None:
    forest = Forest(8, settings_of={3: SMALL})
    forest.subscribed(7, "surf")
    forest.world.pause(forest.host(7), forest.world.now + MINUTE)
    for _ in range(5):
        forest.published(3, "surf", wants_all=True)
    id = forest.publish(3, "surf", wants_all=True)

    (refusal,) = forest.refusals()
    assert refusal.id == id
    forest.published(3, "surf")


def test_a_rendezvous_keeps_recent_events_up_to_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    forest = Forest(8)
    for number in (6, 7):
        forest.subscribed(number, "surf")
    size = forest.event(3, 1, "surf").wire_bytes
    monkeypatch.setattr(admission, "RECENT_BYTES_MAX", 4 * size)
    for _ in range(10):
        forest.published(3, "surf")
    assert 0 < len(forest.scouts(0)._admission._recent["surf"]) <= 4
