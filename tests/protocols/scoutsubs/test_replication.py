"""Tables are replicated to f other nodes, which have all of them after a while."""

import pytest

from smartpubsub.kademlia.settings import MINUTE, SECOND
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.scoutsubs.messages import (
    WHOLE,
    Announce,
    ChildCopy,
    CopyTree,
    Probe,
    Record,
)
from smartpubsub.protocols.scoutsubs.settings import ScoutSettings
from smartpubsub.sim.kernel.network import NetworkOptions
from tests.protocols.scoutsubs.forest import HOP_US, MS, Forest, chain

REPAIR_US = MINUTE
"""How long it may take until a replica that has failed is replaced."""


@pytest.mark.parametrize("backups", [0, 1, 2, 3])
def test_the_children_of_a_rendezvous_are_kept_by_the_f_others_closest_to_the_key(
    backups: int,
) -> None:
    forest = Forest(12, ScoutSettings(backups=backups))
    for number in (5, 7, 11):
        forest.subscribed(number, f"surf/price[{number},{number + 1}]")
    forest.run(SECOND)

    assert forest.keepers(0) == list(range(1, 1 + backups))
    for keeper in forest.keepers(0):
        assert forest.copy(keeper, 0) == forest.children(0)


@pytest.mark.parametrize("backups", [1, 2, 3])
def test_the_children_of_a_relay_are_kept_by_the_f_others_closest_to_it(backups: int) -> None:
    forest = chain(8, ScoutSettings(backups=backups))
    forest.subscribed(7, "surf")
    forest.run(SECOND)

    for relay in range(1, 7):
        own = forest.contacts[relay]
        known = [n for n in forest.numbers if n >= relay - 1 and n != relay]
        closest = sorted(known, key=lambda n: forest.contacts[n].key ^ own.key)[:backups]
        assert forest.keepers(relay) == sorted(closest)
        for keeper in forest.keepers(relay):
            assert forest.copy(keeper, relay) == forest.children(relay) == {relay + 1: ["surf"]}
        told = forest.tree(relay - 1).children[own.peer].backups
        assert [forest.number(contact.peer) for contact in told] == closest


def test_a_new_replica_gets_a_table_once_and_is_probed_only_while_it_is_unknown() -> None:
    forest, names = Forest(5), [f"a{number}" for number in range(12)]
    forest.run(MINUTE)
    for name in names:
        wanted = (Predicate.parse(f"{name}/x=1"),)
        forest.receive(4, 0, Announce(name, 1, 1, WHOLE, wanted, (), None, (), False))
    before = len(forest.said)
    forest.run(10 * SECOND)

    said = forest.said[before:]
    copies = [(s.receiver, s.part) for s in said if isinstance(s.part, CopyTree)]
    assert len(copies) >= len(names)
    assert len(copies) == len({(to, c.attribute, c.is_root, c.version) for to, c in copies})
    assert sum(isinstance(one.part, Probe) for one in said) < len(names)


def test_no_node_is_a_replica_of_itself() -> None:
    forest = Forest(5, ScoutSettings(backups=4))
    for number in forest.numbers:
        forest.subscribed(number, "surf")
    forest.run(SECOND)

    assert forest.keepers(0) == [1, 2, 3, 4]
    for number in forest.numbers:
        assert number not in forest.keepers(number)


def test_a_rendezvous_that_wants_something_itself_has_that_kept_too() -> None:
    forest = Forest(6)
    forest.subscribed(0, "surf")
    forest.crash(0)
    forest.run(MINUTE)
    forest.published(4, "surf")

    forest.restart(0)
    forest.run(3 * MINUTE)
    assert len(forest.received(0)) == 1


@pytest.mark.parametrize("backups", [0, 1, 2, 3])
def test_an_event_is_recorded_by_f_others_before_it_counts_as_published(backups: int) -> None:
    forest = Forest(8, ScoutSettings(backups=backups))
    forest.subscribed(7, "surf")
    forest.cut_off(7, 10 * SECOND)  # So that the event stays open.

    id = forest.publish(5, "surf")
    while not forest.is_published(id):
        forest.world.step()
    assert forest.holders(id) == list(range(1 + backups))

    forest.run(MINUTE)
    assert forest.receivers(id) == [7]
    assert forest.holders(id) == []


