"""`bench pipeline`: stages of the pipeline beside SQL and the engine without Spark.

All measurements share one session, which is warm before the first one.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import zstandard
from pyspark import SparkFiles
from pyspark.sql import DataFrame, SparkSession

from smartpubsub.bench import machine
from smartpubsub.bench.campaigns import campaign_figures
from smartpubsub.bench.comparison import DisagreementError, Progress
from smartpubsub.bench.little import measure_little
from smartpubsub.bench.report import Ratio, Report
from smartpubsub.bench.skew import Skew, measure_skew
from smartpubsub.bench.spark_nodes import measure_nodes
from smartpubsub.bench.sql_match import join, waiting
from smartpubsub.bench.timing import best_seconds
from smartpubsub.bench.workloads import W2, events, subscriptions
from smartpubsub.errors import SmartPubSubError
from smartpubsub.matching import Index
from smartpubsub.matching.native_engine import is_available
from smartpubsub.pipeline.ingest_folder import write_ingested
from smartpubsub.pipeline.mapping import REDDIT
from smartpubsub.pipeline.match import build_index, share_index
from smartpubsub.pipeline.match_files import EVENTS_PER_BATCH, matches_in_files
from smartpubsub.pipeline.sessions import core_count, spark_session
from smartpubsub.pipeline.sources import find_sources
from smartpubsub.workloads.subreddits import TOPICS


class Sizes(NamedTuple):
    """The sizes of the measurements."""

    subscriptions: int = 1_000_000
    events: int = 1_000_000
    sql_events: int = 5_000
    """The join gets a part of the events, because it is slow."""
    native_events: int = 50_000
    lines: int = 300_000
    ingest_tries: int = 8
    """Large, because dumps are long, and Spark becomes faster while Java compiles its code."""
    runs: int = 400
    topic_events: int = 100_000
    sink_rows: int = 4_000
    skew: Skew = Skew()


class Bench(NamedTuple):
    """The common inputs of all measurements."""

    spark: SparkSession
    report: Report
    folder: Path
    seed: int
    sizes: Sizes
    progress: Progress


def new_report() -> Report:
    """A report without figures."""
    return Report({**machine.describe(), "cores used": core_count()})


def run(
    report: Report,
    seed: int,
    *,
    progress: Progress,
    sizes: Sizes | None = None,
    parts: Sequence[str] = (),
) -> None:
    """Measure everything, or some parts, and add it to the report."""
    if not is_available():
        raise SmartPubSubError(
            "bench pipeline compares the native engine, which is not installed;"
            " install a C++20 compiler and set up again"
        )
    progress("starting Spark")
    with spark_session() as spark, tempfile.TemporaryDirectory() as folder:
        bench = Bench(spark, report, Path(folder), seed, sizes or Sizes(), progress)
        for part in parts or MEASUREMENTS:
            MEASUREMENTS[part](bench)


def measure_matching(bench: Bench) -> None:
    """The stage `match` beside the join in SQL, and the engine without Spark."""
    sizes, report = bench.sizes, bench.report
    bench.progress("matching: making tables")
    published = _event_table(bench, "events", sizes.events)
    few = _event_table(bench, "few", sizes.sql_events)
    wanted = subscriptions(W2, sizes.subscriptions, bench.seed).table()
    path = _write(bench, "subscriptions", "subscription_id", wanted)
    subscribed = bench.spark.read.parquet(path)
    bench.progress("matching: building the index")
    start = time.perf_counter()
    index_name = share_index(bench.spark, build_index(subscribed.toArrow()))
    report.add("index", sizes.subscriptions / (time.perf_counter() - start), "subscriptions/s")
    bench.progress("matching: the engine alone")
    native = _native_rate(bench, Index.load(SparkFiles.get(index_name)))
    report.add("native single process", native, "events/s")
    bench.progress("matching: the stage")
    found = matches_in_files(bench.spark, few, index_name)
    found.write.format("noop").mode("overwrite").save()
    found = matches_in_files(bench.spark, published, index_name)
    seconds = best_seconds(lambda: found.write.format("noop").mode("overwrite").save(), tries=4)
    report.add("match to nowhere", sizes.events / seconds, "events/s")
    written = sizes.events / best_seconds(lambda: _to_parquet(bench, found, "matches"), tries=1)
    report.add("match", written, "events/s")
    bench.progress("matching: the join in SQL")
    _to_parquet(bench, waiting(subscribed), "waiting")
    ready = bench.spark.read.parquet(str(bench.folder / "waiting"))
    joined = join(bench.spark.read.parquet(few), ready)
    seconds = best_seconds(lambda: _to_parquet(bench, joined, "joined"), tries=1)
    report.add("sql join", sizes.sql_events / seconds, "events/s")
    _check(bench, matches_in_files(bench.spark, few, index_name))
    report.ratios += [
        Ratio("match/sql join", written / report.value("sql join"), at_least=20),
        Ratio(
            "match/native single process",
            report.value("match to nowhere") / (core_count() * native),
            at_least=0.5,
        ),
    ]


def measure_ingest(bench: Bench) -> None:
    """The stage `ingest`, from plain JSON lines and from zstd, as dumps come: several files."""
    bench.progress("ingest: making dumps")
    plain, packed = bench.folder / "dump", bench.folder / "dumps"
    _write_comments(plain, bench.sizes.lines, bench.seed)
    _pack(plain, packed, core_count())
    for path, name in ((plain, "ingest"), (packed, "ingest of zst")):
        bench.progress(name)
        tries = bench.sizes.ingest_tries
        rate = bench.sizes.lines / best_seconds(partial(_ingest, bench, path), tries=tries)
        bench.report.add(name, rate, "lines/s")
        bench.progress(f"{name}: the fields alone")
        alone = bench.sizes.lines / best_seconds(partial(_read_fields, bench, path), tries=tries)
        bench.report.add(name.replace("ingest", "spark.read.json"), alone, "lines/s")
        bench.report.ratios += [
            Ratio(f"{name} lines/s", rate, at_least=100_000),
            Ratio(f"{name}/json", rate / alone, at_least=0.7),
        ]


def measure_campaign(bench: Bench) -> None:
    """The stage `campaign`, beside its simulations alone."""
    bench.progress("campaign")
    campaign_figures(bench.spark, bench.report, bench.sizes.runs)


def measure_source_and_sink(bench: Bench) -> None:
    """A node as a source and a sink."""
    sizes = bench.sizes
    measure_nodes(
        bench.spark, bench.report, bench.folder, bench.progress, sizes.topic_events, sizes.sink_rows
    )


def measure_small_inputs(bench: Bench) -> None:
    """Commands on a handful of rows, beside an empty session."""
    folder = bench.folder / "little"
    folder.mkdir()
    measure_little(bench.report, folder, bench.progress)


def measure_skewed_matching(bench: Bench) -> None:
    """The command `match` where one attribute and some events are popular."""
    bench.progress("skew")
    measure_skew(bench.report, bench.folder / "skew", bench.sizes.skew)


MEASUREMENTS: dict[str, Callable[[Bench], None]] = {
    "match": measure_matching,
    "ingest": measure_ingest,
    "campaign": measure_campaign,
    "nodes": measure_source_and_sink,
    "skew": measure_skewed_matching,
    "little": measure_small_inputs,
}


def _event_table(bench: Bench, name: str, count: int) -> str:
    return _write(bench, name, "event_id", events(count, bench.seed).table())


def _write(bench: Bench, name: str, key: str, table: pa.Table) -> str:
    """A table on disk, in one file per core, so that all cores have work."""
    folder = bench.folder / name
    folder.mkdir()
    numbers = pa.array(np.arange(len(table)))
    table = table.add_column(0, key, numbers)
    table = table.append_column("predicate", pa.nulls(len(table), pa.string()))
    part = -(-len(table) // (2 * core_count()))
    for number, start in enumerate(range(0, len(table), part)):
        path = folder / f"{number}.parquet"
        pq.write_table(table.slice(start, part), path, compression="zstd")
    return str(folder)


def _native_rate(bench: Bench, index: Index) -> float:
    table = events(bench.sizes.native_events, bench.seed).table()
    parts = [
        table.slice(start, EVENTS_PER_BATCH) for start in range(0, len(table), EVENTS_PER_BATCH)
    ]
    return len(table) / best_seconds(lambda: [index.match_table(part) for part in parts])


def _to_parquet(bench: Bench, frame: DataFrame, name: str) -> None:
    frame.write.mode("overwrite").parquet(str(bench.folder / name))


def _check(bench: Bench, found: DataFrame) -> None:
    """Raise an error unless both find the same matches: a wrong result has no speed."""
    joined = bench.spark.read.parquet(str(bench.folder / "joined"))
    if found.exceptAll(joined).union(joined.exceptAll(found)).count():
        raise DisagreementError(
            "the stage match and the join in SQL find different matches; please report this"
        )


def _ingest(bench: Bench, path: Path) -> None:
    sources = find_sources(bench.spark, [str(path)], REDDIT)
    write_ingested(bench.spark, sources, REDDIT, "a salt", str(bench.folder / "records"))


def _read_fields(bench: Bench, path: Path) -> None:
    """Read the same fields with Spark's reader, and write them unchanged."""
    schema = ", ".join(f"{name} string" for name in REDDIT.columns())
    fields = bench.spark.read.json(str(path), schema=schema)
    _to_parquet(bench, fields, "fields")


