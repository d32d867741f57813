"""The scenarios have the numbers, the times and the nodes that they are known for."""

from collections import Counter, defaultdict
from itertools import pairwise

import pytest

from smartpubsub.predicates import Predicate
from smartpubsub.workloads import SCENARIOS, ScenarioOptions, WorkloadError, scenario
from smartpubsub.workloads.actions import Action, Publish, Subscribe, Workload
from tests.workloads.said import keys

PACED = [name for name in SCENARIOS if name != "small"]
"""Those whose number of events and pace can be chosen."""


def made(name: str, nodes: int = 60, seed: int = 1, **options: object) -> Workload:
    chosen = ScenarioOptions(**options)  # type: ignore[arg-type]  # the tests choose rightly
    return scenario(name, keys=keys(nodes), seed=seed, options=chosen)


def published(actions: tuple[Action, ...]) -> list[Publish]:
    return [action for action in actions if isinstance(action, Publish)]


def subscribed(actions: tuple[Action, ...]) -> list[Subscribe]:
    return [action for action in actions if isinstance(action, Subscribe)]


def test_in_normal_nine_of_ten_subscribe_in_six_groups_and_the_others_publish() -> None:
    subscriptions, events = made("normal").phases

    held = defaultdict(set)
    for subscription in subscribed(subscriptions):
        held[subscription.node].add(str(subscription.predicate))
    assert len(held) == 54
    assert all(len(wanted) == 2 and "ipfs" in wanted for wanted in held.values())
    assert sorted(Counter(map(frozenset, held.values())).values()) == [9] * 6
    assert [(e.at_us, e.node) for e in events] == [(i * 100_000, 54 + i) for i in range(6)]
    assert [len(event.payload) for event in published(events)] == [80] * 6


def test_events_are_drawn_in_turn_and_publishers_take_turns() -> None:
    events = published(made("normal", events=14, publishers=4).phases[1])

    assert [event.node for event in events] == [56 + i % 4 for i in range(14)]
    assert [str(event.predicate) for event in events] == 2 * [
        "portugal/surf",
        "portugal/soccer",
        "surf/bali",
        "surf/bali/trip/price=1200",
        "surf/trip/price=1800",
        "surf/trip/price=1300",
        "ipfs",
    ]
    assert len({event.payload for event in events}) == 14


@pytest.mark.parametrize(("nodes", "count"), [(1, 1), (9, 1), (999, 99), (1000, 100), (3000, 100)])
def test_in_large_networks_a_hundred_publish(nodes: int, count: int) -> None:
    assert len(made("normal", nodes).phases[1]) == count


def test_more_publish_in_large_networks_if_asked() -> None:
    assert len(made("normal", 2000, publishers=150).phases[1]) == 150


def test_a_pace_that_was_chosen_is_kept_and_reported() -> None:
    for name in PACED:
        workload = made(name, events=20, pace_us=777)
        times = [event.at_us for phase in workload.phases for event in published(phase)]

        assert workload.pace_us == 777
        assert {later - earlier for earlier, later in pairwise(times)} <= {777, -777 * 4}
    assert made("normal").pace_us == 0


def test_in_sub_burst_everyone_subscribes_to_what_matches_nothing_meanwhile() -> None:
    normal, burst = made("normal"), made("sub-burst")

    assert burst.phases[0] == normal.phases[0]
    assert tuple(published(burst.phases[1])) == normal.phases[1]
    more = subscribed(burst.phases[1])
    assert Counter(Counter(subscription.node for subscription in more).values()) == {2: 54}
    events = published(burst.phases[1])
    assert not any(s.predicate.matches(event.predicate) for s in more for event in events)
    assert more[0].at_us == 0
    assert events[-1].at_us < more[-1].at_us < 600_000
    times = [action.at_us for action in burst.phases[1]]
    assert times == sorted(times)


def test_in_event_burst_nine_of_ten_publish_within_ten_milliseconds() -> None:
    events = published(made("event-burst").phases[1])

    assert len({event.node for event in events}) == len(events) == 54
    assert events[0].at_us == 0
    assert 9_500 < events[-1].at_us < 10_000


def test_fault_is_normal_as_long_as_nobody_crashes() -> None:
    assert made("fault").phases == made("normal").phases


