"""An archive: a folder with tables of topics and events, to which blocks are added.

A block in the archive is never written again, because its content id identifies it. So archiving
the same blocks twice changes nothing, and repeating an interrupted run completes it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import to_arrow_schema

from smartpubsub.pipeline import archive, archive_little
from smartpubsub.pipeline.archive_schemas import (
    ARCHIVED_EVENTS,
    ARCHIVED_PUBLICATIONS,
    ARCHIVED_TOPICS,
    BAD_BLOCKS,
)
from smartpubsub.pipeline.car_files import read_blocks, write_car_file
from smartpubsub.pipeline.errors import PipelineError, plain_errors
from smartpubsub.pipeline.folders import Folder, MaybeSpark, locked, require
from smartpubsub.pipeline.little import sized
from smartpubsub.pipeline.outputs import PARQUET, Output, is_delta, part_name
from smartpubsub.pipeline.schemas import Table
from smartpubsub.pipeline.tables import check_output, read_table
from smartpubsub.protocols.blocks import Cid, cid_from_text, cid_of, cid_text

TOPICS, EVENTS, PUBLICATIONS, BAD = "topics", "events", "publications", "_bad"
_HANDED_OVER = "_handed_over"
WHAT = "an archive, as pipeline archive --out writes it"
REASONS_MAX = 5
ROOTS_MAX = 10_000
"""If more events than this have no successor, only topics are roots of a CAR file."""
_LAST = "~"
"""Sorts after all content ids."""
BYTES_AT_ONCE = 32 << 20
"""The approximate size of the parts in which the driver reads blocks."""
_EVENT_ORDER = ("topic", "day", "height", "cid")
_PUBLICATION_ORDER = ("day", "created", "cid")


class Archived(NamedTuple):
    """The counts of blocks that were found, new and bad."""

    blocks: int
    topics: int
    events: int
    publications: int
    """Events of no topic."""
    bad: int
    missing: int
    """Events that new ones link to and the archive lacks."""
    reasons: Mapping[str, int] = {}
    """The reasons of bad blocks, the most frequent first."""

    @property
    def known(self) -> int:
        """Blocks that were already there, or repeated in the input."""
        return self.blocks - self.topics - self.events - self.publications - self.bad


def archive_paths(out: str) -> dict[str, str]:
    """The paths of the tables of an archive, by name."""
    return {name: f"{out.rstrip('/')}/{name}" for name in (TOPICS, EVENTS, PUBLICATIONS)}


def check_archive_output(spark: MaybeSpark, out: str) -> None:
    """Raise an error if adding to an archive here would destroy something else."""
    for path in archive_paths(out).values():
        check_output(spark, path)


@contextmanager
def only_writer(spark: MaybeSpark, out: str) -> Iterator[None]:
    """Lock an archive whose files are plain: two writers would add the same blocks twice."""
    folder = Folder(spark, out)
    is_plain = folder.has_plain_files
    with locked(folder.local_path, "pipeline archive") if is_plain else nullcontext():
        yield


@contextmanager
def handed_over(spark: SparkSession, files: Sequence[Path], out: str) -> Iterator[list[str]]:
    """Copy local files to a place that all workers see, until the block is left."""
    folder = Folder(spark, out).below(_HANDED_OVER)
    try:
        for file in files:
            folder.below(file.name).take(file)
        yield [folder.below(file.name).path for file in files]
    finally:
        if files:
            folder.delete()


def add_to_archive(
    spark: SparkSession, cars: Mapping[str, str], out: str, output: Output = PARQUET
) -> Archived:
    """Add the blocks of CAR files to an archive, which may be new."""
    blocks = read_blocks(spark, cars)
    with sized(spark, [*cars.values()]) as is_little, plain_errors():
        if is_little:
            archived = add_few_blocks(spark, blocks.toArrow(), out, output)
        else:
            # One task reads a file; all tasks verify its blocks.
            archived = add_blocks(blocks.repartition("source", "position"), out, output)
    if not archived.blocks:
        raise PipelineError(f"there are no blocks in {', '.join(cars)}; give other CAR files")
    return archived


def add_blocks(blocks: DataFrame, out: str, output: Output = PARQUET) -> Archived:
    """Add blocks to an archive: verified, and each once."""
    spark, latest_us = blocks.sparkSession, archive.now_us()
    known = _Known.of(spark, out)
    with plain_errors(), ExitStack() as stack:

        def kept(frame: DataFrame) -> DataFrame:
            """Cache a frame that is used several times."""
            return stack.enter_context(_on_disk(frame))

        found = kept(archive.opened(blocks))
        topics = kept(archive.judged_topics(found, known.topics, latest_us))
        new_topics = kept(_new(topics, known.topics, ARCHIVED_TOPICS))
        all_topics = kept(new_topics.union(known.topics))
        events = kept(archive.judged_events(found, all_topics, latest_us))
        events = kept(archive.lying_above(events, known.events))
        new_events = kept(_new(events, known.events, ARCHIVED_EVENTS))
        publications = kept(archive.judged_publications(found, latest_us))
        new_publications = kept(_new(publications, known.publications, ARCHIVED_PUBLICATIONS))
        bad = kept(archive.bad_blocks(found, topics, events, publications))
        missing = archive.missing_parents(new_events, new_events.union(known.events))
        archived = Archived(
            blocks=found.count(),
            topics=new_topics.count(),
            events=new_events.count(),
            publications=new_publications.count(),
            bad=bad.count(),
            missing=missing.count(),
            reasons=_reasons(bad),
        )
        names = [row["source"] for row in found.select("source").distinct().collect()]
        by_day = new_publications.hint("rebalance", "day")
        new = {
            TOPICS: new_topics.orderBy("topic", "version"),
            EVENTS: new_events.hint("rebalance", "topic", "day").sortWithinPartitions(
                *_EVENT_ORDER
            ),
            PUBLICATIONS: by_day.sortWithinPartitions(*_PUBLICATION_ORDER),
            BAD: bad,
        }
        _write(archived, new, names, spark, out, output, output.write)
    return archived


def add_few_blocks(
    spark: SparkSession, blocks: pa.Table, out: str, output: Output = PARQUET
) -> Archived:
    """Like `add_blocks`, of blocks that fit in the driver, with few Spark jobs."""
    known = _Known.of(spark, out)
    found = archive_little.opened(blocks.to_pylist())
    topics_there = known.topics.toArrow().to_pylist()
    judged = archive_little.judged(found, topics_there, archive.now_us())
    heights = known.heights(judged.events)
    archive_little.refuse_wrong_heights(judged.events, heights)
    events_there = {cid for _, cid in heights}
    topics = archive_little.good(judged.topics, (row["cid"] for row in topics_there))
    events = archive_little.good(judged.events, events_there)
    publications = archive_little.good(judged.publications, known.published(judged.publications))
    linked = {cid for row in events for cid in row["parents"]}
    archived = Archived(
        blocks=len(found),
        topics=len(topics),
        events=len(events),
        publications=len(publications),
        bad=len(judged.bad),
        missing=len(linked - events_there - {row["cid"] for row in events}),
        reasons=_most_frequent(Counter(row["reason"] for row in judged.bad)),
    )

    def table(rows: list[archive_little.Row], of: Table, *order: str) -> pa.Table:
        schema = to_arrow_schema(of.schema, timezone="UTC")
        return pa.Table.from_pylist(rows, schema=schema).sort_by([(o, "ascending") for o in order])

    new = {
        TOPICS: table(topics, ARCHIVED_TOPICS, "topic", "version"),
        EVENTS: table(events, ARCHIVED_EVENTS, *_EVENT_ORDER),
        PUBLICATIONS: table(publications, ARCHIVED_PUBLICATIONS, *_PUBLICATION_ORDER),
        BAD: table(judged.bad, BAD_BLOCKS, "source", "position"),
    }
    names = sorted({row["source"] for row in found})
    with plain_errors():
        _write(archived, new, names, spark, out, output, partial(output.write_rows, spark))
    return archived


class _Known(NamedTuple):
    """The tables of an archive."""

    topics: DataFrame
    events: DataFrame
    publications: DataFrame

    @classmethod
    def of(cls, spark: SparkSession, out: str) -> _Known:
        """The tables of an existing archive."""
        folder = out.rstrip("/")
        return cls(
            _read(spark, f"{folder}/{TOPICS}", ARCHIVED_TOPICS),
            _read(spark, f"{folder}/{EVENTS}", ARCHIVED_EVENTS),
            _read(spark, f"{folder}/{PUBLICATIONS}", ARCHIVED_PUBLICATIONS),
        )

    def heights(self, rows: Sequence[archive_little.Row]) -> dict[tuple[str, str], int]:
        """The heights of those events that are or link to some rows."""
        cids = [cid for row in rows for cid in (row["cid"], *(row.get("parents") or ()))]
        found = _among(self.events, cids, "room", "cid", "height")
        return {(row["room"], row["cid"]): row["height"] for row in found}

    def published(self, rows: Sequence[archive_little.Row]) -> list[str]:
        """Which rows are known publications."""
        found = _among(self.publications, [row["cid"] for row in rows], "cid")
        return [row["cid"] for row in found]


def _among(frame: DataFrame, cids: Sequence[str], *columns: str) -> list[archive_little.Row]:
    if not cids:
        return []
    wanted = frame.sparkSession.createDataFrame(pa.table({"cid": cids}), schema="cid string")
    found = frame.join(sf.broadcast(wanted), "cid", "left_semi").select(*columns)
    rows: list[archive_little.Row] = found.toArrow().to_pylist()
    return rows


def _write(
    archived: Archived,
    new: Mapping[str, DataFrame | pa.Table],
    names: Sequence[str],
    spark: SparkSession,
    out: str,
    output: Output,
    write: Callable[..., object],
) -> None:
    """Add to the tables, and replace the bad blocks of the sources that were read."""
    tables: tuple[tuple[int, str, Table, list[str]], ...] = (
        (archived.topics, TOPICS, ARCHIVED_TOPICS, []),
        (archived.events, EVENTS, ARCHIVED_EVENTS, ["topic", "day"]),
        (archived.publications, PUBLICATIONS, ARCHIVED_PUBLICATIONS, ["day"]),
    )
    out = out.rstrip("/")
    for count, name, table, parts in tables:
        if count:
            write(new[name], f"{out}/{name}", table, parts=parts, is_more=True)
    path = f"{out}/{BAD}"
    if output.format == "parquet":
        for source in names:
            Folder(spark, path).below(part_name("source", source)).delete()
    had_some = is_delta(spark, path) and not (
        read_table(spark, path, BAD_BLOCKS).where(sf.col("source").isin([*names])).isEmpty()
    )
    if archived.bad or had_some:
        write(new[BAD], path, BAD_BLOCKS, parts=["source"], replaces={"source": names})


def _read(spark: SparkSession, path: str, table: Table) -> DataFrame:
    if is_delta(spark, path) or Folder(spark, path).has_files():
        return read_table(spark, path, table)
    return spark.createDataFrame([], table.schema)


def _new(judged: DataFrame, known: DataFrame, table: Table) -> DataFrame:
    return archive.good(judged, table).join(known.select("cid"), "cid", "left_anti")


@contextmanager
def _on_disk(frame: DataFrame) -> Iterator[DataFrame]:
    kept = frame.persist(StorageLevel.DISK_ONLY)
    try:
        yield kept
    finally:
        kept.unpersist()


def _reasons(bad: DataFrame) -> dict[str, int]:
    rows = bad.groupBy("reason").agg(sf.count("*").alias("blocks")).collect()
    return _most_frequent({row["reason"]: row["blocks"] for row in rows})


def _most_frequent(counts: Mapping[str, int]) -> dict[str, int]:
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return dict(ordered[:REASONS_MAX])


def write_car_of_archive(
    spark: SparkSession, folder: str, file: str, wanted: Sequence[str] = ()
) -> dict[str, int]:
    """Write topics of an archive, or all of it, to a CAR file; return the counts.

    Blocks are in an order in which they can be verified one by one: a topic's descriptors, then its
    events in the topic's order; events of no topic come last, in the order of time. Roots are the
    newest version of each topic, and the events to which nothing links.
    """
    require(Folder(spark, folder), WHAT)
    folder = folder.rstrip("/")
    publications = _read(spark, f"{folder}/{PUBLICATIONS}", ARCHIVED_PUBLICATIONS)
    has_publications = not wanted and not publications.isEmpty()
    read = _read if has_publications else read_table  # It may have no topics.
    topics = read(spark, f"{folder}/{TOPICS}", ARCHIVED_TOPICS)
    events = _read(spark, f"{folder}/{EVENTS}", ARCHIVED_EVENTS)
    if wanted:
        chosen = _chosen(topics, wanted, folder)
        topics, events = (frame.where(sf.col("topic").isin(chosen)) for frame in (topics, events))
    with plain_errors():
        topics, events = topics.dropDuplicates(["cid"]), events.dropDuplicates(["cid"])
        counts = {TOPICS: topics.count(), EVENTS: events.count()}
        said = _said(events)
        if has_publications:
            publications = publications.dropDuplicates(["cid"])
            counts[PUBLICATIONS] = publications.count()
            said = said.union(_said_in_no_topic(publications))
        written = write_car_file(spark, file, _roots(topics, said), _blocks(topics, said))
    assert written == sum(counts.values())
    return counts


def _chosen(topics: DataFrame, wanted: Sequence[str], folder: str) -> list[str]:
    """Resolve content ids or names to topics of the archive."""
    chosen = []
    for text in wanted:
        rows = topics.where((sf.col("cid") == text) | (sf.col("name") == text) & ~sf.col("is_meta"))
        found = [row["topic"] for row in rows.select("topic").distinct().orderBy("topic").collect()]
        if not found:
            known = topics.where("not is_meta").select("name").distinct().orderBy("name")
            names = ", ".join(row["name"] for row in known.limit(REASONS_MAX).collect())
            raise PipelineError(f"{folder} has no topic {text!r}, only {names}; name one of these")
        if len(found) > 1:
            raise PipelineError(
                f"{folder} has {len(found)} topics called {text!r}: {', '.join(found)}; name one"
                " by its content id"
            )
        chosen += found
    return chosen


def _said(events: DataFrame) -> DataFrame:
    """Events with their sort key in a file."""
    level = sf.col("height").alias("level")
    return events.select("topic", sf.lit(1).alias("part"), level, "parents", "cid", "block")


def _said_in_no_topic(publications: DataFrame) -> DataFrame:
    """Events of no topic with their sort key in a file, after all others."""
    topic, nothing = sf.lit(_LAST).alias("topic"), sf.array().cast("array<string>")
    level = sf.unix_micros("created")
    return publications.select(topic, sf.lit(2), level, nothing, sf.col("cid"), sf.col("block"))


def _roots(topics: DataFrame, said: DataFrame) -> list[Cid]:
    newest = topics.groupBy("topic").agg(
        sf.max_by("cid", sf.when(sf.col("is_meta"), 0).otherwise(sf.col("version"))).alias("cid")
    )
    linked = said.select(sf.explode("parents").alias("cid"))
    heads = said.join(linked, "cid", "left_anti").select("topic", "level", "cid", _digest())
    first = [row["cid"] for row in newest.orderBy("topic").limit(ROOTS_MAX).collect()]
    ordered = heads.orderBy("topic", "level", "digest").limit(ROOTS_MAX + 1).collect()
    last = [row["cid"] for row in ordered]
    return [*map(cid_from_text, first + last if len(last) <= ROOTS_MAX else first)]


def _digest() -> Column:
    """A sort key for content ids by their bytes, which differs from the order of their texts."""
    return sf.sha2("block", 256).alias("digest")


def _blocks(topics: DataFrame, said: DataFrame) -> Iterator[bytes]:
    """All blocks in order, without holding all of them in memory."""
    level = sf.when(sf.col("is_meta"), 0).otherwise(sf.col("version")).alias("level")
    descriptors = topics.select("topic", sf.lit(0).alias("part"), level, _digest(), "cid", "block")
    both = descriptors.union(said.select("topic", "part", "level", _digest(), "cid", "block"))
    size = both.agg(sf.sum(sf.length("block")).alias("bytes")).head()
    parts = 1 + int((size and size["bytes"]) or 0) // BYTES_AT_ONCE
    keys = ["topic", "part", "level", "digest"]
    ordered = both.repartitionByRange(parts, *keys).sortWithinPartitions(*keys)
    for row in ordered.select("cid", "block").toLocalIterator():
        block = bytes(row["block"])
        if cid_text(cid_of(block)) != row["cid"]:
            raise PipelineError(
                f"the block of {row['cid']} is not what its content id says;"
                " remove its file from the table and archive its topic again"
            )
        yield block
