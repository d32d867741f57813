"""Topics as a table and as a stream: each event once, in batches that heads determine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import smartpubsub
from smartpubsub import BlockingClient
from smartpubsub.pipeline.datasource.options import OptionError, Position, source_options
from smartpubsub.pipeline.datasource.topics import Topics
from smartpubsub.pipeline.errors import PipelineError, plain_errors
from tests.client.running import running_node
from tests.pipeline.datasource.nodes import (
    batch_of,
    node_in,
    numbers_in,
    published,
    run_to_end,
    stream_of,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "node"


@pytest.fixture
def client(folder: Path) -> Iterator[BlockingClient]:
    with node_in(folder) as client:
        yield client


def test_a_topic_is_a_table(spark: SparkSession, folder: Path, client: BlockingClient) -> None:
    topic = client.create_topic("news").id
    assert batch_of(spark, folder, topic="news").collect() == []
    cids = published(client, topic, range(20))

    rows = batch_of(spark, folder, topic="news", minPartitions=3).collect()

    entries = {entry.id: entry for entry in client.topic(topic).history()}
    assert sorted(row.cid for row in rows) == sorted(cids)
    for row in rows:
        entry = entries[row.cid]
        assert bytes(row.payload) == entry.payload
        assert row.publisher == entry.publisher == client.peer_id
        assert row.published_at.timestamp() == pytest.approx(entry.created.timestamp())
        assert row.topics == [topic]
        assert row.predicate == topic
        assert row.ranges == []
    assert len({row.event_id for row in rows}) == len(rows)

    before = batch_of(spark, folder, topic="news", endingOffsets="2026-01-31")
    assert before.count() == 0
    wrong = batch_of(spark, folder, topic="news", endingOffsets='{"x": {}}')
    with pytest.raises(PipelineError, match="option 'endingOffsets': heads of 'x'"), plain_errors():
        wrong.collect()


def test_heads_are_heights_by_content_id(folder: Path, client: BlockingClient) -> None:
    topic = client.create_topic("news").id
    [cid] = published(client, topic, [1])
    read = Topics(
        source_options({"node": str(folder), "topic": topic}, is_stream=False), pins=False
    )
    try:
        [room] = read.at(Position("latest"))
        assert read.at(Position(offsets={room: {cid: 2}})) == {room: {cid: 2}}
        for heads in ({"bafyreixxx": 2}, {cid: -1}, {cid: 10**30}, {cid: True}, [cid]):
            with pytest.raises(OptionError, match="option 'startingOffsets': heads of"):
                read.at(Position(offsets={room: heads}))
    finally:
        read.close()


def test_a_topic_is_read_through_a_gateway(spark: SparkSession, tmp_path: Path) -> None:
    with running_node(tmp_path) as url, smartpubsub.connect(url=url) as client:
        topic = client.create_topic("news")
        topic.publish(b"hello")
        options = {"node": url, "topic": topic.id}
        rows = spark.read.format("smartpubsub").options(**options).load().collect()
        assert [bytes(row.payload) for row in rows] == [b"hello"]

        sink = spark.createDataFrame([("hi",)], "payload string").write.format("smartpubsub")
        sink.mode("append").options(**options).save()
        assert [entry.payload for entry in topic.history()] == [b"hello", b"hi"]


def test_a_batch_ends_where_its_offsets_say(
    spark: SparkSession, folder: Path, client: BlockingClient, tmp_path: Path
) -> None:
    topic = client.create_topic("news").id
    published(client, topic, range(10))
    frame = stream_of(spark, folder, topic=topic, startingOffsets="earliest", maxEventsPerTrigger=4)

    query = run_to_end(frame, tmp_path / "checkpoint", tmp_path / "out")

    steps = [each for each in query.recentProgress if each.numInputRows]
    assert [each.numInputRows for each in steps] == [4, 4, 2]
    assert all(json.loads(each.sources[0].latestOffset) for each in steps)
    ends = [each.sources[0].endOffset for each in steps]
    middle = batch_of(spark, folder, topic=topic, startingOffsets=ends[0], endingOffsets=ends[1])
    assert numbers_in(middle.collect()) == [4, 5, 6, 7]
    wrong = batch_of(spark, folder, topic=topic, startingOffsets=ends[1], endingOffsets=ends[0])
    with pytest.raises(PipelineError, match="'endingOffsets': is before startingO"), plain_errors():
        wrong.collect()

    published(client, topic, range(10, 13))
    again = run_to_end(frame, tmp_path / "checkpoint", tmp_path / "out")

    assert sum(each.numInputRows for each in again.recentProgress) == 3
    written = spark.read.parquet(str(tmp_path / "out"))
    assert sorted(numbers_in(written.collect())) == [*range(13)]
    assert numbers_in(middle.collect()) == [4, 5, 6, 7]


def test_columns_have_the_types_that_a_user_declares(
    spark: SparkSession, folder: Path, client: BlockingClient
) -> None:
    topic = client.create_topic("news")
    topic.publish(json={"temp": 21.5, "city": "lisbon", "at": "2026-01-31T12:00Z", "tags": ["a"]})
    topic.publish(json={"temp": 3, "city": None, "count": 7})
    topic.publish(b"\xff no JSON")
    declared = "temp double, city string, count int, at timestamp, tags array<string>, cid string"

    frame = spark.read.format("smartpubsub").schema(declared)
    rows = frame.options(node=str(folder), topic="news").load().collect()

    assert [(row.temp, row.city, row["count"], row.tags) for row in rows] == [
        (21.5, "lisbon", None, ["a"]),
        (3.0, None, 7, None),
        (None, None, None, None),
    ]
    assert rows[0].at.isoformat().startswith("2026-01-31T12:00")

    with (
        pytest.raises(PipelineError, match=r"column 'cid' has the type string, not int"),
        plain_errors(),
    ):
        frame.schema("cid int").options(node=str(folder), topic="news").load().collect()
    with pytest.raises(PipelineError, match=r"column 'temp' is declared NOT NULL"), plain_errors():
        frame.schema("temp double not null").options(
            node=str(folder), topic="news"
        ).load().collect()


def test_several_topics_are_read_together(
    spark: SparkSession, folder: Path, client: BlockingClient, tmp_path: Path
) -> None:
    first, second = client.create_topic("first").id, client.create_topic("second").id
    published(client, first, range(6))
    published(client, second, range(100, 102))
    frame = stream_of(
        spark, folder, topic="first, second", startingOffsets="earliest", maxEventsPerTrigger=4
    )

    query = run_to_end(frame, tmp_path / "checkpoint", tmp_path / "out")

    rows = spark.read.parquet(str(tmp_path / "out")).collect()
    assert sorted(numbers_in(rows)) == [0, 1, 2, 3, 4, 5, 100, 101]
    assert {topic for row in rows for topic in row.topics} == {first, second}
    assert all(each.numInputRows <= 5 for each in query.recentProgress)
