"""Nodes crash, pause and restart, and no acknowledged event or subscription is lost."""

from random import Random

import pytest

from smartpubsub.kademlia.core import Kademlia
from smartpubsub.kademlia.queries import Joined
from smartpubsub.kademlia.settings import MINUTE, SECOND, Settings
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.scoutsubs.flight import Flight, FlightTarget
from smartpubsub.protocols.scoutsubs.messages import (
    NO_PEER,
    WHOLE,
    Announce,
    Announced,
    Bundle,
    ChildCopy,
    CopyTree,
    Probe,
    PulledOwn,
    PullOwn,
)
from smartpubsub.protocols.scoutsubs.protocol import ScoutSubs
from smartpubsub.protocols.scoutsubs.settings import ScoutSettings
from smartpubsub.protocols.scoutsubs.shard_names import FIRST_EPOCH
from smartpubsub.seam import Indication, Loaded, Received, Send, Started
from smartpubsub.sim.kernel.signing import StandInSigning
from tests.protocols.scoutsubs.forest import HOP_US, MS, Forest, chain, contacts_around

WANTING = [6, 8, 9, 11]


def forest_of(backups: int = 2, count: int = 14) -> Forest:
    forest = Forest(count, ScoutSettings(backups=backups))
    for number in WANTING:
        forest.subscribed(number, "surf")
    forest.run(SECOND)
    return forest


# --- the rendezvous ---


@pytest.mark.parametrize("backups", [1, 2, 3])
def test_an_event_published_after_f_closest_crashed_at_once_comes(backups: int) -> None:
    forest = forest_of(backups)
    forest.crash(*range(backups))
    id = forest.published(13, "surf")
    forest.run(10 * SECOND)

    assert forest.receivers(id) == WANTING
    assert forest.roots() == [backups]