def _pack(path: Path, folder: Path, count: int) -> None:
    """Divide a file among compressed ones."""
    folder.mkdir()
    lines = path.read_bytes().splitlines(keepends=True)
    part = -(-len(lines) // count)
    for number, start in enumerate(range(0, len(lines), part)):
        packed = zstandard.compress(b"".join(lines[start : start + part]))
        (folder / f"{number}.zst").write_bytes(packed)


def _write_comments(path: Path, count: int, seed: int) -> None:
    """Lines as in dumps, of typical length."""
    rng = Random(seed)
    names = [topic.name for topic in TOPICS]
    weights = [topic.events for topic in TOPICS]
    words = [f"word{number}" for number in range(2_000)]
    bodies = [" ".join(rng.choices(words, k=rng.randint(3, 40))) for _ in range(1_000)]
    with path.open("w", encoding="utf-8") as file:
        for number, topic in enumerate(rng.choices(names, weights, k=count)):
            comment = {
                "id": f"c{number:x}",
                "author": f"user-{rng.randrange(5_000)}",
                "subreddit": topic,
                "body": bodies[rng.randrange(1_000)],
                "created_utc": str(1_190_000_000 + number),
                "score": rng.randint(-5, 50),
                "ups": rng.randint(0, 50),
                "downs": 0,
                "controversiality": 0,
                "link_id": "t3_5yba3",
                "parent_id": "t1_c02s6r4",
                "edited": False,
                "distinguished": None,
            }
            file.write(json.dumps(comment) + "\n")
