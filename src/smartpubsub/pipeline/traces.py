"""Traces as tables: what happened to which node, in order, by run."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from smartpubsub.pipeline.errors import PipelineError
from smartpubsub.pipeline.folders import Folder, MaybeSpark
from smartpubsub.pipeline.schemas import Column, Table
from smartpubsub.pipeline.tables import conforming, read_files, require_table

_PLAIN_NAME = re.compile(r"(run=)?([A-Za-z0-9._-]+)")
"""Names of folders that Spark does not escape."""
_LONG, _STRING = LongType(), StringType()

TRACES = Table(
    name="traces",
    about="everything that happens in runs, as written by `sim run --trace` and campaigns",
    columns=(
        Column("at_us", _LONG, "when, in microseconds"),
        Column("what", _STRING, "what happened"),
        Column("node", _LONG, "the node, or -1"),
        Column("peer", _LONG, "the other node", is_nullable=True),
        Column(
            "kind",
            _STRING,
            "the type of a message, what is acknowledged, or the name of a new topic",
            is_nullable=True,
        ),
        Column("size", _LONG, "bytes", is_nullable=True),
        Column("event", _STRING, "the id of an event", is_nullable=True),
        Column("hops", _LONG, "the number of links that it has passed", is_nullable=True),
        Column("text", _STRING, "a predicate, or subscriptions", is_nullable=True),
        Column("subscription", _LONG, "the number of a subscription", is_nullable=True),
    ),
)

_END = StructType(
    [
        StructField("protocol", _STRING),
        StructField("variant", _STRING),
        StructField("scenario", _STRING),
        StructField("nodes", _LONG),
        StructField("seed", _LONG),
        StructField("backups", _LONG),
        StructField("began_us", _LONG),
        StructField("latency_us", _LONG),
        StructField("refresh_us", _LONG),
        StructField("promises_order", BooleanType()),
        StructField("unordered", ArrayType(_STRING)),
        StructField("interrupted", BooleanType()),
    ]
)
"""The last row of a trace, which describes its run."""


def read_traces(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """The rows of traces, with the name of their run and their position in it.

    A path is the folder of a trace, a folder of several, or that of a campaign. The name of a run
    is that of its folder, `run=NAME` or NAME.
    """
    frames = [_read(spark, traces_in(spark, path)) for path in paths]
    rows = frames[0]
    for frame in frames[1:]:
        rows = rows.unionByName(frame)
    return rows


def read_little_traces(spark: MaybeSpark, paths: Sequence[str]) -> pa.Table | None:
    """Like `read_traces`, in this process; None if that takes Spark."""
    tables = []
    for path in paths:
        found = read_files(spark, traces_in(spark, path), TRACES, TRACES.names)
        if found is None:
            return None
        for file, rows in found.items():
            name = _PLAIN_NAME.fullmatch(file.split("/")[-2])
            if name is None:
                return None
            own = {"run": [name[2]] * len(rows), "row": range(len(rows))}
            columns = [pa.array(own["run"], pa.string()), pa.array(own["row"], pa.int64())]
            tables.append(pa.table([*columns, *rows.columns], names=_ORDERED.names))
    return pa.concat_tables(tables)


def traces_in(spark: MaybeSpark, path: str) -> str:
    """The folder of the traces of a campaign, or the path itself."""
    below = f"{path.rstrip('/')}/traces"
    return below if Folder(spark, below).exists() else path


def _read(spark: SparkSession, path: str) -> DataFrame:
    require_table(spark, path, TRACES)
    frame = spark.read.option("recursiveFileLookup", "true").parquet(Folder(spark, path).full_path)
    conforming(frame, TRACES, TRACES.names, place=path)
    folder = sf.element_at(sf.split(sf.col("_metadata.file_path"), "/"), -2)
    known = [name for name in TRACES.names if name in frame.columns]
    return conforming(
        frame.select(
            *known,
            sf.regexp_replace(folder, "^run(=|%3D)", "").alias("run"),
            # Rows of the same time have an order too.
            sf.col("_metadata.row_index").alias("row"),
        ),
        _ORDERED,
        _ORDERED.names,
        place=path,
    )


_ORDERED = Table(
    name=TRACES.name,
    about=TRACES.about,
    columns=(
        Column("run", _STRING, "the run"),
        Column("row", _LONG, "the row's place in its file"),
        *TRACES.columns,
    ),
)


def ends(rows: DataFrame) -> DataFrame:
    """One row for each complete run: its options."""
    said = sf.from_json("text", _END).alias("said")
    return (
        rows.where("what = 'end'")
        .select("run", sf.col("at_us").alias("ended_us"), said)
        .select("run", "ended_us", "said.*")
        .where("nodes is not null")
    )


def checked_count(rows: DataFrame) -> int:
    """The number of rows; raise an error if a run was cut short."""
    ended = sf.count_if(sf.col("what") == "end").alias("ended")
    runs = rows.groupBy("run").agg(ended, sf.count("*").alias("rows")).orderBy("run").toArrow()
    check_ends(dict(zip(runs["run"].to_pylist(), runs["ended"].to_pylist(), strict=True)))
    return sum(runs["rows"].to_pylist())


def check_ends(counts: Mapping[str, int]) -> None:
    """Raise an error if a run has not one end row: its figures would be silently wrong."""
    for run, ended in counts.items():
        if ended > 1:
            raise PipelineError(
                f"there are several traces of a run {run!r}; give folders of different names"
            )
        if not ended:
            raise PipelineError(
                f"the trace of run {run!r} has no end row, so the run was cut short; run it again,"
                " or remove its folder"
            )
