"""Members fetch events that their neighbours in the tree hide."""

import pytest

from smartpubsub.sim.adversaries.kinds import Adversary
from smartpubsub.sim.experiments.options import SimOptions
from smartpubsub.sim.judging.result import run


def test_members_blame_parents_that_drop() -> None:
    options = SimOptions(
        nodes=30, events=300, seed=5, resilience="audited", adversary=(Adversary("drop", 0.2),)
    )
    experiment = options.experiment("pulsarcast", "", options.load(["pulsarcast"]))
    result = run(experiment, "reddit")

    assert result.verdict.missing == 0
    honest = [number for number in range(30) if number not in experiment.crowd]
    blamed = [
        state
        for number in honest
        for state in experiment.core(number).kademlia.blame.states(experiment.world.now)
    ]
    liars = [state for state in blamed if state.blamed in experiment.crowd.peers]
    assert len(liars) > len(blamed) / 2


@pytest.mark.parametrize(
    ("nodes", "events", "seed"),
    [
        (20, 15, 1),
        (20, 15, 2),
        # Two keepers that dropped had their turn one after the other, and it took 35 s.
        (60, None, 731),
    ],
)
def test_everything_comes_though_one_node_in_five_drops(
    nodes: int, events: int | None, seed: int
) -> None:
    options = SimOptions(
        nodes=nodes,
        events=events,
        seed=seed,
        resilience="audited",
        adversary=(Adversary("drop", 0.2),),
    )
    workload = options.load(["pulsarcast"])
    result = run(options.experiment("pulsarcast", "", workload), "reddit")

    verdict = result.verdict
    assert verdict.missing == verdict.app_duplicates == verdict.unexpected == 0
    slowest_ms = verdict.delivered_within_ms["max"]
    assert slowest_ms is not None
    assert slowest_ms < 30_000
