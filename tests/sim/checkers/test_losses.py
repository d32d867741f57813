"""Events that got lost are found, and held against the promise that was broken."""

from dataclasses import replace

import pytest

from smartpubsub.kademlia.keys import key_of
from smartpubsub.kademlia.settings import MINUTE, SECOND
from smartpubsub.protocols.baselines.floodsub import Floodsub
from smartpubsub.sim.judging.checkers import Facts
from smartpubsub.sim.judging.checkers.facts import ALL_TREES_US
from smartpubsub.sim.judging.checkers.losses import (
    BAD_LUCK_MAX,
    check_delivery,
    check_healing,
    check_survival,
)
from tests.sim.checkers.broken import Forgetful, Procrastinating, Renewing, Unforgiving
from tests.sim.checkers.world import Protocol, SmallWorld, broken_in


def many_events(protocol: Protocol) -> Facts:
    world = SmallWorld(protocol)
    for node in (1, 2, 3):
        world.subscribe(node, "surf/price[10,20]")
    for number in range(10):
        world.publish(0, f"surf/price={10 + number}")
        world.run(SECOND)
    return world.facts()


def test_completeness() -> None:
    assert broken_in(many_events, Floodsub) == []
    assert broken_in(many_events, Forgetful) == [1]


def test_subscriptions_that_are_never_acknowledged_are_counted() -> None:
    facts = many_events(Floodsub)
    for record in facts.journal.subscriptions.values():
        if record.node != 1:
            record.in_force.clear()

    judgement = check_delivery(facts)

    assert (judgement.judged, judgement.excused) == (10, {"never_acknowledged": 20})


def test_losses_name_the_event_and_the_nodes() -> None:
    facts = many_events(Forgetful)

    violations = check_delivery(facts).violations

    assert [violation.node for violation in violations] == [1, 2, 3]
    (lost,) = {violation.at_us for violation in violations}
    seventh = list(facts.journal.events)[6]
    assert violations[0].what == (
        f"node 1 never got event {seventh}, which node 0 published at {lost / 1000} ms"
    )


def test_a_node_gets_an_event_for_each_of_its_subscriptions() -> None:
    world = SmallWorld(Floodsub)
    wide, narrow = (world.subscribe(1, predicate) for predicate in ("surf", "surf/price[10,20]"))
    id = world.publish(0, "surf/price=15")
    world.run(SECOND)
    (delivery,) = world.journal.deliveries
    world.journal.deliveries[:] = [delivery._replace(subscriptions=(wide,))]
    assert check_delivery(world.facts()).violations == []  # The run has ended too soon.
    world.run(ALL_TREES_US)

    (violation,) = check_delivery(world.facts()).violations
    assert f"never got event {id} for its subscription {narrow}" in violation.what

    # A later delivery for the other subscription is as good.
    world.journal.deliveries.append(delivery._replace(subscriptions=(narrow,)))
    assert check_delivery(world.facts()).violations == []


def test_an_attacker_that_claims_to_hold_an_event_holds_nothing() -> None:
    facts = many_events(Forgetful)
    own = next(iter(facts.nodes_by_peer))
    for event in facts.journal.events.values():
        event.holders = ((own, b"attacker"),)
    assert len(check_delivery(facts).violations) == 3

    for event in facts.journal.events.values():
        event.holders = ((b"attacker",),)
    assert check_delivery(facts).violations == []


def test_unreliable_protocols_may_lose_events() -> None:
    facts = many_events(Forgetful)
    facts.is_reliable = False

    assert len(facts.missing) == 3
    assert check_delivery(facts).violations == []


def test_a_subscription_that_ends_before_audits_have_found_an_event_gives_it_up() -> None:
    world = SmallWorld(Forgetful)
    number = world.subscribe(1, "surf")
    for _ in range(10):
        world.publish(0, "surf")
    world.run(30 * SECOND)
    world.unsubscribe(1, number)
    facts = world.facts()

    assert len(check_delivery(facts).violations) == 1
    assert check_delivery(replace(facts, has_adversaries=True)).violations == []


def test_a_lying_keeper_that_a_newcomer_displaces_excuses_a_loss() -> None:
    """Nodes that looked keepers up before rely on it for some minutes."""
    facts = many_events(Forgetful)
    key = key_of(b"surf")
    first, second = sorted(facts.nodes_by_peer, key=lambda peer: key_of(peer) ^ key)[:2]
    lying = replace(facts, keeper_count=1, failures_max=0, liars=frozenset([second]))

    assert check_delivery(lying).violations
    assert check_delivery(replace(lying, newcomers=frozenset([first]))).violations == []
    assert check_delivery(replace(lying, liars=frozenset([first]))).violations == []


@pytest.mark.parametrize(("unsubscribes_after", "missing"), [(1_000, 0), (3 * MINUTE, 1)])
def test_who_unsubscribes_gives_up_only_what_is_under_way(
    unsubscribes_after: int, missing: int
) -> None:
    world = SmallWorld(Floodsub)
    number = world.subscribe(1, "surf")
    world.publish(0, "surf")
    world.run(unsubscribes_after)
    world.journal.deliveries.clear()  # As if it had got lost.
    world.unsubscribe(1, number)
    world.run(10 * SECOND)

    facts = world.facts()

    assert len(facts.missing) == missing
    assert len(check_delivery(facts).violations) == missing


