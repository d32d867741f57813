"""One peer's announcements cause a bounded amount of work at a time, and others do not wait."""

from itertools import pairwise

import pytest

from smartpubsub.kademlia.settings import MINUTE, SECOND
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.scoutsubs import protocol
from smartpubsub.protocols.scoutsubs.announcement_turns import (
    AT_ONCE_MAX,
    AT_ONCE_MIN,
    BATCH_US,
    FILTERS_AS_ONE,
    RATE,
    STEP,
)
from smartpubsub.protocols.scoutsubs.messages import WHOLE, Announce, Elsewhere
from smartpubsub.protocols.scoutsubs.overlaps import TREES_ANNOUNCED_MAX
from smartpubsub.protocols.scoutsubs.replicas import TableReplicas
from smartpubsub.protocols.scoutsubs.settings import ScoutSettings
from smartpubsub.seam import Disconnected
from tests.protocols.scoutsubs.forest import MS, Forest
from tests.protocols.scoutsubs.test_quotas import attributes_at

MANY = 100
BURST, PER_SECOND = RATE.burst, RATE.per_second


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


def test_a_peer_announces_at_a_limited_rate_after_a_burst() -> None:
    forest = joined()
    names = attributes_at(forest, 0, BURST + 2 * PER_SECOND)
    forest.receive(5, 0, *map(announcement, names))
    forest.run(SECOND)
    assert BURST < trees(forest) <= BURST + PER_SECOND + 1
    forest.run(2 * SECOND)
    assert trees(forest) == len(names)


def test_a_peer_beyond_its_rate_has_its_announcements_handled_together() -> None:
    forest = joined()
    names = attributes_at(forest, 0, BURST + 2 * PER_SECOND)
    forest.receive(5, 0, *map(announcement, names))
    forest.run_until(lambda: trees(forest) >= BURST)
    counts = []
    while trees(forest) < len(names):
        counts.append(trees(forest))
        forest.run(10 * MS)
    growths = sum(more > less for less, more in pairwise(counts))
    assert growths <= 1 + 2 * SECOND // BATCH_US


