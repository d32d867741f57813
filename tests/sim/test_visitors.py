"""Short-lived publishers: nodes that come, publish and leave with a goodbye, one after another."""

import pytest

from smartpubsub.predicates import Predicate
from smartpubsub.sim.experiments.experiment import Experiment
from smartpubsub.sim.experiments.running import RunOptions
from smartpubsub.sim.judging import result
from smartpubsub.workloads.actions import (
    Action,
    CreateTopic,
    LeaveNode,
    Publish,
    RestartNode,
    Subscribe,
    Workload,
)

SECOND = 1_000_000
STAYING = 3
VISITORS = 20
PUBLISH_MS_MAX = 1_000
NEWS = Predicate.of({"news": True})


def visits() -> Workload:
    """Each visitor publishes a second after it has come; those who stay, when it has left."""
    nodes = STAYING + VISITORS
    phases: list[tuple[Action, ...]] = [
        (CreateTopic(0, 0, "news", False),),
        tuple(Subscribe(0, node, NEWS) for node in range(STAYING)),
        tuple(LeaveNode(0, node) for node in range(STAYING, nodes)),
    ]
    for visitor in range(STAYING, nodes):
        phases.append((RestartNode(0, visitor), Publish(SECOND, visitor, NEWS, b"visitor")))
        staying = (Publish(SECOND // 10, node, NEWS, b"staying") for node in range(STAYING))
        phases.append((LeaveNode(0, visitor), *staying))
    return Workload(names=tuple(f"n{node}" for node in range(nodes)), phases=tuple(phases))


@pytest.mark.parametrize("protocol", ["scoutsubs", "fastdelivery", "pulsarcast"])
def test_nobody_waits_for_publishers_that_have_left(protocol: str) -> None:
    options = RunOptions(protocol=protocol, nodes=STAYING + VISITORS, seed=1)
    found = result.run(Experiment(options, visits()), "visitors").document()

    assert (found["missing"], found["app_duplicates"], found["violations"]) == (0, 0, [])
    assert found["published"] == found["injected"] == VISITORS * (STAYING + 1)
    publish_ms = found["publish_ms"]
    assert isinstance(publish_ms, dict)
    assert publish_ms["max"] <= PUBLISH_MS_MAX