@pytest.mark.parametrize("backups", [1, 2, 3])
@pytest.mark.parametrize("delay_us", [0, HOP_US // 2, HOP_US + 1, 3 * HOP_US, 5 * HOP_US, SECOND])
def test_an_event_survives_the_crash_of_its_rendezvous_whenever_it_happens(
    backups: int, delay_us: int
) -> None:
    forest = forest_of(backups)
    id = forest.publish(13, "surf")
    forest.run(delay_us)
    forest.crash(*range(backups))
    forest.run(MINUTE)

    assert forest.is_published(id)
    assert forest.receivers(id) == WANTING


@pytest.mark.parametrize("backups", [1, 2, 3])
def test_an_acknowledged_event_survives_the_publisher_and_f_of_its_holders(
    backups: int,
) -> None:
    """No subscriber has it when all of them crash."""
    forest = forest_of(backups)
    for number in WANTING:
        forest.cut(0, number, MINUTE)
    id = forest.published(13, "surf")
    forest.crash(13, *range(backups))
    assert forest.receivers(id) == []
    forest.run(MINUTE)

    assert forest.receivers(id) == WANTING


@pytest.mark.parametrize("reached", [1, 2, 3])
def test_a_replica_completes_the_events_of_a_crashed_rendezvous(reached: int) -> None:
    forest = forest_of()
    for number in WANTING[reached:]:
        forest.cut(0, number, MINUTE)
    id = forest.published(13, "surf")
    forest.run(SECOND)
    assert forest.receivers(id) == WANTING[:reached]

    forest.crash(0)
    forest.run(MINUTE)
    assert forest.receivers(id) == WANTING  # And those who had it do not get it again.


def test_rendezvous_after_rendezvous_crashes_with_time_to_repair_in_between() -> None:
    forest = forest_of(backups=1)
    for dead in range(5):
        forest.crash(dead)
        id = forest.publish(13, "surf")
        forest.run(MINUTE)
        assert forest.receivers(id) == WANTING
    assert forest.roots() == [5]


def test_a_rendezvous_that_comes_back_takes_its_place_and_nothing_is_lost() -> None:
    forest = forest_of()
    ids = []
    for step in range(120):
        if step == 10:
            forest.crash(0)
        if step == 40:
            forest.restart(0)
        ids.append(forest.publish(12 + step % 2, "surf"))
        forest.run(SECOND)
    forest.run(MINUTE)

    assert forest.roots() == [0]
    for id in ids:
        assert forest.receivers(id) == WANTING


@pytest.mark.parametrize("length_us", [SECOND, 5 * SECOND, 30 * SECOND])
def test_a_rendezvous_that_pauses_and_wakes_up_does_no_harm(length_us: int) -> None:
    """It does not know that another node has taken its place."""
    forest = forest_of()
    ids = [forest.publish(13, "surf")]
    forest.run(HOP_US + 1)
    forest.world.pause(forest.host(0), forest.world.now + length_us)
    for _ in range(60):
        ids.append(forest.publish(12, "surf"))
        forest.run(SECOND)
    forest.run(MINUTE)

    assert forest.roots() == [0]
    for id in ids:
        assert forest.receivers(id) == WANTING


def test_a_rendezvous_that_crashes_some_minutes_after_a_long_pause_is_replaced() -> None:
    forest = forest_of()
    forest.world.pause(forest.host(0), forest.world.now + 3 * MINUTE)
    forest.run(5 * MINUTE)
    assert forest.roots() == [0]

    forest.crash(0)
    forest.run(MINUTE)
    assert forest.roots() == [1]
    assert {forest.parent(number) for number in WANTING} <= {1, *WANTING}


def test_a_subscription_made_while_the_rendezvous_is_dead_is_in_force_before_long() -> None:
    forest = forest_of()
    forest.crash(0)
    forest.subscribed(12, "surf/price[10,20]")
    id = forest.publish(13, "surf/price=15")
    forest.run(10 * SECOND)

    assert forest.receivers(id) == [*WANTING, 12]


# --- relays ---


@pytest.mark.parametrize("redirects", [False, True])
@pytest.mark.parametrize("relay", [1, 2, 3, 4])
def test_an_event_gets_past_a_relay_that_crashes(relay: int, redirects: bool) -> None:
    forest = chain(7, ScoutSettings(redirects=redirects))
    forest.subscribed(6, "surf")
    forest.subscribed(5, "surf[10,20]")
    forest.run(SECOND)
    forest.crash(relay)
    id = forest.published(0, "surf=15")
    forest.run(MINUTE)

    assert forest.receivers(id) == [5, 6]


@pytest.mark.parametrize("delay_us", [HOP_US + 1, 2 * HOP_US + 1, 3 * HOP_US + 1])
def test_an_event_gets_past_relays_that_crash_while_it_is_on_its_way(delay_us: int) -> None:
    forest = chain(7, ScoutSettings(redirects=False))
    forest.subscribed(6, "surf")
    forest.run(SECOND)
    id = forest.publish(0, "surf")
    forest.run(delay_us)
    forest.crash(2, 3)
    forest.run(MINUTE)

    assert forest.receivers(id) == [6]


def test_those_below_a_dead_relay_find_another_parent() -> None:
    forest = Forest(8, knows=[range(8), range(8), *([[0, 1, 2, 3, 4]] * 6)].__getitem__)
    for number in (5, 6, 7):
        forest.subscribed(number, "surf")
    before = {forest.parent(number) for number in (5, 6, 7)}
    assert before == {0}
    forest.crash(0)
    forest.run(MINUTE)

    assert forest.roots() == [1]
    assert {forest.parent(number) for number in (5, 6, 7)} == {1}


def test_a_former_parent_forgets_a_child_that_has_moved_on() -> None:
    forest = forest_of()
    forest.world.pause(forest.host(0), forest.world.now + 10 * SECOND)
    forest.run(2 * MINUTE)

    below = {n: forest.parent(n) for n in WANTING}
    assert forest.roots() == [0]
    assert sorted(forest.children(0)) == sorted({p if p else n for n, p in below.items()})


def test_a_child_that_returns_to_a_former_parent_is_known_there_again() -> None:
    forest = chain(4, ScoutSettings(redirects=False))
    number = forest.subscribed(3, "surf/price[10,20]")
    for _ in range(3):
        for parent in (2, 1):
            forest.world.pause(forest.host(parent), forest.world.now + 5 * SECOND)
            forest.subscribe(3, "surf/price[30,40]")
            forest.run(90 * SECOND)
            id = forest.publish(0, "surf/price=15")
            forest.run(SECOND)
            assert forest.receivers(id) == [3]
    assert forest.is_in_force(3, number)


def test_a_former_parent_that_becomes_the_rendezvous_knows_a_child_that_had_moved_on() -> None:
    forest = forest_of()
    child = WANTING[-1]
    forest.move(child, 1)
    forest.run(SECOND)
    forest.move(child, 0)
    forest.run(SECOND)
    assert child not in forest.children(1)

    forest.crash(0)
    forest.publish(2, "surf")
    forest.run_until(lambda: forest.roots() == [1])
    assert child in forest.children(1)


def test_the_answer_to_a_farewell_is_not_taken_for_the_answer_to_a_return() -> None:
    """What is announced to a former parent gets lost, and its answer to the farewell comes late."""
    forest = Forest(6)
    forest.subscribed(5, "surf")
    forest.move(5, 1)
    forest.run(SECOND)
    assert 5 not in forest.children(0)
    answers = [s.part for s in forest.said if s.receiver == 5 and isinstance(s.part, Announced)]

    forest.cut(5, 0, 20 * MS)
    forest.move(5, 0)
    forest.receive(0, 5, answers[-1])
    forest.run(5 * SECOND)

    assert forest.parent(5) == 0
    assert forest.children(0)[5] == ["surf"]


def test_a_relay_that_restarts_announces_nothing_before_it_knows_its_children_again() -> None:
    """Or its parent would take its own wishes for all there is below it."""
    forest = Forest(8, knows=[range(8), range(8), *([[1, 3, 4]] * 6)].__getitem__)
    for number in (5, 6):
        forest.subscribe(number, "surf/price[10,20]")
    forest.subscribe(1, "surf/bali")
    forest.run(5 * SECOND)
    assert forest.parent(5) == forest.parent(6) == 1
    before = forest.children(0)
    forest.crash(1)
    forest.restart(1)
    for _ in range(300):
        forest.run(10 * MS)
        assert forest.children(0) == before


# --- leaves ---


@pytest.mark.parametrize("down_us", [100 * MS, 20 * SECOND, 25 * MINUTE])
def test_a_leaf_that_is_up_again_gets_the_events_that_it_has_missed(down_us: int) -> None:
    forest = forest_of()
    forest.crash(8)
    ids = [forest.published(13, "surf") for _ in range(5)]
    forest.run(down_us)
    forest.restart(8)
    forest.run(2 * MINUTE)

    for id in ids:
        assert forest.receivers(id) == WANTING


def test_a_leaf_below_relays_that_is_up_again_gets_the_events_that_it_has_missed() -> None:
    forest = chain(6)
    forest.subscribed(5, "surf")
    forest.subscribed(3, "surf")
    forest.world.pause(forest.host(5), forest.world.now + 3 * MINUTE)
    ids = [forest.published(0, "surf") for _ in range(5)]
    forest.run(5 * MINUTE)

    for id in ids:
        assert forest.receivers(id) == [3, 5]
    assert forest.received(5) == ids


def test_a_node_that_has_not_joined_answers_at_once_that_it_keeps_nothing() -> None:
    own, other = contacts_around("surf", 2, 1)
    kademlia = Kademlia(own, Settings(), Random(1))
    core = ScoutSubs(ScoutSettings(), kademlia, StandInSigning(own.peer), Random(2))
    core.handle(Started(1), 0)

    effects = core.handle(Received(other.peer, Bundle((Probe(1), PullOwn()))), SECOND)

    assert effects == [Send(other.peer, Bundle((PulledOwn(()),)))]


def test_a_node_that_has_met_only_a_client_acknowledges_as_one_that_is_alone() -> None:
    own, client = contacts_around("surf", 2, 1)
    kademlia = Kademlia(own, Settings(), Random(1))
    core = ScoutSubs(ScoutSettings(), kademlia, StandInSigning(own.peer), Random(2))
    core.handle(Started(1), 0)
    core.handle(Loaded(b"scout/", ()), 0)
    core.handle(Indication(Joined(0)), 0)
    surf = (Predicate.parse("surf"),)
    wanted = Announce("surf", 1, 1, WHOLE, surf, (), None, (), False)

    effects = core.handle(Received(client.peer, Bundle((wanted,))), SECOND)

    in_force = Announced("surf", 1, 1, 1, False, None, FIRST_EPOCH)
    assert Send(client.peer, Bundle((in_force,))) in effects


def test_events_of_a_restarted_publisher_are_not_taken_for_earlier_ones() -> None:
    forest = forest_of()
    before = [forest.published(13, "surf") for _ in range(3)]
    forest.run(SECOND)
    forest.crash(13)
    forest.restart(13)
    after = [forest.published(13, "surf") for _ in range(3)]
    forest.run(SECOND)

    assert len({*before, *after}) == 6
    for id in (*before, *after):
        assert forest.receivers(id) == WANTING


def test_a_relay_that_restarts_at_once_knows_its_children_again() -> None:
    forest = chain(6, ScoutSettings(redirects=False))
    forest.subscribed(5, "surf")
    forest.run(SECOND)
    for relay in (1, 2, 3, 4):
        children = forest.children(relay)
        forest.crash(relay)
        forest.restart(relay)
        forest.do(relay, forest.core(relay).settle(forest.contacts[relay - 1 : relay], 0))
        forest.run(MINUTE)
        assert forest.children(relay) == children
    id = forest.published(0, "surf")
    forest.run(5 * SECOND)
    assert forest.receivers(id) == [5]


@pytest.mark.parametrize("dead", [1, 2, 3])
def test_neighbours_that_fail_together_are_noticed_together(dead: int) -> None:
    forest = Forest(20, ScoutSettings(backups=dead))
    wanting = [8, 12, 17]
    for number in wanting:
        forest.subscribed(number, "surf")
    forest.crash(*range(dead))

    id = forest.publish(19, "surf")
    forest.run(9 * SECOND)  # However many, it takes little longer than for one.

    assert forest.receivers(id) == wanting


def test_a_second_rendezvous_gets_the_events_that_the_first_one_has_admitted_meanwhile() -> None:
    acquaintances = {0: [19], 1: [12], 12: [1], 19: [0]}
    forest = Forest(20, knows=lambda number: acquaintances.get(number, ()), is_fixed=True)
    forest.subscribed(12, "surf")
    missed = forest.published(19, "surf")
    assert forest.roots() == [0, 1]
    assert forest.receivers(missed) == []

    forest.receive(0, 1, CopyTree("surf", True, 1, True, (), ()))
    forest.run(5 * SECOND)

    assert forest.roots() == [0]
    assert forest.receivers(missed) == [12]


def test_a_node_that_stands_in_for_a_child_in_two_flights_confirms_both_to_itself() -> None:
    forest = Forest(6)
    forest.run(SECOND)
    own, parent, other, child, below, _ = forest.contacts
    event = forest.event(5, 1, "surf")
    elsewhere = ChildCopy(below, 0, 1, (Predicate.parse("surf/price[0,9]"),), None, ())

    def find_down(scouts: ScoutSubs) -> None:
        scouts._tables_kept.on_copy(child.peer, CopyTree("surf", False, 1, True, (elsewhere,), ()))
        dissemination = scouts._dissemination
        for on_behalf in (NO_PEER, other.peer):
            flight = Flight(event, "surf", 1, parent.peer, scouts._outbox.now, on_behalf)
            flight.await_children({child.peer: FlightTarget((own,))})
            dissemination._keep(flight)
        scouts._detector.suspect(child.peer)
        dissemination.on_peer_down(child.peer)
        assert dissemination.flight_count == 0

    forest.poke(0, find_down)
