"""A folder of records and bad lines, to which sources are added one by one.

Every source has its own folder in it (`source=NAME`). Ingesting a source again replaces that folder
and nothing else.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from urllib.parse import quote

from pyspark.sql import Observation, SparkSession
from pyspark.sql import functions as sf

from smartpubsub.pipeline.errors import PipelineError, told_plainly
from smartpubsub.pipeline.folders import Folder
from smartpubsub.pipeline.ingest import bad_lines, judged, records
from smartpubsub.pipeline.mapping import ColumnMapping
from smartpubsub.pipeline.outputs import PARQUET, Output, is_delta
from smartpubsub.pipeline.schemas import BAD_LINES, RECORDS
from smartpubsub.pipeline.sources import Source, read_sources

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


def salt_of(spark: SparkSession, out: str) -> str:
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
    """Write sources: good lines as records, bad lines unchanged beside them.

    The lines are read once, and if some are bad once more as text.
    """
    found = judged(read_sources(spark, sources, mapping), mapping, salt)
    seen = Observation()
    is_bad = sf.col("reason").isNotNull()
    observed = found.observe(
        seen, sf.count(sf.lit(1)).alias("lines"), sf.count_if(is_bad).alias("bad")
    )
    folder = Folder(spark, out)
    names = [source.name for source in sources]
    output.write(records(observed), out, RECORDS, parts=["source"], replaces={"source": names})
    counts = Ingested(int(seen.get["lines"]), int(seen.get["bad"]))
    if not counts.lines:
        raise PipelineError(f"there are no lines in {', '.join(names)}; give files of data")
    bad = folder.below(BAD)
    if output.format == "parquet":
        for source in sources:
            bad.below(_part(source)).delete()
    if not counts.bad and not is_delta(spark, bad.path):
        return counts
    again = judged(read_sources(spark, sources, mapping, with_lines=True), mapping, salt)
    replaced = {"source": names}
    output.write(bad_lines(again), bad.path, BAD_LINES, parts=["source"], replaces=replaced)
    return counts._replace(reasons=_reasons(bad, spark, names, output))


def _reasons(
    bad: Folder, spark: SparkSession, names: Sequence[str], output: Output
) -> dict[str, int]:
    """The most frequent reasons of bad lines in these sources."""
    with told_plainly():
        read = output.read(spark, bad.path, BAD_LINES.schema)
        written = read.where(sf.col("source").isin([*names]))
        counted = written.groupBy("reason").agg(sf.count("*").alias("lines"))
        rows = counted.orderBy(sf.desc("lines"), "reason").limit(REASONS_MAX).collect()
    return {row["reason"]: row["lines"] for row in rows}


def _part(source: Source) -> str:
    return f"source={quote(source.name)}"
