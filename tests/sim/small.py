"""Small experiments for tests."""

from smartpubsub.predicates import Predicate
from smartpubsub.sim.experiments.experiment import Experiment, FaultPlan, nothing_fails
from smartpubsub.sim.experiments.running import RunOptions
from smartpubsub.sim.kernel.network import NetworkOptions
from smartpubsub.sim.traces.trace import Trace
from smartpubsub.workloads.actions import Action, Publish, Subscribe, Unsubscribe, Workload

MS = 1_000


def subscribe(node: int, text: str, at_ms: int = 0) -> Subscribe:
    return Subscribe(at_ms * MS, node, Predicate.parse(text))


def unsubscribe(node: int, text: str, at_ms: int = 0) -> Unsubscribe:
    return Unsubscribe(at_ms * MS, node, Predicate.parse(text))


def publish(node: int, text: str, at_ms: int = 0) -> Publish:
    return Publish(at_ms * MS, node, Predicate.parse(text), b"payload")


def experiment_of(
    *phases: tuple[Action, ...],
    nodes: int = 5,
    protocol: str = "floodsub",
    seed: int = 1,
    network: NetworkOptions | None = None,
    faults: FaultPlan = nothing_fails,
    trace: Trace | None = None,
) -> Experiment:
    names = tuple(f"n{number}" for number in range(nodes))
    options = RunOptions(
        protocol=protocol,
        nodes=nodes,
        seed=seed,
        network=network or NetworkOptions(),
        checks_invariants=True,
    )
    return Experiment(options, Workload(names=names, phases=phases), faults, trace=trace)
