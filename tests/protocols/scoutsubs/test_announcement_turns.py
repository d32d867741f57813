"""One peer's announcements cause a bounded amount of work at a time, and others do not wait."""

import pytest

from smartpubsub.kademlia.settings import MINUTE, SECOND
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.scoutsubs import protocol
from smartpubsub.protocols.scoutsubs.announcement_turns import AT_ONCE_MAX
from smartpubsub.protocols.scoutsubs.messages import WHOLE, Announce
from smartpubsub.protocols.scoutsubs.settings import ScoutSettings
from smartpubsub.seam import Disconnected
from tests.protocols.scoutsubs.forest import MS, Forest
from tests.protocols.scoutsubs.test_quotas import attributes_at

MANY = 100


def announcement(name: str) -> Announce:
    return Announce(name, 0, 1, WHOLE, (Predicate.parse(name),), (), None, (), False)


def joined(settings: ScoutSettings | None = None) -> Forest:
    forest = Forest(6, settings)
    forest.run(SECOND)
    return forest


def trees(forest: Forest) -> int:
    return len(forest.scouts(0).view().trees)


def test_a_peer_has_a_few_announcements_put_in_force_at_a_time() -> None:
    forest = joined()
    names = attributes_at(forest, 0, MANY)
    forest.receive(5, 0, *map(announcement, names))
    assert trees(forest) == AT_ONCE_MAX

    forest.run(2 * SECOND)
    assert trees(forest) == MANY
    assert not any(table.waiting for table in forest.scouts(0)._filters.tables.values())


def test_others_do_not_wait_behind_the_announcements_of_a_peer() -> None:
    quiet, busy = joined(), joined()
    busy.receive(5, 0, *map(announcement, attributes_at(busy, 0, MANY)))
    for forest in (quiet, busy):
        number = forest.subscribe(4, "surf")
        forest.run_until(lambda: forest.is_in_force(4, number))  # noqa: B023
    assert trees(busy) < MANY
    assert busy.world.now - quiet.world.now < 10 * MS


def test_what_waits_is_dropped_when_its_peer_disconnects() -> None:
    forest = joined()
    forest.receive(5, 0, *map(announcement, attributes_at(forest, 0, MANY)))
    peer = forest.contacts[5].peer
    forest.do(0, forest.scouts(0).handle(Disconnected(peer), forest.clock(0)))
    forest.run(5 * SECOND)
    assert trees(forest) == AT_ONCE_MAX


def test_nodes_that_do_not_answer_delay_a_peer_and_do_not_stop_it() -> None:
    forest = joined()
    names = attributes_at(forest, 0, MANY)
    for number in (1, 2, 3):
        forest.crash(number)
    forest.receive(5, 0, *map(announcement, names))
    forest.run(SECOND // 2)
    assert trees(forest) == AT_ONCE_MAX
    forest.run(MINUTE)
    assert trees(forest) == MANY


def test_a_peer_with_many_attributes_leaves_room_for_others() -> None:
    forest = joined(ScoutSettings(tree_count_max=16))
    names = attributes_at(forest, 0, 20)
    greedy = [forest.subscribe(5, name) for name in names[:16]]
    forest.run(5 * SECOND)
    assert [forest.is_in_force(5, number) for number in greedy].count(True) == 8
    modest = [forest.subscribe(4, name) for name in names[16:]]
    forest.run(5 * SECOND)
    assert all(forest.is_in_force(4, number) for number in modest)


def test_a_node_looks_after_all_its_trees_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "TREES_AT_ONCE", 8)
    forest = joined()
    names = attributes_at(forest, 0, 30)
    forest.receive(5, 0, *map(announcement, names))
    forest.run(SECOND)
    scouts = forest.scouts(0)
    kept: list[tuple[int, str]] = []
    keep_up = scouts._keep_up

    def noted(attribute: str) -> None:
        kept.append((forest.world.now, attribute))
        keep_up(attribute)

    monkeypatch.setattr(scouts, "_keep_up", noted)
    forest.run(scouts._settings.probe_us * 2)
    times = [at for at, _ in kept]
    assert max(map(times.count, times)) <= 8
    assert {attribute for _, attribute in kept} >= set(names)
