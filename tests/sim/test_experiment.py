"""The course of an experiment: joining, phases, faults, and how long it is waited."""

import pytest

from smartpubsub.errors import SmartPubSubError
from smartpubsub.kademlia.settings import SECOND
from smartpubsub.sim.experiments import experiment as experiments
from smartpubsub.sim.experiments.experiment import Experiment
from smartpubsub.sim.experiments.running import RunOptions
from smartpubsub.sim.kernel.faults import Crash, Fault, Partition, Pause
from smartpubsub.sim.traces.trace import Row, Trace
from smartpubsub.workloads.actions import CrashNode, RestartNode, Workload
from tests.sim.small import MS, experiment_of, publish, subscribe, unsubscribe

PROTOCOLS = ["floodsub", "gossipsub"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_only_subscribers_get_events(protocol: str) -> None:
    experiment = experiment_of(
        (subscribe(0, "surf/price[1,5]"), subscribe(1, "surf"), subscribe(2, "ski")),
        (publish(3, "surf/price=4"), publish(3, "surf/price=9", at_ms=10)),
        protocol=protocol,
    )
    experiment.run()

    first, second = experiment.journal.events
    got = {(delivery.node, delivery.id) for delivery in experiment.journal.deliveries}
    assert got == {(0, first), (1, first), (1, second)}


def test_a_phase_begins_when_the_one_before_it_is_over() -> None:
    experiment = experiment_of(
        (publish(0, "a", at_ms=700),), (publish(0, "a", at_ms=5), publish(0, "a", at_ms=30))
    )
    experiment.run()

    called = [event.called_us - experiment.began_us for event in experiment.journal.events.values()]
    assert called[0] == 700 * MS
    assert called[2] - called[1] == 25 * MS
    assert called[1] >= 705 * MS


def test_faults_are_planned_from_when_the_workload_begins() -> None:
    def plan(began_us: int) -> list[Fault]:
        return [
            Crash(node=1, at_us=began_us + 10 * MS, restart_at_us=began_us + 20 * MS),
            Partition(group=(2,), at_us=began_us, until_us=began_us + 5 * MS),
        ]

    experiment = experiment_of((publish(0, "a", at_ms=50),), faults=plan)
    experiment.run()

    (down,) = experiment.journal.downs[1]
    assert (down.start_us, down.end_us) == (
        experiment.began_us + 10 * MS,
        experiment.began_us + 20 * MS,
    )
    assert experiment.journal.splits[0].end_us == experiment.began_us + 5 * MS


def test_a_paused_node_acts_when_it_goes_on() -> None:
    experiment = experiment_of(
        (subscribe(1, "a"),),
        (publish(0, "a", at_ms=100), unsubscribe(1, "a", at_ms=5_000)),
        faults=lambda began: [Pause(node=0, at_us=began + 50 * MS, until_us=began + 9 * SECOND)],
    )
    experiment.run()

    (event,) = experiment.journal.events.values()
    assert event.called_us == experiment.began_us + 9 * SECOND + 1
    assert event.acknowledged_us is not None


def test_a_run_does_not_wait_for_nodes_that_are_down() -> None:
    experiment = experiment_of(
        (subscribe(1, "a"), subscribe(2, "a")),
        (CrashNode(0, 1), publish(1, "a", at_ms=1), publish(0, "a", at_ms=2)),
    )
    experiment.run()

    assert len(experiment.journal.events) == 1
    assert experiment.world.now < experiment.began_us + 10 * SECOND


def test_a_node_that_returns_has_its_subscriptions_again() -> None:
    experiment = experiment_of(
        (subscribe(1, "a"),),
        (CrashNode(0, 1), RestartNode(10 * MS, 1)),
        (publish(0, "a", at_ms=20_000),),
    )
    experiment.run()

    assert [delivery.node for delivery in experiment.journal.deliveries] == [1]
    assert len(experiment.journal.subscriptions[1, 1].in_force) == 2


def test_unsubscribing_from_what_is_not_there_does_nothing() -> None:
    experiment = experiment_of((unsubscribe(1, "a"), publish(0, "a")))
    experiment.run()

    assert experiment.journal.deliveries == []


def test_more_names_than_nodes_are_refused() -> None:
    workload = Workload(names=("a", "b", "c"), phases=())

    with pytest.raises(SmartPubSubError, match="give --nodes 3 or more"):
        Experiment(RunOptions(nodes=2), workload)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_large_overlay_is_laid_out_and_works(
    protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(experiments, "JOINING_NODES_MAX", 10)
    experiment = experiment_of(
        tuple(subscribe(node, "a") for node in range(40)),
        (publish(7, "a"),),
        nodes=40,
        protocol=protocol,
    )
    experiment.run()

    assert {delivery.node for delivery in experiment.journal.deliveries} == set(range(40))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_digest_does_not_depend_on_who_looks_at_the_trace(protocol: str) -> None:
    rows: list[Row] = []
    phases = (subscribe(1, "a"), subscribe(2, "a")), (publish(0, "a"),)
    seen = experiment_of(*phases, protocol=protocol, trace=Trace(rows.extend))
    unseen = experiment_of(*phases, protocol=protocol)
    other = experiment_of(*phases, protocol=protocol, seed=2)
    for experiment in (seen, unseen, other):
        experiment.run()

    assert seen.trace.digest() == unseen.trace.digest() != other.trace.digest()
    assert {row.what for row in rows} >= {"send", "receive", "subscribe", "publish", "deliver"}
