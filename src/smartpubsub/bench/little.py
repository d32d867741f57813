"""`bench pipeline`: the processor time of stages on little data, beside that of an empty session.

Each command is a process, measured with all processes that it starts; the empty session starts
Java. A process of its own measures the later stages of a session, with all its processes.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from smartpubsub.bench import second_stage
from smartpubsub.bench.comparison import Progress
from smartpubsub.bench.processor_time import processor_seconds
from smartpubsub.bench.report import Ratio, Report
from smartpubsub.errors import SmartPubSubError
from smartpubsub.pipeline.java import find_java, use_java
from smartpubsub.sim.experiments.options import SimOptions
from smartpubsub.sim.judging import result as results
from smartpubsub.sim.traces.trace import Trace
from smartpubsub.sim.traces.trace_files import TraceFolder

NODE_COUNT = 20
EMPTY = "empty session"
_EMPTY = """
from pyspark.sql import SparkSession
with SparkSession.builder.getOrCreate() as spark:
    spark.range(1).count()
"""
SECOND_S_MAX = 3


def measure_little(report: Report, folder: Path, progress: Progress) -> None:
    """Measure `measure` of a short run, `ingest` of four rows, `match` of three and three."""
    use_java(find_java())
    trace = _trace(folder / "trace")
    ingest = _ingest(folder)
    match = _match(folder)
    commands = {
        EMPTY: [sys.executable, "-c", _EMPTY],
        "measure": _command("measure", str(trace), "--out", str(folder / "metrics")),
        "ingest": _command("ingest", *ingest, "--out", str(folder / "few")),
        "match": _command("match", *match, "--out", str(folder / "m")),
    }
    for name, command in commands.items():
        progress(f"little: {name}")
        report.add(f"{name} of little" if name != EMPTY else EMPTY, processor_seconds(command), "s")
    empty = report.value(EMPTY)
    report.ratios += [
        Ratio(f"{name}/{EMPTY}", report.value(f"{name} of little") / empty, at_most=3)
        for name in ("measure", "ingest", "match")
    ]
    progress("little: a second stage")
    seconds = _second_stages(str(folder), *ingest[::2], str(trace))
    for name, value in seconds.items():
        report.add(f"{name} as a second stage", value, "s")
    slowest = max(seconds.values())
    report.ratios.append(Ratio("seconds of a second stage", slowest, at_most=SECOND_S_MAX))


def _second_stages(*words: str) -> dict[str, float]:
    """The processor time of later stages in a session of their own, by name."""
    command = [sys.executable, "-m", second_stage.__name__, *words]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if done.returncode:
        raise SmartPubSubError(f"stages in one session failed with the code {done.returncode}")
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _command(stage: str, *words: str) -> list[str]:
    return [sys.executable, "-m", "smartpubsub", "pipeline", stage, *words]


def _trace(folder: Path) -> Path:
    """The trace of a run: some thousand rows."""
    options = SimOptions(nodes=NODE_COUNT)
    with TraceFolder(folder) as sink:
        trace = Trace(sink)
        workload = options.load(["scoutsubs"])
        variant = "redirect-reliable"
        results.run(
            options.experiment("scoutsubs", variant, workload, trace=trace), options.scenario_name
        )
        trace.flush()
    return folder


def _ingest(folder: Path) -> list[str]:
    data, mapping = folder / "few.csv", folder / "few.toml"
    data.write_text("city,temp\nlisbon,24\nporto,22\nfaro,27\nbraga,19\n", encoding="utf-8")
    mapping.write_text('topics = ["city"]\nranges = ["temp"]\n', encoding="utf-8")
    return [str(data), "--mapping", str(mapping)]


def _match(folder: Path) -> list[str]:
    for name, key in (("e", "event_id"), ("s", "subscription_id")):
        (folder / name).mkdir()
        rows = {key: [1, 2, 3], "predicate": ["surf", "surf/price=3", "ski"]}
        pq.write_table(pa.table(rows), folder / name / "0.parquet")
    return ["--events", str(folder / "e"), "--subscriptions", str(folder / "s")]
