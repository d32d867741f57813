"""One run of a campaign in a worker: complete, or not at all.

Files are written under another name and then renamed, so a file under its final name is complete
even if a worker was killed. So a restarted campaign repeats nothing.
"""

from __future__ import annotations

import shutil
import time
import uuid
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import to_arrow_schema

from smartpubsub.errors import SmartPubSubError
from smartpubsub.pipeline.plan import PlannedRun
from smartpubsub.pipeline.result_schemas import RESULTS, flattened
from smartpubsub.sim.judging import result as results
from smartpubsub.sim.judging.result import Result
from smartpubsub.sim.traces.trace import Trace
from smartpubsub.sim.traces.trace_files import TraceFolder

DONE, KEPT, FAILED = "done", "kept", "failed"
ERROR_CHARACTERS_MAX = 500


@dataclass(frozen=True)
class CampaignFolder:
    """The folders of a campaign; all workers must see them under the same path."""

    path: Path

    @property
    def results(self) -> Path:
        """The table of results."""
        return self.path / "results"

    @property
    def traces(self) -> Path:
        """The traces of all runs that keep one."""
        return self.path / "traces"

    def result(self, id: str) -> Path:
        """The result of a run."""
        return self.results / f"run={id}.parquet"

    def trace(self, id: str) -> Path:
        """The folder of a run's trace."""
        return self.traces / f"run={id}"

    def has(self, run: PlannedRun) -> bool:
        """Whether a run is done, including its trace if requested."""
        return self.result(run.id).exists() and (not run.has_trace or self.trace(run.id).exists())

    def clear(self) -> None:
        """Remove unfinished files."""
        for folder in (self.results, self.traces):
            folder.mkdir(parents=True, exist_ok=True)
            for left in folder.glob(".run=*"):
                if left.is_dir():
                    shutil.rmtree(left)
                else:
                    left.unlink()


def carry_out(run: PlannedRun, folder: CampaignFolder) -> dict[str, object]:
    """Execute a run unless it is done, and return its row of the manifest."""
    began, state, problem = time.perf_counter(), KEPT, None
    if not folder.has(run):
        try:
            _carry_out(run, folder)
            state = DONE
        except Exception as error:  # Any failure of a run must not stop the others.
            state, problem = FAILED, _error_text(error)[:ERROR_CHARACTERS_MAX]
    return {
        "run": run.id,
        "experiment": run.experiment,
        "state": state,
        "error": problem,
        "seconds": time.perf_counter() - began,
        "command": run.command,
    }


def _error_text(error: Exception) -> str:
    """The text of an error, with its class unless it is one of ours."""
    is_ours = isinstance(error, SmartPubSubError)
    return str(error) if is_ours else f"{type(error).__name__}: {error}"


def _carry_out(run: PlannedRun, folder: CampaignFolder) -> None:
    mark = uuid.uuid4().hex
    new_trace = folder.traces / f".run={run.id}.{mark}"
    new_result = folder.results / f".run={run.id}.{mark}"
    try:
        result = _run(run, new_trace if run.has_trace else None)
        row = pa.Table.from_pylist([result_row(run, result)], to_arrow_schema(RESULTS.schema))
        # For one row, dictionary encoding would only take time.
        pq.write_table(row, new_result, compression="zstd", use_dictionary=False)
        if run.has_trace:
            _put_in_place(new_trace, folder.trace(run.id))
        new_result.replace(folder.result(run.id))  # The last step: now the run is done.
    finally:
        shutil.rmtree(new_trace, ignore_errors=True)
        new_result.unlink(missing_ok=True)


def _run(run: PlannedRun, trace_folder: Path | None) -> Result:
    options = run.options
    with ExitStack() as stack:
        sink = stack.enter_context(TraceFolder(trace_folder)) if trace_folder else None
        trace = Trace(sink)
        workload = options.load([run.protocol])
        experiment = options.experiment(run.protocol, run.variant, workload, trace=trace)
        result = results.run(experiment, options.scenario_name)
        trace.flush()
    if experiment.was_interrupted:
        raise SmartPubSubError("it was interrupted")
    return result


def _put_in_place(new: Path, place: Path) -> None:
    """Rename a folder; an existing one is of the same run, and equivalent."""
    try:
        new.replace(place)
    except OSError:
        if not place.is_dir():
            raise


def result_row(run: PlannedRun, result: Result) -> dict[str, object]:
    """A result as a row of the table of results."""
    options, network = run.options, run.options.network
    violations = result.violations
    about = {
        "run": run.id,
        "experiment": run.experiment,
        "backups": options.backups,
        "link_latency_ms": network.latency_us / 1000,
        "link_jitter_ms": network.jitter_us / 1000,
        "link_loss": network.loss,
        "link_bandwidth_bytes": network.bandwidth_bytes_per_s,
        "ordered": options.ordered,
        "faults": options.crash_count,
        "adversary": " ".join(map(str, options.adversary)),
        "command": run.command,
        "violations": len(violations),
        "first_violation": violations[0].what if violations else None,
    }
    row = {**flattened(result.document()), **about}
    return {name: row[name] for name in RESULTS.names}