def test_replication_has_four_stages_with_one_more_subscription_each() -> None:
    workload = made("replication", 75)

    assert [len(phase) for phase in workload.phases] == [68, 7] * 4
    held: Counter[int] = Counter()
    wanted = defaultdict(set)
    for stage in range(4):
        for subscription in subscribed(workload.phases[2 * stage]):
            held[subscription.node] += 1
            wanted[subscription.node].add(subscription.predicate)
        assert set(held.values()) == {stage + 1}
        assert [e.at_us for e in workload.phases[2 * stage + 1]] == [i * 100_000 for i in range(7)]
    assert {len(predicates) for predicates in wanted.values()} == {4}
    payloads = [event.payload for phase in workload.phases for event in published(phase)]
    assert len(set(payloads)) == 28


def test_the_events_of_replication_are_divided_among_the_stages() -> None:
    workload = made("replication", events=6)

    assert [len(published(phase)) for phase in workload.phases] == [0, 1, 0, 2, 0, 1, 0, 2]


@pytest.mark.parametrize("name", PACED)
def test_a_seed_says_it_all(name: str) -> None:
    assert made(name, events=50) == made(name, events=50)


@pytest.mark.parametrize("name", ["reddit", "power-law"])
def test_another_seed_says_something_else(name: str) -> None:
    assert made(name, events=50, seed=1) != made(name, events=50, seed=2)


@pytest.mark.parametrize("name", PACED)
@pytest.mark.parametrize("nodes", [1, 2, 3, 11])
def test_small_networks_have_something_to_do(name: str, nodes: int) -> None:
    workload = made(name, nodes, events=5)

    assert len(workload.names) == nodes
    assert all(0 <= action.node < nodes for action in workload.actions())
    assert sum(len(published(phase)) for phase in workload.phases) == 5
    assert all(workload.phases)


def test_power_law_has_ranges_of_every_kind_and_subscriptions_that_end() -> None:
    workload = made("power-law", 200)

    wanted = {str(s.predicate) for phase in workload.phases for s in subscribed(phase)}
    events = published(workload.phases[1])
    assert len(events) == 400
    assert any("[," in text for text in wanted)
    assert any(",]" in text for text in wanted)
    assert any("." in text and "-" in text.replace("topic-", "") for text in wanted)
    kinds = Counter(type(action).__name__ for action in workload.phases[1])
    assert kinds["Unsubscribe"] > 20
    assert kinds["Subscribe"] > 20
    assert Counter(event.node for event in events).most_common(1)[0][1] > 30
    matches = sum(Predicate.parse(text).matches(e.predicate) for text in wanted for e in events)
    assert 0.005 < matches / len(wanted) / len(events) < 0.5


def test_power_law_ends_only_what_has_begun() -> None:
    held: Counter[tuple[int, Predicate]] = Counter()
    for action in made("power-law", 300).actions():
        match action:
            case Subscribe(_, node, predicate):
                held[node, predicate] += 1
            case Publish():
                pass
            case _:
                held[action.node, action.predicate] -= 1  # type: ignore[union-attr]
        assert min(held.values()) >= 0


@pytest.mark.parametrize(
    ("name", "options", "problem"),
    [
        ("abnormal", {}, "no scenario 'abnormal'; choose one of normal, "),
        ("normal", {"publishers": 61}, "61 publishers among 60 nodes"),
        ("normal", {"publishers": 0}, "publishers lies between 1 and"),
        ("normal", {"events": 0}, "events lies between 1 and"),
        ("normal", {"pace_us": -5}, "pace_us lies between 1 and"),
        ("normal", {"faults": -1}, "faults is 0 or more"),
        ("normal", {"crash": "after"}, "crash is 'before' or 'mid', found 'after'"),
        ("reddit", {"publishers": 3}, "leave out the number of publishers"),
    ],
)
def test_what_cannot_be_is_refused(name: str, options: dict[str, object], problem: str) -> None:
    with pytest.raises(WorkloadError, match=problem):
        made(name, **options)  # type: ignore[arg-type]  # some options are wrong on purpose


def test_no_nodes_are_refused() -> None:
    with pytest.raises(WorkloadError, match="at least one node"):
        scenario("normal", keys=[], seed=1)
