"""Deliveries that should not have been, or not then, are found."""

from dataclasses import replace

import pytest

from smartpubsub.kademlia.settings import MINUTE, SECOND
from smartpubsub.protocols.baselines.floodsub import Floodsub
from smartpubsub.protocols.publication import EventId
from smartpubsub.sim.judging.checkers import Facts
from smartpubsub.sim.judging.checkers.once import check_once
from smartpubsub.sim.judging.checkers.order import check_order
from smartpubsub.sim.judging.checkers.wanted import check_wanted
from smartpubsub.sim.judging.journal import Disturbance, Split
from smartpubsub.sim.judging.verdict import verdict_on
from tests.sim.checkers.broken import Indiscriminate, Shuffling, Stuttering
from tests.sim.checkers.world import Protocol, SmallWorld, broken_in


def several_wishes(protocol: Protocol) -> Facts:
    world = SmallWorld(protocol)
    world.subscribe(1, "surf/price[10,20]")
    world.subscribe(1, "surf")
    world.subscribe(2, "price[15,]")
    for event in ("surf/price=10", "surf/price=30", "surf/price", "chess"):
        world.publish(0, event)
        world.run(SECOND)
    return world.facts()


def test_wanted() -> None:
    assert broken_in(several_wishes, Floodsub) == []
    assert broken_in(several_wishes, Indiscriminate) == [2]


def test_unwanted_events_are_reported_for_each_subscription() -> None:
    facts = several_wishes(Indiscriminate)

    violations = check_wanted(facts).violations

    # Of four events surf/price[10,20] wants one, surf three, and price[15,] one.
    assert len(violations) == 12 - 5
    assert violations[0].what == (
        f"node 2 got event {next(iter(facts.journal.events))}, surf/price=10,"
        " for its subscription 1, price[15,], which does not want it"
    )


def test_a_delivery_for_no_subscription_or_an_unknown_one_is_found() -> None:
    facts = several_wishes(Floodsub)
    last = facts.journal.deliveries[-1]
    facts.journal.deliveries[-1] = last._replace(subscriptions=())
    facts.journal.deliveries.append(last._replace(subscriptions=(99,)))

    assert len(check_wanted(facts).violations) == 2


def test_once() -> None:
    assert broken_in(several_wishes, Floodsub) == []
    assert broken_in(several_wishes, Stuttering) == [3]


def test_in_a_chained_topic_all_subscriptions_get_all_events_in_one_order() -> None:
    world = SmallWorld(Floodsub)
    for node in (1, 2):
        world.subscribe(node, "surf")
    for author in (3, 4):
        world.publish(author, "surf")
        world.run(SECOND)
    facts = world.facts()
    facts.chained = True
    assert check_order(facts).violations == []

    one, other = (place for place, d in enumerate(facts.journal.deliveries) if d.node == 2)
    came = facts.journal.deliveries
    came[one], came[other] = came[other], came[one]
    # Without a chain, authors have no common order.
    assert check_order(world.facts()).violations == []

    facts = world.facts()
    facts.chained = True
    (violation,) = check_order(facts).violations
    assert violation.node == 2
    assert f"got event {came[other].id} for its subscription" in violation.what

    facts = world.facts()
    facts.chained = facts.has_adversaries = True
    assert check_order(facts).excused == {"adversaries": 2}


def again_after_a_restart(*, restarts: bool) -> Facts:
    world = SmallWorld(Floodsub)
    world.subscribe(1, "surf")
    id = world.publish(0, "surf")
    world.run(SECOND)
    first = world.journal.deliveries[-1]
    assert (first.node, first.id) == (1, id)
    if restarts:
        world.crash(1)
        world.restart(1)
        world.run(MINUTE)
    again = first._replace(incarnation=world.world.hosts[1].incarnation, at_us=world.world.now)
    world.journal.deliveries.append(again)
    return world.facts()


def test_after_a_restart_events_may_come_again() -> None:
    assert check_once(again_after_a_restart(restarts=True)).violations == []
    assert len(check_once(again_after_a_restart(restarts=False)).violations) == 1


def test_the_third_delivery_is_compared_with_those_of_its_incarnation() -> None:
    facts = again_after_a_restart(restarts=True)
    _, again = facts.journal.deliveries
    facts.journal.deliveries.append(again._replace(subscriptions=(2,)))

    assert check_once(facts).violations == []

    facts.journal.deliveries.append(again)

    assert len(check_once(facts).violations) == 1


def test_an_event_that_comes_under_another_id_is_found() -> None:
    facts = several_wishes(Floodsub)
    last = facts.journal.deliveries[-1]
    other = EventId(last.id.publisher, 1, 1)
    facts.journal.deliveries.append(last._replace(id=other))

    (violation,) = check_once(facts).violations

    assert str(other) in violation.what
    assert verdict_on(facts).unexpected == 1


