"""The stage `campaign`: the runs of a plan, spread over Spark tasks.

Most runs take a fraction of a second, and a task costs some milliseconds, so a task gets many; but
there are many more tasks than cores, the heaviest first, so that all cores end at about the same
time.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession, is_remote
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import to_arrow_schema

from smartpubsub.pipeline.errors import plain_errors
from smartpubsub.pipeline.folders import locked
from smartpubsub.pipeline.one_run import DONE, FAILED, KEPT, CampaignFolder, carry_out
from smartpubsub.pipeline.plan import Plan, PlannedRun
from smartpubsub.pipeline.result_schemas import MANIFEST, RESULTS
from smartpubsub.protocols.registry import spec_of
from smartpubsub.sim.kernel.collector import cleared_away

TASKS_PER_CORE = 16
ABOUT_FILE = "_campaign.json"


@dataclass(frozen=True, kw_only=True)
class Campaign:
    """The result of a campaign: manifest rows by run, and runs with violations."""

    manifest: Mapping[str, Mapping[str, Any]]
    violations: Mapping[str, str]
    """The first violation, by run."""

    def count(self, state: str) -> int:
        """The number of runs with this state."""
        return sum(row["state"] == state for row in self.manifest.values())

    def complaints(self) -> Iterator[str]:
        """A line for each failed run, with the command that repeats it."""
        for run, row in self.manifest.items():
            if row["state"] == FAILED:
                yield f"run {run} failed: {row['error']}; to repeat it: {row['command']}"
            elif run in self.violations:
                yield f"run {run}: {self.violations[run]}; to repeat it: {row['command']}"

    def document(self) -> dict[str, object]:
        """The entries of the summary."""
        return {
            "done": self.count(DONE),
            "kept": self.count(KEPT),
            "failed": self.count(FAILED),
            "violations": len(self.violations),
            "complaints": list(self.complaints()),
        }


def run_campaign(spark: SparkSession, plan: Plan, folder: CampaignFolder) -> Campaign:
    """Execute all runs of a plan that are not done yet."""
    with locked(folder.path, "campaign"):
        folder.clear()
        about = {"title": plan.title, "about": plan.about, "paper": plan.paper}
        _replace(folder.path / ABOUT_FILE, lambda path: path.write_text(json.dumps(about)))
        rows = {row["run"]: row for row in _outcomes(spark, plan, folder)}
        folder.clear()
        campaign = Campaign(
            manifest={id: rows[id] for id in plan.runs}, violations=_violations(plan, folder)
        )
        _write_manifest(campaign, folder)
    return campaign


def _outcomes(spark: SparkSession, plan: Plan, folder: CampaignFolder) -> list[dict[str, Any]]:
    there = [run for run in plan.runs.values() if folder.has(run)]
    kept = [carry_out(run, folder) for run in there]
    missing = [run for run in plan.runs.values() if not folder.has(run)]
    if not missing:
        return kept
    with plain_errors():
        parts = batches(missing, _parallel_tasks(spark) * TASKS_PER_CORE)
        numbers = spark.range(0, len(parts), 1, len(parts))
        table = numbers.mapInArrow(_worker(parts, folder), MANIFEST.schema).toArrow()
    return [*kept, *table.to_pylist()]


def _parallel_tasks(spark: SparkSession) -> int:
    """How many tasks the cluster runs at the same time."""
    if not is_remote():
        return spark.sparkContext.defaultParallelism
    # A server of Spark Connect does not report the number, but divides a range into as many parts.
    parts = spark.range(1 << 16).select(sf.spark_partition_id().alias("part"))
    return parts.distinct().count()


def _worker(
    parts: Sequence[Sequence[PlannedRun]], folder: CampaignFolder
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def work(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        schema = to_arrow_schema(MANIFEST.schema)
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                rows = []
                for run in parts[number]:
                    with cleared_away():
                        rows.append(carry_out(run, folder))
                yield pa.RecordBatch.from_pylist(rows, schema)

    return work


def batches(runs: Sequence[PlannedRun], count: int) -> list[list[PlannedRun]]:
    """Divide runs into parts of about equal work, the heaviest first."""
    parts: list[list[PlannedRun]] = [[] for _ in range(min(count, len(runs)))]
    loads = [(0.0, number) for number in range(len(parts))]
    for run in sorted(runs, key=lambda run: (-weight(run), run.id)):
        load, number = loads[0]
        parts[number].append(run)
        heapq.heapreplace(loads, (load + weight(run), number))
    heaviest_first = sorted(loads, key=lambda load: (-load[0], load[1]))
    return [parts[number] for _, number in heaviest_first]


def weight(run: PlannedRun) -> float:
    """The approximate cost of a run, without a unit: joining, and then its events."""
    options = run.options
    nodes = options.nodes or 60
    shares = {"event-burst": 0.9, "reddit": 10.0, "power-law": 10.0}
    events = options.events or nodes * shares.get(options.scenario_name, 0.1)
    return nodes * (20 + events * spec_of(run.protocol).event_cost)


def _violations(plan: Plan, folder: CampaignFolder) -> dict[str, str]:
    done = [folder.result(run.id) for run in plan.runs.values() if folder.has(run)]
    if not done:
        return {}
    columns = ["run", "violations", "first_violation"]
    schema = to_arrow_schema(RESULTS.schema)
    rows = pq.ParquetDataset(done, schema=schema).read(columns).to_pylist()
    return {row["run"]: row["first_violation"] for row in rows if row["violations"]}


def _write_manifest(campaign: Campaign, folder: CampaignFolder) -> None:
    (folder.path / "manifest").mkdir(exist_ok=True)
    table = pa.Table.from_pylist(list(campaign.manifest.values()), to_arrow_schema(MANIFEST.schema))
    place = folder.path / "manifest" / "part-00000.parquet"
    _replace(place, lambda path: pq.write_table(table, path, compression="zstd"))


def _replace(path: Path, write: Callable[[Path], object]) -> None:
    new = path.with_name(f".{path.name}.new")
    write(new)
    new.replace(path)
