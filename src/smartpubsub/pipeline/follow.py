"""An archive that grows with a node's topics and with events that match predicates.

Streams read the blocks of events, and each batch is verified and added as `archive` adds the blocks
of CAR files. The tables are in the Delta format. The transactions of each table show whether a
batch that is repeated after a crash was added, and no block is ever added twice.
"""

from __future__ import annotations

import base64
import hashlib
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery

from smartpubsub.node.control.pages import split
from smartpubsub.pipeline.archive_folder import (
    TOPICS,
    Archived,
    add_blocks,
    add_few_blocks,
    archive_paths,
)
from smartpubsub.pipeline.archive_schemas import BLOCKS
from smartpubsub.pipeline.datasource.nodes import NodeLink
from smartpubsub.pipeline.datasource.options import NodeOptions
from smartpubsub.pipeline.datasource.source import FORMAT
from smartpubsub.pipeline.errors import PipelineError, plain_text
from smartpubsub.pipeline.outputs import Output, is_delta
from smartpubsub.protocols.blocks import cid_of, cid_text

CHECKPOINTS = "_follow"
ASK_EVERY_S = 0.2
BYTES_HERE_MAX = 16 << 20
"""The size of a batch up to which the driver verifies it alone."""
FILES_MAX = 32
"""The number of files by which a table grows before the driver joins them. Each batch adds some,
and takes some 18 ms of processor time for each file that is there."""
NOTHING = Archived(0, 0, 0, 0, 0, 0)

Tell = Callable[[str, Archived], None]


@dataclass(frozen=True, kw_only=True)
class Following:
    """The topics and predicates to archive, and the folder."""

    node: str
    """A data folder, or the URL of a gateway."""
    out: str
    topics: tuple[str, ...] = ()
    predicates: tuple[str, ...] = ()
    token: str | None = None
    every_s: float = 5.0

    @property
    def node_options(self) -> dict[str, str]:
        """The options that name the node."""
        return {"node": self.node, **({} if self.token is None else {"token": self.token})}

    def sources(self) -> Iterator[tuple[str, dict[str, str]]]:
        """The name of each stream, and its options."""
        if self.topics:
            yield TOPICS, {"topic": ",".join(self.topics)}
        for predicate in self.predicates:
            digest = hashlib.sha256(predicate.encode()).hexdigest()[:16]
            yield f"predicate-{digest}", {"predicate": predicate}


@dataclass
class Followed:
    """The numbers of blocks added since the start."""

    batches: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    versions: dict[str, object] = field(default_factory=dict)
    """For the summary."""

    def add(self, done: Archived) -> None:
        """Count a batch."""
        self.batches += 1
        for name in ("topics", "events", "publications", "bad"):
            self.counts[name] = self.counts.get(name, 0) + getattr(done, name)


class _Files:
    """Joins the files of the tables of an archive when there are many."""

    def __init__(self, spark: SparkSession, out: str) -> None:
        self._spark = spark
        self._paths = archive_paths(out).values()
        self._joined: dict[str, int] = {}
        """The number of files of each table when they were joined last."""

    def join(self) -> None:
        """Join the files of the tables that have many new ones."""
        from smartpubsub.pipeline import delta

        for path in self._paths:
            if is_delta(self._spark, path):
                count = len(delta.files_of(self._spark, path))
                if count >= self._joined.get(path, 0) + FILES_MAX:
                    self._joined[path] = delta.compact(self._spark, path)