def quick_events(protocol: Protocol) -> Facts:
    world = SmallWorld(protocol)
    world.subscribe(1, "surf")
    for _ in range(6):
        world.publish(0, "surf")
        world.run(SECOND // 2)
    world.run(10 * SECOND)
    return world.facts()


def test_order() -> None:
    assert broken_in(quick_events, Floodsub) == []
    assert broken_in(quick_events, Shuffling) == [5]


def test_every_event_that_a_later_one_overtook_is_out_of_order() -> None:
    judgement = check_order(quick_events(Shuffling))

    # The third event comes after the fourth; the sixth is the last.
    assert (judgement.judged, len(judgement.violations)) == (6, 1)
    facts = quick_events(Floodsub)
    first, *others = facts.journal.deliveries
    facts.journal.deliveries[:] = [others[-1], first, *others[:-1]]
    assert len(check_order(facts).violations) == 5


def late_event(facts: Facts) -> tuple[int, int]:
    """When the event that came out of order was published, and when it came."""
    (violation,) = check_order(facts).violations
    third = list(facts.journal.events.values())[2]
    return third.called_us, violation.at_us


@pytest.mark.parametrize("kind", ["crash", "restart", "pause", "clog"])
def test_order_is_excused_from_a_fault_until_a_repair_time_after_it(kind: str) -> None:
    facts = quick_events(Shuffling)
    called_us, came_us = late_event(facts)
    faults = facts.journal.disturbances

    faults[:] = [Disturbance(kind, (3,), came_us + 1, came_us + 1)]
    assert len(check_order(facts).violations) == 1
    faults[:] = [Disturbance(kind, (3,), came_us, came_us)]
    assert check_order(facts).violations == []
    faults[:] = [Disturbance(kind, (3,), 0, called_us - MINUTE)]
    assert check_order(facts).violations == []
    assert check_order(facts).excused[kind] > 0
    faults[:] = [Disturbance(kind, (3,), 0, called_us - MINUTE - 1)]
    assert len(check_order(facts).violations) == 1


def test_order_is_excused_until_a_refresh_cycle_after_a_split() -> None:
    facts = quick_events(Shuffling)
    called_us, _ = late_event(facts)
    splits = facts.journal.splits

    splits[:] = [Split(frozenset({1}), 0, called_us - facts.refresh_us - 1)]
    assert len(check_order(facts).violations) == 1
    splits[:] = [Split(frozenset({1}), 0, called_us - facts.refresh_us)]
    assert check_order(facts).violations == []
    assert check_order(facts).excused["split"] > 0


def test_order_is_excused_while_a_message_was_lost() -> None:
    facts = quick_events(Shuffling)
    called_us, came_us = late_event(facts)

    facts.journal.lost_us[:] = [called_us - 1, came_us + 1]
    assert len(check_order(facts).violations) == 1
    facts.journal.lost_us[:] = [called_us]
    assert check_order(facts).violations == []
    assert check_order(facts).excused == {"message_lost": 1}


def test_a_long_fault_excuses_although_a_shorter_one_began_later() -> None:
    facts = quick_events(Shuffling)
    called_us, came_us = late_event(facts)

    facts.journal.disturbances[:] = [
        Disturbance("pause", (3,), 0, came_us),
        Disturbance("crash", (3,), called_us - 2 * MINUTE, called_us - 2 * MINUTE),
    ]

    assert check_order(facts).violations == []
    assert check_order(facts).excused["pause"] > 0


def test_a_fault_off_the_way_excuses_nothing_once_the_way_is_known() -> None:
    facts = quick_events(Shuffling)
    called_us, _ = late_event(facts)
    publisher = next(iter(facts.journal.events)).publisher
    facts.journal.disturbances.append(Disturbance("crash", (3,), called_us, called_us))

    facts.journal.handlers = {publisher: {3: None}}
    assert check_order(facts).violations == []
    facts.journal.handlers = {publisher: {2: None}, b"another": {3: None}}
    assert len(check_order(facts).violations) == 1
    # A fault before the first event came may have been on the way that the event did not take.
    first_us = facts.journal.deliveries[0].at_us
    facts.journal.disturbances[:] = [Disturbance("crash", (3,), first_us, first_us)]
    assert check_order(facts).violations == []


def test_order_is_promised_to_chained_topics_whatever_fails() -> None:
    facts = quick_events(Shuffling)
    called_us, _ = late_event(facts)
    facts.journal.disturbances.append(Disturbance("crash", (3,), called_us, called_us))
    facts.journal.lost_us.append(called_us)
    facts.network_reorders = True

    assert check_order(facts).excused == {"network_reorders": 6}
    facts.chained = True
    assert len(check_order(facts).violations) == 1
    facts.promises_order = False
    assert check_order(facts).excused == {"not_promised": 6}


def test_a_single_event_of_a_publisher_is_no_case() -> None:
    facts = again_after_a_restart(restarts=False)

    judgement = check_order(facts)

    assert (judgement.judged, judgement.excused) == (0, {})


def test_once_excuses_what_comes_again_where_too_many_nodes_lie() -> None:
    facts = replace(again_after_a_restart(restarts=False), has_too_many_liars=True)

    assert len(check_once(replace(facts, is_reliable=True)).violations) == 1
    judgement = check_once(replace(facts, is_reliable=False))

    assert judgement.violations == []
    assert (judgement.judged, judgement.excused) == (1, {"too_many_liars": 1})


def test_once_excuses_and_counts_what_comes_again_after_a_restart() -> None:
    judgement = check_once(again_after_a_restart(restarts=True))

    assert (judgement.judged, judgement.excused) == (1, {"restart": 1})
    assert check_once(again_after_a_restart(restarts=False)).judged == 2
