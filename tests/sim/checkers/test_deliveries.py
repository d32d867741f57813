"""Deliveries that should not have been, or not then, are found."""

from smartpubsub.kademlia.settings import MINUTE, SECOND
from smartpubsub.protocols.baselines.floodsub import Floodsub
from smartpubsub.protocols.publication import EventId
from smartpubsub.sim.judging.checkers import Facts
from smartpubsub.sim.judging.checkers.once import check_once
from smartpubsub.sim.judging.checkers.order import check_order
from smartpubsub.sim.judging.checkers.wanted import check_wanted
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


def test_what_is_not_wanted_is_told_for_each_subscription() -> None:
    facts = several_wishes(Indiscriminate)

    violations = check_wanted(facts)

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

    assert len(check_wanted(facts)) == 2


def test_once() -> None:
    assert broken_in(several_wishes, Floodsub) == []
    assert broken_in(several_wishes, Stuttering) == [3]


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
    return world.facts(has_faults=restarts)


def test_after_a_restart_events_may_come_again() -> None:
    assert check_once(again_after_a_restart(restarts=True)) == []
    assert len(check_once(again_after_a_restart(restarts=False))) == 1


def test_the_third_delivery_is_compared_with_those_of_its_incarnation() -> None:
    facts = again_after_a_restart(restarts=True)
    _, again = facts.journal.deliveries
    facts.journal.deliveries.append(again._replace(subscriptions=(2,)))

    assert check_once(facts) == []

    facts.journal.deliveries.append(again)

    assert len(check_once(facts)) == 1


def test_an_event_that_comes_under_another_id_is_found() -> None:
    facts = several_wishes(Floodsub)
    last = facts.journal.deliveries[-1]
    other = EventId(last.id.publisher, 1, 1)
    facts.journal.deliveries.append(last._replace(id=other))

    (violation,) = check_once(facts)

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


def test_order_is_promised_while_nothing_fails_and_to_chained_topics_always() -> None:
    facts = quick_events(Shuffling)

    facts.has_faults = True
    assert check_order(facts) == []
    facts.chained = True
    assert len(check_order(facts)) == 1
    facts.promises_order = False
    assert check_order(facts) == []