def follow(
    spark: SparkSession, following: Following, over: threading.Event, tell: Tell
) -> Followed:
    """Archive new events until `over` is set; `tell` gets each batch's source and result."""
    followed, turn = Followed(), threading.Lock()
    files = _Files(spark, following.out)

    def add(batch: DataFrame, number: int, *, name: str, source: str) -> None:
        # Streams take turns: two writers would take each other's files for their own.
        with _taken(turn, over):
            # A new checkpoint is a new query, whose batches have the same numbers again.
            query = batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
            output = Output("delta", f"follow/{query}", number)
            proofs = _proofs(following) if name == TOPICS else []
            done = _added(batch, f"{name}-{number}", proofs, following.out, output)
            if done.blocks:
                files.join()
                followed.add(done)
                tell(source, done)

    queries: list[StreamingQuery] = []
    # Queries raise the errors of batches, so py4j need not log them; they repeat interrupted ones.
    py4j = logging.getLogger("py4j")
    level = py4j.level
    py4j.setLevel(logging.CRITICAL + 1)
    try:
        for name, options in following.sources():
            of_stream = partial(add, name=name, source=options.get("predicate", TOPICS))
            queries.append(_start(spark, following, name, options, of_stream))
        while not over.wait(ASK_EVERY_S):
            for query in queries:
                if not query.isActive:
                    raise PipelineError(_reason(query))
    finally:
        over.set()
        with turn:
            for query in queries:
                query.stop()
        py4j.setLevel(level)
    followed.versions = Output("delta").versions(spark, archive_paths(following.out))
    return followed


@contextmanager
def _taken(turn: threading.Lock, over: threading.Event) -> Iterator[None]:
    """Wait for a turn; raise InterruptedError once `over` is set, since no turn may come then."""
    while not turn.acquire(timeout=ASK_EVERY_S):
        if over.is_set():
            raise InterruptedError
    try:
        if over.is_set():
            raise InterruptedError
        yield
    finally:
        turn.release()


def _start(
    spark: SparkSession,
    following: Following,
    name: str,
    options: dict[str, str],
    add: Callable[[DataFrame, int], None],
) -> StreamingQuery:
    source = spark.readStream.format(FORMAT).schema("block binary")
    rows = source.options(**following.node_options, **options, startingOffsets="earliest").load()
    checkpoint = f"{following.out.rstrip('/')}/{CHECKPOINTS}/{name}"
    return (
        rows.writeStream.foreachBatch(add)
        .option("checkpointLocation", checkpoint)
        .trigger(processingTime=f"{round(following.every_s * 1000)} milliseconds")
        .start()
    )


def _added(
    batch: DataFrame, source: str, proofs: Sequence[bytes], out: str, output: Output
) -> Archived:
    """Verify and add the blocks of a batch: in the driver if they are few."""
    spark = batch.sparkSession
    kept = batch.where("block is not null").persist()
    try:
        size = kept.agg(sf.sum(sf.length("block")).alias("bytes")).head()
        if size is None or size["bytes"] is None:
            return NOTHING
        more = spark.createDataFrame([(bytearray(block),) for block in proofs], "block binary")
        blocks = _found(more.union(kept), source)
        if size["bytes"] > BYTES_HERE_MAX:
            return add_blocks(blocks.mapInArrow(_with_cids, BLOCKS.schema), out, output)
        rows = [*_with_cids(iter(blocks.toArrow().to_batches()))]
        return add_few_blocks(spark, pa.Table.from_batches(rows), out, output)
    finally:
        kept.unpersist()


def _found(batch: DataFrame, source: str) -> DataFrame:
    """Blocks as those of a CAR file, without their content ids."""
    return batch.select(
        sf.lit(source).alias("source"),
        sf.monotonically_increasing_id().alias("position"),
        "block",
        sf.lit(None).cast("string").alias("reason"),
    )


def _with_cids(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        cids = [cid_text(cid_of(block)) for block in batch.column("block").to_pylist()]
        columns = {name: batch.column(name) for name in ("source", "position", "block", "reason")}
        columns["cid"] = pa.array(cids, pa.string())
        yield pa.RecordBatch.from_pydict({name: columns[name] for name in BLOCKS.names})


def _proofs(following: Following) -> list[bytes]:
    """The blocks that the events of topics are verified with."""
    link = NodeLink(NodeOptions(following.node, following.token), was_there=True)
    try:
        answers = [
            link.ask("topic-heads", topic=topic, limit=0, proof=True) for topic in following.topics
        ]
    finally:
        link.close()
    return [block for each in answers for block in split(base64.b64decode(each["proof"]))]


def _reason(query: StreamingQuery) -> str:
    error = query.exception()
    return "a stream has ended" if error is None else plain_text(error)
