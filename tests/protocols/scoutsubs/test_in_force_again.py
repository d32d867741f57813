"""A node reports that a subscription is in force again, to a reader that continues it."""

from smartpubsub.kademlia.settings import SECOND
from smartpubsub.protocols.pubsub import Subscribed
from tests.protocols.scoutsubs.forest import Forest


def report(forest: Forest, subscription: int) -> None:
    forest.do(3, forest.core(3).report_in_force(subscription, forest.clock(3)))


def notices(forest: Forest) -> int:
    return sum(isinstance(item, Subscribed) for item in forest.items(3))


def is_in_force(forest: Forest, subscription: int) -> bool:
    return forest.core(3).state_of(subscription, forest.clock(3)).is_in_force


def test_a_subscription_that_is_in_force_is_reported_at_once() -> None:
    forest = Forest(4)
    subscription = forest.subscribed(3, "surf")

    report(forest, subscription)

    assert notices(forest) == 2


def test_a_subscription_that_waits_for_another_parent_is_reported_once() -> None:
    forest = Forest(4)
    subscription = forest.subscribed(3, "surf")
    forest.move(3, 1)
    assert not is_in_force(forest, subscription)
    report(forest, subscription)
    assert notices(forest) == 1

    forest.run_until(lambda: is_in_force(forest, subscription))
    assert notices(forest) == 2
    forest.run(30 * SECOND)
    assert notices(forest) == 2


def test_a_new_subscription_is_not_reported_twice() -> None:
    forest = Forest(4)
    subscription = forest.subscribe(3, "surf")
    report(forest, subscription)

    forest.run(30 * SECOND)

    assert notices(forest) == 1


def test_an_ended_subscription_is_not_reported() -> None:
    forest = Forest(4)
    subscription = forest.subscribe(3, "surf")
    report(forest, subscription)
    forest.unsubscribe(3, subscription)

    forest.run(30 * SECOND)

    assert notices(forest) == 0
