"""Overload: events that come faster than links can carry them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from smartpubsub.sim.experiments.running import RunOptions
from smartpubsub.sim.judging.spread import spread
from smartpubsub.sim.kernel.network import NetworkOptions
from smartpubsub.sim.studies.observed import Observed, Watch, completed, unwatched
from smartpubsub.workloads import ScenarioOptions, scenario
from smartpubsub.workloads.scenarios import PACE_US

SCENARIO = "normal"
FACTORS = (1, 10)
EVENTS = 300
BANDWIDTHS = (1 << 20, 64 << 10)
"""Bytes per second: the usual links, and links that the scenario's pace nearly fills."""


@dataclass(frozen=True, kw_only=True)
class Strained:
    """The result over links of one bandwidth at one pace."""

    bandwidth_bytes_per_s: int
    pace_factor: int
    pace_ms: float
    coverage: float
    missing: int
    latency_ms_mean: float
    latency_ms_p99: float
    latency_ms_max: float
    messages_per_delivery: float
    """Messages about events."""
    resends: int
    violations: int


def study(nodes: int, seed: int, watch: Watch = unwatched) -> list[Strained]:
    """Run the same events at the scenario's pace and faster."""
    found = []
    for bandwidth, factor in product(BANDWIDTHS, FACTORS):
        paced = ScenarioOptions(events=EVENTS, pace_us=PACE_US // factor)
        workload = scenario(SCENARIO, keys=range(nodes), seed=seed, options=paced)
        options = RunOptions(
            protocol="scoutsubs",
            nodes=nodes,
            seed=seed,
            network=NetworkOptions(bandwidth_bytes_per_s=bandwidth),
        )
        with watch(f"{bandwidth >> 10} KiB/s at {factor} times the pace, ") as progress:
            run = Observed(options, workload, progress=progress)
            found.append(_strained(run, factor))
    return found


def _strained(run: Observed, factor: int) -> Strained:
    result = completed(run, SCENARIO)
    verdict, publishing = result.verdict, run.phases[1]
    latencies = run.latencies_ms(run.deliveries_in(publishing))
    latency = spread(latencies, "mean", "p99", "max")
    return Strained(
        bandwidth_bytes_per_s=run.options.network.bandwidth_bytes_per_s,
        pace_factor=factor,
        pace_ms=PACE_US / factor / 1000,
        coverage=verdict.coverage_injected,
        missing=verdict.missing,
        latency_ms_mean=latency["mean"],
        latency_ms_p99=latency["p99"],
        latency_ms_max=latency["max"],
        messages_per_delivery=round(publishing.event_messages / max(1, verdict.delivered), 3),
        resends=publishing.resends,
        violations=len(result.violations),
    )
