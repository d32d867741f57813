"""`bench pipeline`: a node as a source and a sink of Spark.

The source is compared with a source that reads the same rows from Parquet through the same API.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from smartpubsub.bench.comparison import DisagreementError, Progress
from smartpubsub.bench.report import Ratio, Report
from smartpubsub.bench.timing import best_seconds
from smartpubsub.client.blocking import BlockingClient
from smartpubsub.client.connect import connect
from smartpubsub.node.identity import Identity
from smartpubsub.node.signing import Ed25519Signing
from smartpubsub.pipeline.schemas import EVENT_ROWS
from smartpubsub.protocols.blocks import cid_text
from smartpubsub.protocols.publication import EventId
from smartpubsub.protocols.pulsarcast.events import Draft, new_event
from smartpubsub.protocols.pulsarcast.topics import META, Rules, new_meta_topic, new_topic

TRIES = 4
PARTS = 4
PARQUET = "smartpubsub_bench_parquet"


class ParquetRows(DataSource):
    """The same rows in Parquet files."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return PARQUET

    def schema(self) -> StructType:
        """The columns of events."""
        return EVENT_ROWS.schema

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002
        """Read the files of a folder."""
        return _ParquetReader(sorted(map(str, Path(self.options["folder"]).glob("*.parquet"))))


class _ParquetReader(DataSourceReader):
    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = paths

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(path) for path in self._paths]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        schema = to_arrow_schema(EVENT_ROWS.schema, timezone="UTC")
        yield from pq.read_table(partition.value).cast(schema).to_batches(max_chunksize=10_000)


def measure_nodes(
    spark: SparkSession, report: Report, folder: Path, progress: Progress, events: int, rows: int
) -> None:
    """Read a topic, and publish rows."""
    with _node(folder / "node") as client:
        progress("source: making a topic")
        topic = _filled_topic(client, events)
        _measure_source(spark, report, folder, progress, topic, events)
        progress("sink")
        _measure_sink(spark, report, folder, client, rows)


def _measure_source(
    spark: SparkSession,
    report: Report,
    folder: Path,
    progress: Progress,
    topic: str,
    count: int,
) -> None:
    options = {"node": str(folder / "node"), "topic": topic, "minPartitions": str(PARTS)}
    source = spark.read.format("smartpubsub").options(**options).load()
    same = folder / "same"
    source.write.parquet(str(same))
    spark.dataSource.register(ParquetRows)
    parquet = spark.read.format(PARQUET).option("folder", str(same)).load()
    if source.count() != count or source.exceptAll(parquet).count():
        raise DisagreementError("the source has other events than were published; report this")
    rates = {}
    for name, frame in (("source", source), ("source from parquet", parquet)):
        progress(name)
        rates[name] = count / best_seconds(partial(_to_nowhere, frame), tries=TRIES)
        report.add(f"{name} rows/s", rates[name], "rows/s")
    report.ratios += [
        Ratio("source rows/s", rates["source"], at_least=100_000),
        Ratio("source/parquet", rates["source"] / rates["source from parquet"], at_least=0.5),
    ]


def _measure_sink(
    spark: SparkSession, report: Report, folder: Path, client: BlockingClient, count: int
) -> None:
    """Publish rows, and the same events one after another from this process."""
    frame = spark.range(0, count, 1, 2).selectExpr("concat('bench/n=', id) as predicate", "id")
    sink = frame.write.format("smartpubsub").mode("append").option("node", str(folder / "node"))
    seconds = best_seconds(sink.save, tries=1)
    report.add("sink rows/s", count / seconds, "rows/s")
    few = max(1, count // 10)
    start = time.perf_counter()
    for number in range(few):
        client.publish(f"bench/n={number}", json={"id": number}, key=f"alone/{number}")
    alone = few / (time.perf_counter() - start)
    report.add("publish one by one", alone, "events/s")
    report.ratios.append(Ratio("sink/publish one by one", count / seconds / alone, at_least=0.8))


def _to_nowhere(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


@contextmanager
def _node(folder: Path) -> Iterator[BlockingClient]:
    """A node in a process of its own."""
    command = [sys.executable, "-m", "smartpubsub", "node", "run", "--json", "--data", str(folder)]
    with subprocess.Popen(
        [*command, "--listen", "/ip4/127.0.0.1/tcp/0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as node:
        try:
            assert node.stdout is not None
            node.stdout.readline()  # The first line says that the node is ready.
            with connect(data=folder) as client:
                yield client
        finally:
            node.terminate()


def _filled_topic(client: BlockingClient, count: int) -> str:
    """Import a topic with so many events, each linked to the one before; return its content id."""
    identity = Identity.of(bytes(32))
    peer, signing, now = identity.peer, Ed25519Signing(identity), 1_700_000_000_000_000
    meta = new_meta_topic("bench/meta", peer, signing, now)
    topic = new_topic("bench", peer, Rules(), signing, now, subtopics={META: meta.cid})
    blocks = [meta.block, topic.block]
    before: tuple[bytes, ...] = ()
    for number in range(count):
        payload = json.dumps({"number": number, "temp": number % 40}).encode()
        id = EventId(peer, 1, number + 1)
        draft = Draft(topic=topic.cid, id=id, created_us=now + number, payload=payload)
        event = new_event(draft, peer, before, number + 1, signing)
        blocks.append(event.block)
        before = (event.cid,)
    client.import_blocks(blocks)
    return cid_text(topic.cid)