def publisher_crashes(protocol: Protocol) -> Facts:
    world = SmallWorld(protocol)
    world.subscribe(0, "surf")
    world.subscribe(1, "surf")
    world.publish(0, "surf")
    world.run(SECOND // 2)
    world.crash(0)
    world.run(10 * SECOND)
    return world.facts()


def test_survival() -> None:
    assert broken_in(publisher_crashes, Floodsub) == []
    assert broken_in(publisher_crashes, Procrastinating) == [4]
    assert [
        violation.node
        for violation in check_survival(publisher_crashes(Procrastinating)).violations
    ] == [1]


def sides_meet_again(protocol: Protocol, events: int = 1) -> Facts:
    world = SmallWorld(protocol)
    for node in (1, 4):
        world.subscribe(node, "surf")
    world.split(0, 1, 2, us=10 * MINUTE)
    world.run(5 * MINUTE)
    world.publish(0, "surf/in-the-split")
    world.run(6 * MINUTE)
    world.publish(0, "surf/soon-after")
    world.run(2 * MINUTE)
    for _ in range(events):
        world.publish(0, "surf/long-after")
        world.publish(5, "surf/long-after")
    world.run(MINUTE)
    return world.facts()


def test_healing() -> None:
    assert broken_in(sides_meet_again, Floodsub) == []
    assert broken_in(sides_meet_again, Renewing) == []
    assert broken_in(sides_meet_again, Unforgiving) == [9]


def test_only_what_is_published_a_refresh_after_the_heal_must_get_across() -> None:
    facts = sides_meet_again(Unforgiving)

    assert [list(nodes) for nodes in facts.expected.values()] == [[1], [1], [1, 4], [1, 4]]
    assert [violation.node for violation in check_healing(facts).violations] == [4, 1]


def test_unreliable_protocols_must_get_something_across() -> None:
    def violators(protocol: Protocol, events: int) -> list[int]:
        facts = sides_meet_again(protocol, events)
        facts.is_reliable = False
        return sorted(violation.node for violation in check_healing(facts).violations)

    assert violators(Unforgiving, BAD_LUCK_MAX) == [0, 5]
    assert violators(Unforgiving, BAD_LUCK_MAX - 1) == []
    assert violators(Floodsub, BAD_LUCK_MAX) == []


def test_each_owed_pair_is_judged_by_one_checker() -> None:
    facts = sides_meet_again(Floodsub)

    judged = [check(facts).judged for check in (check_delivery, check_survival, check_healing)]

    assert judged == [4, 0, 2]  # Two events came to their own side before, two to both after.
    assert check_delivery(facts).excused == {"split": 2}


def test_what_is_not_promised_is_excused_by_reason() -> None:
    facts = many_events(Forgetful)
    assert check_delivery(facts).judged == 30

    facts.is_reliable = False
    assert check_delivery(facts).excused == {"not_reliable": 30}
    facts.was_interrupted = True
    assert check_delivery(facts).excused == {"interrupted": 30}


def test_more_failures_than_backups_excuse_losses() -> None:
    facts = publisher_crashes(Procrastinating)
    facts.failures_max = 0

    judgement = check_survival(facts)

    assert (judgement.judged, judgement.violations) == (0, [])
    assert judgement.excused == {"too_many_failures": 1}
    assert check_delivery(facts).excused == {"subscriber_gone": 1}


def test_an_event_that_was_acknowledged_before_failures_is_lost_only_with_all_its_holders() -> None:
    facts = publisher_crashes(Procrastinating)
    facts.failures_max = 0
    (event,) = facts.journal.events.values()
    gone = next(iter(facts.journal.downs))
    peers = {node: peer for peer, node in facts.nodes_by_peer.items()}

    event.holders = ((peers[gone], peers[gone + 1]),)
    assert len(check_survival(facts).violations) == 1
    event.holders = ((peers[gone],),)
    assert check_survival(facts).excused == {"holders_lost": 1}
    event.holders = ((peers[gone + 1],), (peers[gone],))
    assert check_survival(facts).excused == {"holders_lost": 1}


def test_an_event_that_was_acknowledged_after_too_many_failures_is_excused() -> None:
    facts = publisher_crashes(Procrastinating)
    facts.failures_max = 0
    (event,) = facts.journal.events.values()
    gone = next(iter(facts.journal.downs))
    event.holders = (tuple(facts.nodes_by_peer),)
    event.acknowledged_us = facts.journal.downs[gone][0].start_us + 1

    assert check_survival(facts).excused == {"too_many_failures": 1}


def test_directions_with_few_events_are_excused_where_losses_are_allowed() -> None:
    facts = sides_meet_again(Floodsub)
    facts.is_reliable = False

    assert check_healing(facts).excused == {"too_few_events": 2}
    facts = sides_meet_again(Floodsub, BAD_LUCK_MAX)
    facts.is_reliable = False
    assert check_healing(facts).judged == 2
