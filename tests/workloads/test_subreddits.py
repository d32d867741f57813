"""The regenerated year of Reddit has the numbers that were published of it."""

from collections import Counter

import pytest

from smartpubsub.workloads import ScenarioOptions, scenario
from smartpubsub.workloads.actions import CreateTopic, Publish, Subscribe, Workload
from tests.workloads.said import keys


def year(nodes: int = 100, seed: int = 1, events: int | None = None) -> Workload:
    return scenario("reddit", keys=keys(nodes), seed=seed, options=ScenarioOptions(events=events))


def events_by_topic(workload: Workload) -> Counter[str]:
    return Counter(str(a.predicate) for a in workload.actions() if isinstance(a, Publish))


def subscribers_by_topic(workload: Workload) -> Counter[str]:
    return Counter(str(a.predicate) for a in workload.actions() if isinstance(a, Subscribe))


def test_events_and_subscriptions_are_as_many_as_published() -> None:
    workload = year()
    topics, subscriptions, events = workload.phases

    assert (len(topics), len(subscriptions), len(events)) == (23, 762, 17_611)
    counts = events_by_topic(workload)
    assert counts.most_common(7) == [
        ("reddit.com", 10_559),
        ("politics", 3_195),
        ("programming", 2_095),
        ("science", 1_270),
        ("gaming", 103),
        ("nsfw", 93),
        ("entertainment", 78),
    ]
    small = [count for name, count in counts.items() if name.startswith("topic-")]
    assert (len(small), max(small), min(small), sum(small)) == (16, 55, 1, 218)
    wanted = subscribers_by_topic(workload)
    assert [wanted[name] for name, _ in counts.most_common(7)] == [100] * 4 + [69, 56, 57]
    assert sum(wanted[name] * count for name, count in counts.items()) == 1_734_851
    assert [event.at_us for event in events] == [i * 10_000 for i in range(17_611)]


@pytest.mark.parametrize("seed", range(5))
def test_nodes_have_five_to_eleven_topics(seed: int) -> None:
    held = Counter(subscription.node for subscription in year(seed=seed, events=100).phases[1])

    assert len(held) == 100
    assert min(held.values()) >= 5
    assert max(held.values()) <= 11


@pytest.mark.parametrize(("nodes", "events"), [(1, None), (7, 30), (100, None), (250, 5_000)])
def test_nodes_subscribe_once_to_what_they_write_in(nodes: int, events: int | None) -> None:
    workload = year(nodes, events=events)

    subscriptions = [(a.node, a.predicate) for a in workload.actions() if isinstance(a, Subscribe)]
    written = {(a.node, a.predicate) for a in workload.actions() if isinstance(a, Publish)}
    assert len(set(subscriptions)) == len(subscriptions)
    assert written <= set(subscriptions)


def test_the_author_of_a_topic_writes_first() -> None:
    workload = year()

    first: dict[str, int] = {}
    for action in workload.actions():
        if isinstance(action, Publish):
            first.setdefault(str(action.predicate), action.node)
    assert first == {a.name: a.node for a in workload.actions() if isinstance(a, CreateTopic)}


@pytest.mark.parametrize("events", [1, 23, 1_000, 50_000])
def test_events_are_scaled_in_proportion(events: int) -> None:
    counts = events_by_topic(year(events=events))

    assert counts.total() == events
    assert abs(counts["reddit.com"] - events * 10_559 / 17_611) < 1


def test_subscribers_are_scaled_with_the_nodes() -> None:
    wanted = subscribers_by_topic(year(1_000, events=100))

    assert wanted["science"] == 1_000
    assert wanted["gaming"] == 690
    assert wanted.total() == 7_620


def test_topics_are_ordered_if_asked() -> None:
    options = ScenarioOptions(ordered=True, events=10)
    workload = scenario("reddit", keys=keys(10), seed=1, options=options)

    assert all(a.ordered for a in workload.phases[0] if isinstance(a, CreateTopic))
