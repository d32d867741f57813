"""A folder of records and bad lines, to which sources are added one by one.

Every source has its own folder in it (`source=NAME`). Ingesting a source again replaces that folder
and nothing else.
"""

from __future__ import annotations

import json
import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import Observation, SparkSession
from pyspark.sql import functions as sf

from smartpubsub.pipeline.errors import PipelineError, plain_errors
from smartpubsub.pipeline.folders import Folder, MaybeSpark, file_errors
from smartpubsub.pipeline.ingest_files import Row, new_files, replace_files, write_part
from smartpubsub.pipeline.mapping import ColumnMapping
from smartpubsub.pipeline.outputs import PARQUET, Output, is_delta, part_name
from smartpubsub.pipeline.schemas import BAD_LINES, RECORDS
from smartpubsub.pipeline.sources import Source, judged_sources, written_sources

BAD = "_bad"
SALT = "_salt"
SALT_BYTES = 16
REASONS_MAX = 5
"""How many reasons for bad lines are reported; the table has all of them."""


class Ingested(NamedTuple):
    """The number of lines and of bad lines, and the most frequent reasons."""

    lines: int
    bad: int
    reasons: Mapping[str, int] = {}


def salt_of(spark: MaybeSpark, out: str) -> str:
    """The salt of a folder, generated on first use and stored beside the records.

    So an author has the same hash in all sources of a folder, and another one elsewhere.
    """
    file = Folder(spark, out).below(SALT)
    if not file.exists():
        file.write_text(secrets.token_hex(SALT_BYTES))
    return file.read_text()


def write_ingested(
    spark: SparkSession,
    sources: Sequence[Source],
    mapping: ColumnMapping,
    salt: str | None,
    out: str,
    output: Output = PARQUET,
) -> Ingested:
    """Write sources: good lines as records, bad lines unchanged beside them."""
    folder = Folder(spark, out)
    if output == PARQUET and folder.has_plain_files:
        output.check_format(spark, out)
        with file_errors(out), new_files(folder.local_path) as new:
            parts = written_sources(spark, sources, mapping, salt, new)
            return _put_in_place(parts, new, folder)
    return _write_with_spark(spark, sources, mapping, salt, folder, output)


def write_here(spark: MaybeSpark, judged: Mapping[str, pa.RecordBatch], out: str) -> Ingested:
    """Like `write_ingested`, for judged rows and without Spark."""
    folder = Folder(spark, out)
    PARQUET.check_format(spark, out)
    with file_errors(out), new_files(folder.local_path) as new:
        parts = [write_part([rows], source, new) for source, rows in judged.items()]
        return _put_in_place(parts, new, folder)


def _put_in_place(written: Sequence[Row], new: Path, folder: Folder) -> Ingested:
    """Replace the files of sources by new ones."""
    by_source: dict[str, list[Row]] = {}
    reasons: Counter[str] = Counter()
    for row in written:
        by_source.setdefault(row["source"], []).append(row)
        reasons.update(json.loads(row["reasons"]))
    lines = sum(row["lines"] for row in written)
    if not lines:
        raise PipelineError(_no_lines([*by_source]))
    for source, rows in by_source.items():
        part = part_name("source", source)
        places = {RECORDS.name: folder.below(part), BAD_LINES.name: folder.below(BAD).below(part)}
        replace_files(rows, new, {name: place.local_path for name, place in places.items()})
    most = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))[:REASONS_MAX]
    return Ingested(lines, reasons.total(), dict(most))


def _write_with_spark(
    spark: SparkSession,
    sources: Sequence[Source],
    mapping: ColumnMapping,
    salt: str | None,
    folder: Folder,
    output: Output,
) -> Ingested:
    """Write sources on any file system: the lines are read once, and if some are bad once more."""
    found = judged_sources(spark, sources, mapping, salt)
    seen = Observation()
    is_bad = sf.col("reason").isNotNull()
    counted = (sf.count(sf.lit(1)).alias("lines"), sf.count_if(is_bad).alias("bad"))
    names = [source.name for source in sources]
    replaced = {"source": names}
    good = found.observe(seen, *counted).where(~is_bad)
    if output.write(good, folder.path, RECORDS, parts=["source"], replaces=replaced):
        counts = Ingested(int(seen.get["lines"]), int(seen.get["bad"]))
    else:
        # Nothing was observed, and an interrupted run may have left bad lines to be written.
        with plain_errors():
            [row] = found.agg(*counted).collect()
        counts = Ingested(row["lines"], row["bad"])
    if not counts.lines:
        raise PipelineError(_no_lines(names))
    bad = folder.below(BAD)
    if output.format == "parquet":
        for source in sources:
            bad.below(part_name("source", source.name)).delete()
    if not counts.bad and not is_delta(spark, bad.path):
        return counts
    output.write(found.where(is_bad), bad.path, BAD_LINES, parts=["source"], replaces=replaced)
    return counts._replace(reasons=_reasons(bad, spark, names, output))


def _no_lines(names: Sequence[str]) -> str:
    return f"there are no lines in {', '.join(names)}; give files of data"


def _reasons(
    bad: Folder, spark: SparkSession, names: Sequence[str], output: Output
) -> dict[str, int]:
    """The most frequent reasons of bad lines in these sources."""
    with plain_errors():
        read = output.read(spark, bad.path, BAD_LINES.schema)
        written = read.where(sf.col("source").isin([*names]))
        counted = written.groupBy("reason").agg(sf.count("*").alias("lines"))
        rows = counted.orderBy(sf.desc("lines"), "reason").limit(REASONS_MAX).collect()
    return {row["reason"]: row["lines"] for row in rows}
