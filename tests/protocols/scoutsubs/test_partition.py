"""Both sides of a partition go on, and after it delivery is complete."""

import pytest

from smartpubsub.kademlia.settings import MINUTE, SECOND
from smartpubsub.protocols.scoutsubs.settings import ScoutSettings
from smartpubsub.sim.kernel.faults import Partition
from tests.protocols.scoutsubs.forest import Forest

REPAIR_US = MINUTE
WANTING = [2, 3, 4, 6, 7, 8, 10, 12, 13, 14]


def split(forest: Forest, group: tuple[int, ...], length_us: int) -> None:
    now = forest.world.now
    Partition(group=group, at_us=now, until_us=now + length_us).plan(forest.world)


def forest_with_wishes(settings: ScoutSettings | None = None) -> Forest:
    forest = Forest(16, settings)
    for number in WANTING:
        forest.subscribe(number, "surf")
    forest.run(10 * SECOND)
    return forest


LEFT, RIGHT = (0, 2, 4, 6, 8, 10, 12, 14), (1, 3, 5, 7, 9, 11, 13, 15)


@pytest.mark.parametrize("publisher", [10, 11])
def test_each_side_serves_its_own_after_its_repair_time(publisher: int) -> None:
    forest = forest_with_wishes()
    split(forest, LEFT, 10 * MINUTE)
    forest.run(REPAIR_US)
    assert forest.roots() == [0, 1]

    id = forest.publish(publisher, "surf")
    forest.run(30 * SECOND)
    side = LEFT if publisher in LEFT else RIGHT
    assert forest.receivers(id) == sorted(set(side) & set(WANTING))


@pytest.mark.parametrize("publisher", [10, 11])
def test_an_event_right_after_a_partition_arrives_on_its_side(
    publisher: int,
) -> None:
    forest = forest_with_wishes()
    split(forest, LEFT, 10 * MINUTE)
    id = forest.publish(publisher, "surf")
    forest.run(2 * MINUTE)

    side = LEFT if publisher in LEFT else RIGHT
    assert set(side) & set(WANTING) <= set(forest.receivers(id))
    assert forest.is_published(id)


def test_a_subscription_made_during_the_split_is_in_force_on_its_side() -> None:
    forest = forest_with_wishes()
    split(forest, LEFT, 10 * MINUTE)
    forest.run(REPAIR_US)
    forest.subscribed(9, "surf")
    id = forest.publish(15, "surf")
    forest.run(10 * SECOND)

    assert 9 in forest.receivers(id)


@pytest.mark.parametrize("group", [LEFT, (0,), (0, 1, 2), (5, 6, 7, 8)])
@pytest.mark.parametrize("length_us", [20 * SECOND, 5 * MINUTE, 40 * MINUTE])
def test_after_the_sides_have_met_delivery_is_whole_within_a_refresh_cycle(
    group: tuple[int, ...], length_us: int
) -> None:
    forest = forest_with_wishes()
    split(forest, group, length_us)
    forest.run(length_us + forest.settings.renew_us)

    assert forest.roots() == [0]
    for publisher in (0, 1, 10, 11):
        id = forest.publish(publisher, "surf")
        forest.run(5 * SECOND)
        assert forest.receivers(id) == WANTING


def test_events_of_both_sides_arrive_once_after_a_partition() -> None:
    forest = forest_with_wishes()
    split(forest, LEFT, 3 * MINUTE)
    ids = []
    for step in range(200):
        ids.append(forest.publish(step % 16, "surf"))
        forest.run(6 * SECOND)

    for id in ids:
        receivers = forest.receivers(id)
        assert len(receivers) == len(set(receivers))
    for id in ids[-20:]:
        assert forest.receivers(id) == WANTING