def test_a_peer_that_comes_back_has_no_other_rate() -> None:
    forest = joined()
    names = attributes_at(forest, 0, 2 * BURST)
    forest.receive(5, 0, *map(announcement, names[:BURST]))
    forest.run(SECOND // 2)
    peer = forest.contacts[5].peer
    forest.do(0, forest.scouts(0).handle(Disconnected(peer), forest.clock(0)))
    forest.receive(5, 0, *map(announcement, names[BURST:]))
    forest.run(SECOND // 2)
    assert trees(forest) <= BURST + PER_SECOND + 1


def test_changing_one_of_many_filters_costs_as_much_as_many_announcements() -> None:
    forest = joined()
    (name,) = attributes_at(forest, 0, 1)
    many = tuple(Predicate.parse(f"{name}/x={n}") for n in range(10 * FILTERS_AS_ONE))
    first = announcement(name)._replace(added=many)
    changes = [
        Announce(name, 0, version, version - 1, (), (many[version],), None, (), False)
        for version in range(2, 2 + BURST)
    ]
    forest.receive(5, 0, first, *changes)
    child = forest.scouts(0)._filters.tables[name].children[forest.contacts[5].peer]
    assert child.version <= 1 + BURST // 10


def filters_of(forest: Forest, name: str) -> set[str]:
    child = forest.scouts(0)._filters.tables[name].children[forest.contacts[5].peer]
    return set(map(str, child.filters))


def test_a_long_announcement_enters_the_table_in_steps_and_others_of_its_peer_wait() -> None:
    forest = joined()
    name, other = attributes_at(forest, 0, 2)
    many = tuple(Predicate.parse(f"{name}/x={n}") for n in range(3 * STEP))
    forest.receive(5, 0, announcement(name)._replace(added=many), announcement(other))
    assert len(filters_of(forest, name)) < len(many)
    assert trees(forest) == 1
    forest.run(SECOND)
    assert filters_of(forest, name) == set(map(str, many))
    assert trees(forest) == 2
    assert not any(table.waiting for table in forest.scouts(0)._filters.tables.values())

    fewer = many[::3]
    forest.receive(5, 0, announcement(name)._replace(added=fewer, version=2))
    forest.run(SECOND)
    assert filters_of(forest, name) == set(map(str, fewer))


def test_a_relay_tells_overlaps_while_it_handles_a_long_announcement() -> None:
    forest = joined()
    names = attributes_at(forest, 1, MANY)
    name = next(n for n in names if forest.scouts(0).next_hop(n) == forest.contacts[1])
    forest.receive(4, 0, announcement(name))
    forest.run(SECOND)
    filters = forest.scouts(0)._filters
    assert filters.tables[name].shortcut == forest.contacts[4]  # Events go past the relay.
    many = tuple(Predicate.parse(f"{name}/x={n}") for n in range(3 * STEP))
    forest.receive(5, 0, announcement(name)._replace(added=many))
    filters.on_turn(forest.contacts[5].peer)
    assert len(filters.tables[name].live_children()) == 2
    assert len(filters_of(forest, name)) < len(many)

    filters.overlaps.announce()
    forest.run(SECOND)
    assert filters.tables[name].shortcut is None
    assert filters.tables[name].member_count == 1 + len(many)


def test_after_a_part_of_a_long_announcement_the_next_has_to_be_whole() -> None:
    forest = joined()
    (name,) = attributes_at(forest, 0, 1)
    forest.receive(5, 0, announcement(name))
    many = tuple(Predicate.parse(f"{name}/x={n}") for n in range(3 * STEP))
    forest.receive(5, 0, announcement(name)._replace(base=1, version=2, added=many))
    peer = forest.contacts[5].peer
    forest.do(0, forest.scouts(0).handle(Disconnected(peer), forest.clock(0)))
    forest.run(SECOND)
    one = Predicate.parse(f"{name}/y=1")
    forest.receive(5, 0, announcement(name)._replace(base=1, version=3, added=(one,)))
    forest.run(SECOND)
    assert str(one) not in filters_of(forest, name)
    assert any(said.receiver == 5 and getattr(said.part, "wants_whole", 0) for said in forest.said)
    forest.receive(5, 0, announcement(name)._replace(version=4, added=(one,)))
    forest.run(SECOND)
    assert filters_of(forest, name) == {str(one)}


def test_announcements_that_say_nothing_new_do_not_wait() -> None:
    forest = joined()
    names = attributes_at(forest, 0, BURST)
    forest.receive(5, 0, *map(announcement, names))
    forest.run(SECOND)
    assert trees(forest) == BURST
    before = forest.world.now
    for _ in range(3):
        forest.receive(5, 0, *map(announcement, names))
    forest.run(SECOND // 10)
    peer = forest.contacts[5].peer
    tables = forest.scouts(0)._filters.tables
    assert all(tables[name].children[peer].heard_us >= before for name in names)


def test_a_relay_tells_the_overlaps_of_a_limited_number_of_trees() -> None:
    forest = joined()
    names = attributes_at(forest, 1, TREES_ANNOUNCED_MAX + 10)
    farther = [n for n in names if forest.scouts(0).next_hop(n) == forest.contacts[1]]
    own = forest.subscribe(0, farther[-1])
    forest.run(SECOND)
    assert forest.is_in_force(0, own)
    for child in (4, 5):  # Events for a single child would go past the relay.
        forest.receive(child, 0, *map(announcement, farther[:-1]))
    forest.run(3 * SECOND)
    told = [said.part.attribute for said in forest.said if isinstance(said.part, Elsewhere)]
    assert trees(forest) > TREES_ANNOUNCED_MAX
    assert farther[-1] in told
    assert len(set(told)) <= TREES_ANNOUNCED_MAX + 1


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


def test_an_announcement_that_is_sent_again_keeps_no_others_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(TableReplicas, "on_copy", lambda *_: None)  # So nothing gets in force.
    forest = joined()
    names = attributes_at(forest, 0, AT_ONCE_MAX + 4)
    forest.receive(5, 0, *map(announcement, names))
    for _ in range(6):
        forest.run(2 * SECOND)
        forest.receive(5, 0, *map(announcement, names[:AT_ONCE_MAX]))
        forest.scouts(0).check()
    assert trees(forest) > AT_ONCE_MAX


def test_where_nodes_around_are_slow_fewer_announcements_are_put_in_force_at_a_time() -> None:
    forest = joined()
    names = attributes_at(forest, 0, MANY)
    for number in (1, 2, 3):
        forest.crash(number)
    forest.receive(5, 0, *map(announcement, names[:AT_ONCE_MAX]))
    forest.run(11 * SECOND)
    forest.receive(5, 0, *map(announcement, names[AT_ONCE_MAX:]))
    assert trees(forest) <= AT_ONCE_MAX + AT_ONCE_MIN


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


def test_announcements_do_not_wait_for_ever_after_a_turn_that_was_late() -> None:
    forest = joined(ScoutSettings(backups=0))
    announcements = [*map(announcement, attributes_at(forest, 0, MANY))]
    forest.receive(4, 0, *announcements)
    forest.run(10 * SECOND)
    assert trees(forest) == MANY

    forest.receive(5, 0, *announcements)  # Each of these is in force at once.
    forest.world.pause(forest.host(0), forest.world.now + SECOND)
    forest.run(10 * SECOND)
    tables, peer = forest.scouts(0)._filters.tables.values(), forest.contacts[5].peer
    assert all(peer in table.children for table in tables)
