"""Filters are announced up the tree, covered and merged, and withdrawn again."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smartpubsub.kademlia.settings import SECOND
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.pubsub import Subscribed, Unsubscribed
from smartpubsub.protocols.scoutsubs.messages import Announce, Notify
from smartpubsub.protocols.scoutsubs.settings import ScoutSettings
from smartpubsub.sim.kernel.network import NetworkOptions
from tests.protocols.scoutsubs.forest import HOP_US, Forest, chain

# --- in force ---


@pytest.mark.parametrize("jitter_us", [0, 30_000])
@pytest.mark.parametrize("publisher", [0, 1, 3, 6, 7])
def test_an_event_right_after_the_acknowledgement_of_a_subscription_arrives(
    publisher: int, jitter_us: int
) -> None:
    forest = chain(8, network=NetworkOptions(latency_us=HOP_US, jitter_us=jitter_us))
    forest.subscribed(7, "surf/price[10,20]")

    id = forest.publish(publisher, "surf/price=15")
    forest.run(SECOND)

    assert forest.receivers(id) == [7]


def test_a_subscription_is_acknowledged_only_when_the_rendezvous_has_it() -> None:
    forest = chain(6)
    number = forest.subscribe(5, "surf")
    forest.run(2 * HOP_US)
    assert forest.children(4) == {5: ["surf"]}
    assert not forest.is_in_force(5, number)

    forest.run_until(lambda: forest.is_in_force(5, number))
    assert [list(forest.children(n)) for n in range(5)] == [[1], [2], [3], [4], [5]]


def test_a_subscription_is_acknowledged_only_when_its_replicas_have_it() -> None:
    forest = Forest(6)
    for backup in (1, 2):
        forest.cut(0, backup, SECOND // 2)
    number = forest.subscribe(5, "surf")
    forest.run(SECOND // 4)
    assert forest.children(0) == {5: ["surf"]}
    assert not forest.is_in_force(5, number)

    forest.run(3 * SECOND)
    assert forest.is_in_force(5, number)
    assert forest.copy(1, 0) == forest.copy(2, 0) == {5: ["surf"]}


def test_a_covered_subscription_is_acknowledged_only_when_the_covering_one_is_in_force() -> None:
    forest = chain(5)
    forest.subscribe(4, "surf")
    forest.run(HOP_US // 2)  # The first is on its way.
    covered = forest.subscribe(4, "surf/price[10,20]")
    forest.run_until(lambda: forest.is_in_force(4, covered))

    id = forest.publish(0, "surf/price=15")
    forest.run(SECOND)
    assert forest.receivers(id) == [4]


def test_a_covered_subscription_is_announced_no_further() -> None:
    forest = chain(5)
    forest.subscribed(4, "surf/price[0,100]")
    forest.subscribed(2, "surf")
    forest.said.clear()

    forest.subscribed(4, "surf/price[10,20]")
    assert forest.count(Announce) == {}

    forest.subscribed(4, "surf/portugal")  # Not covered at 3, but at 2.
    forest.run(SECOND)
    assert forest.count(Announce) == {3: 1, 2: 1}


def test_a_rendezvous_does_not_announce_its_own_subscription() -> None:
    forest = Forest(6)
    forest.subscribed(0, "surf")
    forest.run(SECOND)
    assert forest.count(Announce) == {}

    id = forest.publish(3, "surf")
    forest.run(SECOND)
    assert forest.receivers(id) == [0]


def test_a_node_closer_to_the_key_is_not_accepted_as_a_child() -> None:
    forest = Forest(6)
    forest.subscribed(5, "surf")
    (stolen,) = forest.announced_to(0)
    forest.subscribed(3, "surf")
    assert forest.parent(3) == 0

    forest.receive(0, 3, stolen)
    assert forest.children(3) == {}


def test_an_announcement_that_comes_late_changes_nothing() -> None:
    """As it can on a network that duplicates and reorders."""
    forest = Forest(6)
    first = forest.subscribed(5, "surf/price[10,20]")
    forest.subscribed(5, "surf/bali")
    forest.unsubscribed(5, first)
    for late in [*forest.announced_to(0), *reversed(forest.announced_to(0))]:
        forest.receive(5, 0, late)

    assert forest.children(0) == {5: ["surf/bali"]}


def test_an_announcement_of_an_earlier_incarnation_changes_nothing() -> None:
    forest = Forest(6)
    number = forest.subscribed(5, "surf/price[10,20]")
    forest.subscribed(5, "surf/bali")
    before = forest.announced_to(0)
    forest.crash(5)
    forest.restart(5)
    forest.run(5 * SECOND)
    forest.unsubscribed(5, number)
    for late in before:
        forest.receive(5, 0, late)

    assert forest.children(0) == {5: ["surf/bali"]}


# --- all subscribers ---


def test_all_neighbours_with_a_matching_filter_get_an_event_however_many_filters_there_are() -> (
    None
):
    forest = Forest(60)
    for number in forest.numbers[1:]:
        for step in range(10):
            lo = (number * 7 + step * 13) % 90
            forest.subscribe(number, f"surf/price[{lo},{lo + 10}]")
    forest.run(5 * SECOND)

    for price in range(0, 101, 4):
        id = forest.publish(price % 60, f"surf/price={price}")
        forest.run(SECOND)
        wanting = [
            number
            for number in forest.numbers[1:]
            if any(
                (number * 7 + step * 13) % 90 <= price <= (number * 7 + step * 13) % 90 + 10
                for step in range(10)
            )
        ]
        assert forest.receivers(id) == wanting


def test_an_event_reaches_only_matching_subscribers() -> None:
    forest = chain(6)
    forest.subscribed(3, "surf/price[10,20]")
    forest.subscribed(4, "surf/price[20,30]")
    forest.subscribed(5, "surf/bali")
    forest.said.clear()

    id = forest.publish(0, "surf/price=25")
    forest.run(SECOND)

    assert forest.receivers(id) == [4]
    assert 5 not in forest.count(Notify)


def test_one_node_is_told_all_its_subscriptions_that_match_at_once() -> None:
    forest = chain(4)
    wide, narrow, other = (
        forest.subscribed(3, text) for text in ("surf", "surf/price[10,20]", "surf/price[30,40]")
    )
    forest.publish(0, "surf/price=15")
    forest.run(SECOND)

    (delivery,) = forest.deliveries(3)
    assert delivery.subscriptions == (wide, narrow)
    assert other not in delivery.subscriptions


# --- summaries ---

RANGES = st.tuples(st.integers(0, 12), st.integers(0, 4)).map(lambda r: f"[{r[0]},{r[0] + r[1]}]")
WANTED = st.builds(
    "surf{}{}{}".format,
    st.sampled_from(["", "/bali"]),
    st.one_of(st.just(""), RANGES.map("/price{}".format)),
    st.one_of(st.just(""), RANGES.map("/wind{}".format)),
)


@settings(max_examples=25)
@given(
    wishes=st.lists(st.tuples(st.integers(1, 5), WANTED), min_size=1, max_size=12),
    ends=st.lists(st.integers(0, 11), max_size=8),
    points=st.lists(st.tuples(st.integers(0, 16), st.integers(0, 16)), min_size=1, max_size=3),
)
def test_filters_with_several_ranges_survive_covering_merging_and_unsubscribing(
    wishes: list[tuple[int, str]], ends: list[int], points: list[tuple[int, int]]
) -> None:
    """What each hop shows above matches what is below it, no more and no less."""
    forest = chain(6)
    there = []
    for node, text in wishes:
        there.append((node, forest.subscribe(node, text), text))
    forest.run(SECOND)
    for end in ends:
        if end < len(there):
            node, number, _ = there.pop(end)
            forest.unsubscribe(node, number)
    forest.run(SECOND)

    for price, wind in points:
        event = f"surf/bali/price={price}/wind={wind}"
        id = forest.publish(0, event)
        forest.run(SECOND)
        carried = Predicate.parse(event)
        wanting = {node for node, _, text in there if Predicate.parse(text).matches(carried)}
        assert forest.receivers(id) == sorted(wanting)
    for node in range(1, 6):
        for attribute in forest.scouts(node).view().trees:
            tree = forest.tree(node, attribute)
            if tree.parent is not None and tree.members:
                above = forest.children(forest.number(tree.parent.peer), attribute)
                assert above[node] == sorted(map(str, tree.summary))


def test_the_summary_merges_the_filters_below() -> None:
    forest = chain(4)
    forest.subscribed(3, "surf/price[10,20]/wind[0,5]")
    forest.subscribed(2, "surf/price[20,30]/wind[0,5]")
    forest.subscribed(1, "surf/price[20,30]/wind[6,9]")

    assert forest.children(1) == {2: ["surf/price[10,30]/wind[0,5]"]}
    assert forest.children(0) == {1: ["surf/price[10,30]/wind[0,5]", "surf/price[20,30]/wind[6,9]"]}
    assert forest.children(2) == {3: ["surf/price[10,20]/wind[0,5]"]}  # No filter is changed.


# --- unsubscribing ---


def test_an_unsubscribe_leaves_covered_filters_in_force() -> None:
    forest = chain(5)
    wide = forest.subscribed(4, "surf")
    narrow = forest.subscribed(4, "surf/price[10,20]")
    same = forest.subscribed(4, "surf/price[10,20]")
    forest.unsubscribed(4, wide)

    inside, outside = forest.publish(0, "surf/price=15"), forest.publish(0, "surf/price=5")
    forest.run(SECOND)
    assert forest.receivers(inside) == [4]
    assert forest.receivers(outside) == []
    assert forest.deliveries(4)[-1].subscriptions == (narrow, same)

    forest.unsubscribed(4, narrow)
    again = forest.publish(0, "surf/price=15")
    forest.run(SECOND)
    assert forest.receivers(again) == [4]
    assert forest.deliveries(4)[-1].subscriptions == (same,)


def test_an_unsubscribe_leaves_equal_filters_of_others_in_force() -> None:
    forest = chain(5)
    wide = forest.subscribed(2, "surf")
    forest.subscribed(4, "surf/price[10,20]")
    forest.unsubscribed(2, wide)
    assert forest.children(0) == {1: ["surf/price[10,20]"]}

    id = forest.publish(0, "surf/price=15")
    forest.run(SECOND)
    assert forest.receivers(id) == [4]


def test_an_event_published_while_something_is_uncovered_comes() -> None:
    """The narrower filter is known above before the wider one is forgotten."""
    for delay_us in range(0, 10 * HOP_US, HOP_US // 2):
        forest = chain(5)
        wide = forest.subscribed(4, "surf")
        forest.subscribed(3, "surf/price[10,20]")
        forest.unsubscribe(4, wide)
        forest.run(delay_us)
        id = forest.publish(0, "surf/price=15")
        forest.run(SECOND)
        assert forest.receivers(id).count(3) == 1


def test_nothing_is_handed_to_a_subscription_that_has_ended_though_it_may_be_on_its_way() -> None:
    forest = chain(5)
    number = forest.subscribed(4, "surf")
    id = forest.publish(0, "surf")
    forest.run(HOP_US // 2)
    forest.unsubscribe(4, number)
    forest.run(SECOND)

    assert forest.receivers(id) == []


@pytest.mark.parametrize("redirects", [False, True])
def test_when_all_have_unsubscribed_nothing_is_left(redirects: bool) -> None:
    forest = chain(20, ScoutSettings(redirects=redirects))
    numbers = {n: forest.subscribed(n, f"surf/price[{n},{n + 3}]") for n in range(4, 20, 3)}
    numbers |= {n: forest.subscribed(n, "surf") for n in (5, 11)}
    for n, number in numbers.items():
        forest.unsubscribed(n, number)
    forest.run(2 * SECOND)

    for n in forest.numbers:
        assert forest.children(n) == {}
        assert forest.tree(n).members == ()
        assert forest.tree(n).summary == ()
        assert forest.keepers(n) == []


def test_an_event_without_subscribers_stops_at_the_rendezvous() -> None:
    forest = chain(6)
    number = forest.subscribed(5, "surf")
    forest.unsubscribed(5, number)
    forest.said.clear()

    forest.published(3, "surf")
    forest.run(5 * SECOND)
    assert forest.count(Notify) == {}


def test_an_unsubscribe_is_acknowledged_when_the_rendezvous_knows() -> None:
    forest = chain(6)
    number = forest.subscribed(5, "surf")
    forest.unsubscribe(5, number)
    forest.run(4 * HOP_US)
    assert not any(isinstance(item, Unsubscribed) for item in forest.items(5))

    forest.run(SECOND)
    assert any(isinstance(item, Unsubscribed) for item in forest.items(5))
    assert forest.children(0) == {}


def test_an_unsubscribe_before_the_acknowledgement_is_told_once_and_alone() -> None:
    forest = chain(6)
    number = forest.subscribe(5, "surf")
    forest.run(3 * HOP_US)
    forest.unsubscribe(5, number)
    forest.run(2 * SECOND)

    told = [type(item) for item in forest.items(5)]
    assert told.count(Unsubscribed) == 1
    assert Subscribed not in told
    assert forest.children(0) == {}


def test_summaries_are_right_at_every_node_while_many_come_and_go() -> None:
    forest = chain(30)
    numbers: list[tuple[int, int]] = []
    for step in range(120):
        node = 1 + step * 7 % 29
        lo = step * 5 % 40
        numbers.append((node, forest.subscribe(node, f"surf/price[{lo},{lo + step % 9}]")))
        if step % 3 == 2:
            node, number = numbers.pop(step % len(numbers))
            forest.unsubscribe(node, number)
        forest.run(5_000)
    forest.run(2 * SECOND)

    for node in forest.numbers:
        for members, shown in forest.scouts(node).inspect().summaries:
            for price in range(-1, 51):
                event = Predicate.parse(f"surf/price={price}")
                wanted = any(member.matches(event) for member in members)
                assert any(filter.matches(event) for filter in shown) == wanted
