"""Experiments with topics: Pulsarcast does what the workload wants, and results say so."""

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from smartpubsub.errors import SmartPubSubError
from smartpubsub.sim.experiments.fuzz import violations_of
from smartpubsub.sim.experiments.options import SimOptions
from smartpubsub.sim.experiments.random_worlds import random_world
from smartpubsub.sim.experiments.topics import with_order, with_topics
from smartpubsub.sim.judging import result
from smartpubsub.sim.judging.result import Result
from smartpubsub.workloads import read_workload
from smartpubsub.workloads.actions import Action, CrashNode, CreateTopic, RestartNode, Workload
from tests.sim.small import experiment_of, publish, subscribe


def run(
    options: SimOptions, protocol: str = "pulsarcast", workload: Workload | None = None
) -> Result:
    loaded = workload or options.load([protocol])
    experiment = options.experiment(protocol, "redirect-reliable", loaded)
    return result.run(experiment, options.scenario_name)


@pytest.mark.parametrize(("latency_ms", "jitter_ms"), [(10.0, 0.0), (500.0, 300.0)])
@pytest.mark.parametrize("ordered", [False, True])
def test_everything_comes_once_and_where_that_is_promised_in_order(
    ordered: bool, latency_ms: float, jitter_ms: float
) -> None:
    options = SimOptions(
        scenario="reddit",
        events=150,
        nodes=25,
        seed=7,
        ordered=ordered,
        latency_ms=latency_ms,
        jitter_ms=jitter_ms,
    )
    found = run(options)
    document = found.document()

    assert document["injected"] == document["published"] == 150
    assert document["coverage_injected"] == document["coverage_published"] == 1.0
    assert document["app_duplicates"] == document["unexpected"] == 0
    # Some nodes are still moving to another parent, and have two for a moment.
    assert found.experiment.observer.journal.wire_duplicates < 0.02 * found.verdict.expected
    assert document["order_violations"] == (0 if ordered else None)
    assert document["violations"] == []
    sent = document["rpc_sent_per_node"]
    assert isinstance(sent, dict)
    assert sent["p99"] <= 5 * sent["mean"]


@pytest.mark.parametrize("ordered", [False, True])
def test_nodes_that_crash_and_come_back_get_what_they_missed(ordered: bool) -> None:
    options = SimOptions(scenario="reddit", events=200, nodes=25, seed=5, ordered=ordered)
    workload = with_crashes(options.load(["pulsarcast"]), 4)
    found = run(options, workload=workload)

    assert found.verdict.coverage_injected == 1.0
    assert found.verdict.app_duplicates == 0
    assert found.verdict.order_violations == (0 if ordered else None)


def with_crashes(workload: Workload, count: int) -> Workload:
    """The same, while the authors of the largest topics crash and come back."""
    rng = Random(3)
    *before, events = workload.phases
    end_us = events[-1].at_us
    authors = dict.fromkeys(action.node for action in workload.phases[0])
    timeline: list[Action] = [*events]
    for node in list(authors)[:count]:
        at_us = rng.randint(end_us // 10, end_us * 8 // 10)
        timeline += [CrashNode(at_us, node), RestartNode(at_us + rng.randint(1, 15) * 10**6, node)]
    timeline.sort(key=lambda action: action.at_us)
    return replace(workload, phases=(*before, tuple(timeline)))


@pytest.mark.parametrize(
    "seed",
    [
        9,  # The only node that may publish is gone for good.
        11,  # A keeper that was also a subscriber fetched what it was owed as if it were old.
        57_812_699,  # The author of a topic crashed before the overlay had its descriptor.
    ],
)
def test_seeds_that_once_failed_pass(seed: int) -> None:
    assert violations_of(random_world(seed, "pulsarcast")) == []


def test_the_baselines_run_on_the_same_workload() -> None:
    options = SimOptions(scenario="reddit", events=60, nodes=20)
    workload = options.load(["pulsarcast", "floodsub"])
    expected = {
        run(options, name, workload).verdict.expected for name in ("pulsarcast", "floodsub")
    }

    assert len(expected) == 1


def test_normal_is_reddit_with_fewer_events_for_who_knows_topics_only() -> None:
    normal = SimOptions(nodes=20).load(["scoutsubs", "pulsarcast"])
    reddit = SimOptions(nodes=20, scenario="reddit", events=1_000).load(["pulsarcast"])

    assert len(normal.phases[2]) == len(reddit.phases[2]) == 1_000
    with pytest.raises(SmartPubSubError, match="knows topics only"):
        SimOptions(scenario="sub-burst").load(["pulsarcast"])


def test_topics_that_a_file_does_not_make_are_made_by_who_mentions_them_first() -> None:
    experiment = experiment_of((subscribe(1, "surf"),), (publish(2, "surf"), publish(0, "bali")))
    topics, *rest = with_topics(experiment.workload).phases

    assert topics == (CreateTopic(0, 1, "surf", False), CreateTopic(0, 0, "bali", False))
    assert tuple(rest) == experiment.workload.phases
    with pytest.raises(SmartPubSubError, match="no topic"):
        with_topics(experiment_of((subscribe(1, "surf/bali"),)).workload)


def test_a_file_can_have_topics_of_both_kinds(tmp_path: Path) -> None:
    path = tmp_path / "topics.jsonl"
    path.write_text(
        '{"node": "a", "create_topic": "chain", "ordered": true}\n'
        '{"node": "b", "create_topic": "loose"}\n'
        + "".join(
            f'{{"node": "{node}", "subscribe": "{topic}"}}\n'
            for node in "abcd"
            for topic in ("chain", "loose")
        )
        + "".join(
            f'{{"node": "{node}", "publish": "{topic}", "payload": "{number}"}}\n'
            for number in range(5)
            for node in "abcd"
            for topic in ("chain", "loose")
        )
    )
    found = run(SimOptions(workload=path))

    assert found.verdict.expected == found.verdict.delivered == 160
    assert found.verdict.order_violations == 0
    assert all(
        c.ordered for c in with_order(read_workload(path)).phases[0] if isinstance(c, CreateTopic)
    )


def test_where_all_publish_the_author_of_the_largest_topic_can_be_made_to_crash() -> None:
    options = SimOptions(scenario="fault", events=60, nodes=20)
    workload = options.load(["pulsarcast"])
    crashed = [a.node for a in workload.phases[2] if isinstance(a, CrashNode)]
    found = run(options, workload=workload)

    assert crashed[0] == workload.phases[0][0].node
    assert len(crashed) == 2
    assert found.verdict.coverage_injected == 1.0