def test_an_event_is_not_acknowledged_while_a_replica_has_not_recorded_it() -> None:
    forest = Forest(8)
    forest.subscribed(7, "surf")
    forest.cut(0, 2, SECOND)

    id = forest.publish(5, "surf")
    forest.run(SECOND // 2)
    assert forest.receivers(id) == [7]
    assert not forest.is_published(id)

    forest.run_until(lambda: forest.is_published(id))


def test_no_node_has_custody_of_a_completed_event() -> None:
    forest = Forest(8)
    forest.subscribed(7, "surf")
    ids = [forest.published(5, "surf") for _ in range(5)]
    forest.run(SECOND)

    assert [forest.holders(id) for id in ids] == [[]] * 5
    assert sum(forest.count(Record).values()) == 10


def assert_copies_are_whole(forest: Forest, owner: int, backups: int) -> None:
    assert len(forest.keepers(owner)) == backups
    for keeper in forest.keepers(owner):
        assert forest.copy(keeper, owner) == forest.children(owner)


def test_a_replica_that_dies_is_replaced_and_filled() -> None:
    forest = Forest(10)
    for number in (5, 7, 9):
        forest.subscribed(number, "surf")
    forest.crash(1)
    forest.run(REPAIR_US)

    assert forest.keepers(0) == [2, 3]
    assert_copies_are_whole(forest, 0, 2)


def test_a_replica_that_dies_and_cannot_be_replaced_holds_up_no_acknowledgement() -> None:
    forest = Forest(4, ScoutSettings(backups=3))
    forest.subscribed(2, "surf")
    forest.crash(1)
    number = forest.subscribe(3, "surf")
    forest.run(HOP_US)
    assert not forest.is_in_force(3, number)

    forest.run(REPAIR_US)
    assert forest.is_in_force(3, number)


@pytest.mark.parametrize("down_us", [10 * MS, SECOND, 10 * SECOND])
def test_a_replica_that_restarts_is_filled_again(down_us: int) -> None:
    """It has lost its copies, and may be up again before a peer has noticed."""
    forest = Forest(10)
    for number in (5, 7, 9):
        forest.subscribed(number, f"surf/price[{number},9]")
    forest.crash(1)
    forest.run(down_us)
    forest.restart(1)
    forest.run(REPAIR_US)
    assert_copies_are_whole(forest, 0, 2)

    forest.subscribed(8, "surf")
    forest.run(SECOND)
    assert_copies_are_whole(forest, 0, 2)


def test_a_replica_that_restarts_does_not_take_a_change_for_all_there_is() -> None:
    forest = Forest(10, ScoutSettings(backups=1))
    for number in (5, 7, 9):
        forest.subscribed(number, "surf")
    forest.crash(1)
    forest.restart(1)
    forest.run(5 * HOP_US)
    forest.subscribed(8, "surf")

    assert_copies_are_whole(forest, 0, 1)


def test_a_rendezvous_that_is_back_replaces_no_copy_by_less() -> None:
    """Or a crash in the next moment would take children with it."""
    forest = Forest(10)
    for number in (6, 7, 8, 9):
        forest.subscribed(number, "surf")
    forest.crash(0)
    forest.restart(0)
    forest.publish(4, "surf")
    for _ in range(1_500):
        forest.run(2 * MS)
        for keeper in forest.keepers(0):
            assert sorted(forest.copy(keeper, 0)) == [6, 7, 8, 9]
    assert forest.roots() == [0]


def test_events_in_flight_are_recorded_by_a_new_replica() -> None:
    """With one replica: it dies, and the rendezvous more than a repair time later."""
    forest = Forest(10, ScoutSettings(backups=1))
    forest.subscribed(9, "surf")
    forest.world.pause(forest.host(9), forest.world.now + 4 * MINUTE)
    id = forest.published(5, "surf")
    forest.crash(1)
    forest.run(REPAIR_US)
    assert len(forest.holders(id)) == 2

    forest.crash(0)
    forest.run(6 * MINUTE)
    assert forest.receivers(id) == [9]


def test_events_in_flight_are_recorded_again_by_a_restarted_replica() -> None:
    forest = Forest(10, ScoutSettings(backups=1))
    forest.subscribed(9, "surf")
    forest.world.pause(forest.host(9), forest.world.now + 4 * MINUTE)
    id = forest.published(5, "surf")
    forest.crash(1)
    forest.restart(1)
    forest.run(REPAIR_US)
    assert len(forest.holders(id)) == 2

    forest.crash(0)
    forest.run(6 * MINUTE)
    assert forest.receivers(id) == [9]


@pytest.mark.parametrize("seed", range(4))
def test_copies_are_whole_after_a_storm_of_changes(seed: int) -> None:
    network = NetworkOptions(
        latency_us=HOP_US, jitter_us=50 * MS, loss=0.1, duplication=0.2, reordering=True
    )
    forest = Forest(12, network=network, seed=seed)
    numbers: list[tuple[int, int]] = []
    for step in range(100):
        node = 1 + step * 5 % 11
        numbers.append((node, forest.subscribe(node, f"surf/price[{step % 20},{step % 23 + 20}]")))
        if step % 2:
            forest.unsubscribe(*numbers.pop(step % len(numbers)))
        forest.run(7 * MS)
    forest.run(30 * SECOND)

    assert_copies_are_whole(forest, 0, 2)


def test_an_old_copy_that_comes_late_does_not_replace_a_newer_one() -> None:
    """As it can on a network that duplicates and reorders."""
    forest = Forest(4)
    owner, child = forest.contacts[0], forest.contacts[3]
    children = (ChildCopy(child, 0, 1, (), None, ()),)
    first = CopyTree("surf", True, 1, True, children, ())
    second = CopyTree("surf", True, 2, False, (), (child.peer,))
    for part in (first, second, first):
        forest.receive(0, 1, part)

    kept = forest.scouts(1).view().replicas.get((owner.peer, "surf"), ())
    assert child.peer not in [copy.contact.peer for copy in kept]
