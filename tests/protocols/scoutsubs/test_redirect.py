"""Relays with one child offer a shortcut past themselves, and withdraw it in time."""

import pytest

from smartpubsub.kademlia.settings import MINUTE, SECOND
from smartpubsub.protocols.scoutsubs.messages import Notify
from smartpubsub.protocols.scoutsubs.settings import ScoutSettings
from smartpubsub.sim.kernel.network import NetworkOptions
from tests.protocols.scoutsubs.forest import HOP_US, MS, Forest, chain

DIRECT = ScoutSettings(redirects=True)
ROUNDABOUT = ScoutSettings(redirects=False)


def hops(forest: Forest, number: int) -> int:
    return forest.deliveries(number)[-1].hops


def with_shortcut(count: int = 6) -> Forest:
    """A chain whose last node subscribes, so that the rendezvous sends to it straight."""
    forest = chain(count, DIRECT)
    forest.subscribed(count - 1, "surf/price[0,100]")
    assert forest.shortcut(0, 1) == count - 1
    return forest


def test_a_shortcut_skips_all_relays() -> None:
    taken = {}
    for settings in (DIRECT, ROUNDABOUT):
        forest = chain(6, settings)
        forest.subscribed(5, "surf")
        forest.said.clear()
        forest.published(0, "surf")
        forest.run(SECOND)
        taken[settings.redirects] = (hops(forest, 5), dict(forest.count(Notify)))

    assert taken[True] == (1, {5: 1})
    assert taken[False] == (5, {1: 1, 2: 1, 3: 1, 4: 1, 5: 1})


def test_a_relay_with_two_children_or_a_wish_of_its_own_is_not_skipped() -> None:
    forest = Forest(4, DIRECT, knows=[[1, 2, 3], [0], [1], [1]].__getitem__, is_fixed=True)
    forest.subscribed(2, "surf")
    assert forest.shortcut(0, 1) == 2
    forest.subscribed(3, "surf")
    assert forest.shortcut(0, 1) is None

    forest = chain(4, DIRECT)
    forest.subscribed(2, "surf")
    forest.subscribed(3, "surf")
    assert forest.shortcut(0, 1) == 2
    assert forest.shortcut(1, 2) is None


@pytest.mark.parametrize("relay", [1, 2, 3, 4])
def test_a_relay_with_a_covered_subscription_is_not_skipped_any_more(relay: int) -> None:
    """No node above learns of a new filter, but all of them have to learn of the shortcut."""
    forest = with_shortcut()
    forest.subscribed(relay, "surf/price[10,20]")
    id = forest.publish(0, "surf/price=15")  # Not a moment later.
    forest.run(SECOND)

    assert forest.receivers(id) == [relay, 5]
    for above in range(relay - 1):
        assert forest.shortcut(above, above + 1) == relay
    assert forest.shortcut(relay - 1, relay) is None


@pytest.mark.parametrize("delay_us", range(0, 12 * HOP_US, HOP_US // 2))
def test_no_event_skips_a_relay_after_its_acknowledgement_nor_a_subscriber_before(
    delay_us: int,
) -> None:
    forest = with_shortcut()
    number = forest.subscribe(3, "surf/price[10,20]")
    forest.run(delay_us)
    was_in_force = forest.is_in_force(3, number)
    id = forest.publish(0, "surf/price=15")
    forest.run(SECOND)

    assert 5 in forest.receivers(id)
    if was_in_force:
        assert forest.receivers(id) == [3, 5]


def fork(network: NetworkOptions | None = None) -> Forest:
    """Relays 1, 2, 3 in a line and 4 to 7 below the last of them."""
    above = {0: [1, 2, 3], 1: [0, 2, 3], 2: [1, 3, 4], 3: [2, 4, 5, 6, 7]}
    return Forest(8, DIRECT, knows=lambda n: above.get(n, [3]), is_fixed=True, network=network)


def test_a_second_subscriber_with_a_covered_filter_is_not_skipped() -> None:
    forest = fork()
    forest.subscribed(7, "surf")
    assert forest.shortcut(0, 1) == 7

    forest.subscribed(6, "surf/price[10,20]")
    id = forest.publish(0, "surf/price=15")
    forest.run(SECOND)

    assert forest.receivers(id) == [6, 7]
    assert [forest.shortcut(n, n + 1) for n in range(3)] == [3, 3, None]


def test_the_shortcut_is_back_when_there_is_one_again() -> None:
    forest = fork()
    forest.subscribed(7, "surf")
    second = forest.subscribed(6, "surf/price[10,20]")
    forest.unsubscribed(6, second)

    assert [forest.shortcut(n, n + 1) for n in range(3)] == [7, 7, 7]
    forest.publish(0, "surf/price=15")
    forest.run(SECOND)
    assert hops(forest, 7) == 1


def test_a_withdrawal_that_gets_lost_holds_up_the_acknowledgement() -> None:
    forest = with_shortcut()
    forest.cut(1, 0, 2 * SECOND)
    number = forest.subscribe(3, "surf/price[10,20]")
    forest.run(SECOND)
    assert not forest.is_in_force(3, number)
    assert forest.shortcut(0, 1) == 5

    forest.run_until(lambda: forest.is_in_force(3, number))
    id = forest.publish(0, "surf/price=15")
    forest.run(SECOND)
    assert forest.receivers(id) == [3, 5]


def test_a_shortcut_to_a_node_that_is_down_falls_back_to_the_relays() -> None:
    forest = with_shortcut()
    forest.cut(0, 5, MINUTE)

    id = forest.publish(0, "surf/price=15")
    forest.run(10 * SECOND)

    assert forest.receivers(id) == [5]
    assert hops(forest, 5) > 1


def test_a_dead_relay_is_no_hindrance_to_a_shortcut() -> None:
    forest = with_shortcut()
    forest.crash(3)

    id = forest.publish(0, "surf/price=15")
    forest.run(SECOND)

    assert forest.receivers(id) == [5]


@pytest.mark.parametrize("jitter_us", [0, 50 * MS])
def test_events_keep_their_order_while_shortcuts_come_and_go(jitter_us: int) -> None:
    """A shortcut is quicker than the relays: what takes it must not overtake."""
    forest = fork(NetworkOptions(latency_us=HOP_US, jitter_us=jitter_us))
    forest.subscribed(7, "surf")
    ids = []
    number, shortcuts = 0, set()
    for step in range(400):
        ids.append(forest.publish(0, "surf/price=15"))
        if step % 200 == 50:
            number = forest.subscribe(6, "surf/price[10,20]")
        if step % 200 == 150:
            forest.unsubscribe(6, number)
        forest.run(4 * MS)
        shortcuts.add(forest.shortcut(0, 1))
    forest.run(5 * SECOND)

    assert shortcuts == {3, 7}
    assert forest.received(7) == ids
    assert forest.received(6) == sorted(forest.received(6))


def test_without_redirects_no_node_offers_a_shortcut() -> None:
    forest = chain(6, ROUNDABOUT)
    forest.subscribed(5, "surf")
    assert [forest.shortcut(n, n + 1) for n in range(5)] == [None] * 5
