"""Whether events reach all subscribers while nodes are replaced: some crash for good, others join.

A node that joins is a new peer at another place of the overlay, with the subscriptions of the node
that it replaces. Publishers stay, so that every event counts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import partial
from random import Random

from smartpubsub.kademlia.settings import MINUTE, SECOND
from smartpubsub.protocols.scoutsubs.spec import VARIANTS
from smartpubsub.protocols.spec import ProtocolOptions
from smartpubsub.sim.experiments.running import Progress, RunOptions
from smartpubsub.sim.judging.spread import spread
from smartpubsub.sim.kernel.faults import Fault
from smartpubsub.sim.kernel.streams import stream
from smartpubsub.sim.studies.observed import Observed, Watch, completed, unwatched
from smartpubsub.workloads import ScenarioOptions, scenario
from smartpubsub.workloads.actions import Publish, Subscribe, Workload

SCENARIO = "normal"
REPLACED_SHARE = 0.1
"""The share of nodes replaced in every cycle."""
CYCLE_US = 5 * MINUTE
"""How often filters are renewed: more often than usual, to keep cycles short."""
PACE_US = SECOND


@dataclass(frozen=True, kw_only=True)
class Survived:
    """The result of one variant."""

    variant: str
    cycles: int
    replaced: int
    events: int
    expected: int
    missing: int
    coverage: float
    duplicates: int
    stale: int
    """Deliveries of events that are older than the subscription they were delivered to."""
    latency_ms_mean: float
    latency_ms_p99: float
    messages: int
    violations: int


class Replacing(Observed):
    """An experiment in which nodes are replaced, evenly over the time of the events."""

    def __init__(
        self, options: RunOptions, workload: Workload, replaced: int, progress: Progress
    ) -> None:
        super().__init__(options, workload, progress=progress)
        self.replaced = replaced
        self._replacing = stream(options.seed, "study", "churn")
        self._publishers = {a.node: None for a in workload.actions() if isinstance(a, Publish)}

    def _failing_nodes(self, faults: Iterable[Fault]) -> Collection[int]:  # noqa: ARG002
        """All nodes, also those that join: any of them may be replaced."""
        return range(self.options.nodes + self.replaced)

    def phase_is_over(self) -> None:
        """Once all nodes have subscribed, plan which node is replaced when."""
        events = self.workload.phases[1]
        if len(self.phases) == 1 and self.replaced:
            every_us = events[-1].at_us // self.replaced
            for number in range(self.replaced):
                at = self.world.now + number * every_us + every_us // 2
                self.world.at(at, partial(self._replace_one, self._replacing))

    def _replace_one(self, rng: Random) -> None:
        staying = self._publishers
        hosts = [h for h in self.world.hosts if h.is_up and h.number not in staying]
        old = rng.choice(hosts)
        wanted = [held.predicate for held in self.core(old.number).subscriptions.values()]
        self.world.crash(old)
        new = self._population.add(self._make_core)
        self._population.join(new.number, [self._population.contact(rng.choice(list(staying)))])
        for predicate in wanted:
            self._call(new, Subscribe(self.world.now, new.number, predicate))


def study(nodes: int, seed: int, cycles: int, watch: Watch = unwatched) -> list[Survived]:
    """Run all variants while the same nodes are replaced."""
    paced = ScenarioOptions(events=cycles * CYCLE_US // PACE_US, pace_us=PACE_US)
    workload = scenario(SCENARIO, keys=range(nodes), seed=seed, options=paced)
    replaced = cycles * max(1, round(REPLACED_SHARE * nodes))
    found = []
    for variant in VARIANTS:
        chosen = ProtocolOptions(variant=variant, renew_us=CYCLE_US)
        options = RunOptions(protocol="scoutsubs", protocol_options=chosen, nodes=nodes, seed=seed)
        with watch(f"{variant}, ") as progress:
            run = Replacing(options, workload, replaced, progress)
            found.append(_survived(run, cycles))
    return found


def _survived(run: Replacing, cycles: int) -> Survived:
    result = completed(run, SCENARIO)
    verdict, publishing = result.verdict, run.phases[1]
    latency = spread(run.latencies_ms(run.deliveries_in(publishing)), "mean", "p99")
    return Survived(
        variant=run.options.protocol_options.variant,
        cycles=cycles,
        replaced=run.replaced,
        events=verdict.injected,
        expected=verdict.expected,
        missing=verdict.missing,
        coverage=verdict.coverage_injected,
        duplicates=verdict.app_duplicates,
        stale=sum(map(run.is_stale, run.journal.deliveries)),
        latency_ms_mean=latency["mean"],
        latency_ms_p99=latency["p99"],
        messages=publishing.messages,
        violations=len(result.violations),
    )
