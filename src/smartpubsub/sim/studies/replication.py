"""The cost of replicas: four stages of growing subscriptions, for several numbers of backups."""

from __future__ import annotations

from dataclasses import dataclass

from smartpubsub.protocols.spec import ProtocolOptions
from smartpubsub.sim.experiments.inside import all_scoutsubs, copies_kept, table_bytes
from smartpubsub.sim.experiments.running import Progress, RunOptions
from smartpubsub.sim.judging.spread import spread
from smartpubsub.sim.studies.observed import Observed, Phase, Watch, completed, unwatched
from smartpubsub.workloads import scenario
from smartpubsub.workloads.actions import Workload
from smartpubsub.workloads.scenarios import STAGES

SCENARIO = "replication"
BACKUPS = (1, 2, 3, 5)


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One stage with one number of backups; the tables are those at its end."""

    backups: int
    stage: int
    subscription_latency_ms: float
    event_latency_ms_mean: float
    event_latency_ms_p99: float
    messages: int
    bytes: int
    copies_mean: float
    copies_max: float
    table_bytes_mean: float
    table_bytes_max: float
    missing: int
    """Missing deliveries in all stages of the run."""
    violations: int
    """Violations in all stages of the run."""


@dataclass(frozen=True)
class _Tables:
    copies: dict[str, float]
    sizes: dict[str, float]


class _Staged(Observed):
    """Inspects the nodes after each phase."""

    def __init__(self, options: RunOptions, workload: Workload, *, progress: Progress) -> None:
        super().__init__(options, workload, progress=progress)
        self.tables: list[_Tables] = []

    def phase_is_over(self) -> None:
        """Record the sizes of the tables."""
        nodes = all_scoutsubs(self)
        self.tables.append(
            _Tables(
                spread([copies_kept(node) for node in nodes], "mean", "max"),
                spread([table_bytes(node) for node in nodes], "mean", "max"),
            )
        )

    def subscription_latencies_ms(self, phase: Phase) -> list[float]:
        """How long it took until the subscriptions of a phase were in force."""
        return [
            (record.in_force[0].start_us - record.called_us) / 1000
            for record in self.journal.subscriptions.values()
            if record.in_force and phase.start_us <= record.called_us < phase.end_us
        ]


def study(nodes: int, seed: int, watch: Watch = unwatched) -> list[Stage]:
    """Run the scenario once for each number of backups."""
    workload = scenario(SCENARIO, keys=range(nodes), seed=seed)
    found: list[Stage] = []
    for backups in BACKUPS:
        options = RunOptions(
            protocol="scoutsubs",
            protocol_options=ProtocolOptions(backups=backups),
            nodes=nodes,
            seed=seed,
        )
        with watch(f"{backups} backups, ") as progress:
            found += _stages(_Staged(options, workload, progress=progress))
    return found


def _stages(run: _Staged) -> list[Stage]:
    result = completed(run, SCENARIO)
    return [
        _stage(run, stage, missing=result.verdict.missing, violations=len(result.violations))
        for stage in range(STAGES)
    ]


def _stage(run: _Staged, stage: int, *, missing: int, violations: int) -> Stage:
    subscribing, publishing = run.phases[2 * stage : 2 * stage + 2]
    tables = run.tables[2 * stage + 1]
    latency = spread(run.latencies_ms(run.deliveries_in(publishing)), "mean", "p99")
    return Stage(
        backups=run.options.protocol_options.backups,
        stage=stage + 1,
        subscription_latency_ms=spread(run.subscription_latencies_ms(subscribing), "mean")["mean"],
        event_latency_ms_mean=latency["mean"],
        event_latency_ms_p99=latency["p99"],
        messages=subscribing.messages + publishing.messages,
        bytes=subscribing.sent_bytes + publishing.sent_bytes,
        copies_mean=tables.copies["mean"],
        copies_max=tables.copies["max"],
        table_bytes_mean=tables.sizes["mean"],
        table_bytes_max=tables.sizes["max"],
        missing=missing,
        violations=violations,
    )
