"""Predicates as a table of the past, and as a stream from a journal at the node."""

from __future__ import annotations

import math
from contextlib import ExitStack, closing
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import EqualTo, GreaterThan, IsNotNull, LessThanOrEqual, Not
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import DoubleType, FloatType, IntegerType, StringType, StructType

from smartpubsub.pipeline import stream
from smartpubsub.pipeline.datasource.journals import Journal
from smartpubsub.pipeline.datasource.nodes import NodeLink
from smartpubsub.pipeline.datasource.options import (
    DataLossError,
    Position,
    SourceOptions,
    source_options,
)
from smartpubsub.pipeline.datasource.past import PastReader
from smartpubsub.pipeline.datasource.topics import TopicStreamReader
from smartpubsub.pipeline.errors import PipelineError, plain_errors
from smartpubsub.pipeline.schemas import EVENT_ROWS
from tests.pipeline.datasource.nodes import batch_of, node_in, run_to_end, stream_of

TEMPERATURES = "event_id string, temp double, city string, topics array<string>, cid string"


def test_past_events_are_a_table(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "node"
    with node_in(folder) as client:
        for temp in range(20, 30):
            client.publish(f"portugal/temp={temp}.5", json={"city": f"c{temp}", "wind": temp % 3})
        client.publish("portugal/temp[1,2]")
        client.publish("spain/temp=25")
        assert batch_of(spark, folder, predicate="france").collect() == []
        assert not batch_of(spark, folder, predicate="spain", startingOffsets="latest").count()

        table = spark.read.format("smartpubsub").schema(TEMPERATURES + ", wind int")
        rows = table.options(node=str(folder), where="portugal and temp", minPartitions=3).load()
        warm = rows.where("temp >= 25.5 and temp < 28 and wind = 1 and city like 'c%'")
        found = rows.collect()

        assert sorted(row.temp or 0 for row in found) == [0, *(t + 0.5 for t in range(20, 30))]
        assert {tuple(row.topics) for row in found} == {("portugal",)}
        assert all(row.cid.startswith("bafyrei") for row in found)
        assert len({row.event_id for row in found}) == 11
        assert [(row.temp, row.city) for row in warm.collect()] == [(25.5, "c25")]


def test_the_node_leaves_out_what_filters_exclude() -> None:
    options = source_options({"node": "a", "where": "portugal and temp"}, is_stream=False)
    schema = StructType().add("temp", DoubleType()).add("wind", IntegerType())
    schema = schema.add("city", StringType()).add("event_id", StringType()).add("felt", FloatType())
    reader = PastReader(options, schema)
    kept = [
        EqualTo(("city",), "lisbon"),
        IsNotNull(("temp",)),
        EqualTo(("event_id",), "a"),
        Not(EqualTo(("temp",), 20.0)),
        EqualTo(("felt",), 0.10000000149011612),  # What 0.1 is as a float; events have 0.1.
    ]
    taken = [GreaterThan(("temp",), 25.0), LessThanOrEqual(("temp",), 28.0), EqualTo(("wind",), 1)]

    assert [*reader.pushFilters([*kept, *taken])] == kept

    wanted = reader.predicate.attributes
    assert [*wanted] == ["portugal", "temp"]  # Events may have the wind in their payload only.
    assert wanted["temp"] == (math.nextafter(25, 0), math.nextafter(28, 99))
    rows = pa.record_batch({"temp": [25.0, 26.0, 28.0, 26.0, None], "wind": [1, 1, 1, 2, 1]})
    assert reader.filtered(rows).column("temp").to_pylist() == [26.0, 28.0]


@pytest.mark.parametrize("option", ["startingOffsets", "endingOffsets"])
def test_a_table_of_the_past_has_no_offsets(option: str) -> None:
    given = {"node": "a", "predicate": "surf", option: "{}"}
    with pytest.raises(PipelineError, match=f"option '{option}': a table of past events"):
        PastReader(source_options(given, is_stream=False), StructType())


def test_a_journal_survives_the_query_and_the_node(spark: SparkSession, tmp_path: Path) -> None:
    folder, out, checkpoint = tmp_path / "node", tmp_path / "out", tmp_path / "checkpoint"
    options = {"predicate": "surf/price[,20]", "startingOffsets": "earliest"}
    with node_in(folder) as client:
        for price in (10, 30, 11):
            client.publish(f"surf/price={price}", wait="all")
        frame = stream_of(spark, folder, maxEventsPerTrigger=2, minPartitions=2, **options)
        run_to_end(frame, checkpoint, out)
        [journal] = client.subscriptions()
        client.publish("surf/price=12", wait="all")
        # An ordinary subscription with the same predicate gets its own events.
        with client.subscribe("surf/price[,20]", keep=True) as events:
            assert events.number != journal.number
    with node_in(folder) as client:
        for price in (13, 14, 15):
            client.publish(f"surf/price={price}", wait="all")
        query = run_to_end(frame, checkpoint, out)

        assert [each.numInputRows for each in query.recentProgress if each.numInputRows] == [2, 2]
        latest = query.recentProgress[-1].sources[0].latestOffset
        assert f'"subscription": {journal.number}'.replace(" ", "") in latest.replace(" ", "")
        rows = spark.read.parquet(str(out)).collect()
        assert sorted(row.predicate for row in rows) == [
            f"surf/price={price}" for price in range(10, 16)
        ]
        assert all(row.ranges[0].name == "price" for row in rows)
        # What an earlier batch has processed is acknowledged, and no longer waits.
        [journal] = [info for info in client.subscriptions() if info.number == journal.number]
        assert journal.waiting == 2

        client.unsubscribe(journal.number)
        client.publish("surf/price=16", wait="all")
        problem = f"no journal {journal.number} of the epoch .* set the option 'failOnDataLoss'"
        with pytest.raises(PipelineError, match=problem), plain_errors():
            run_to_end(frame, checkpoint, out)

        careless = stream_of(spark, folder, failOnDataLoss="false", **options)
        run_to_end(careless, checkpoint, out)
        client.publish("surf/price=17", wait="all")
        run_to_end(careless, checkpoint, out)
        prices = [row.predicate for row in spark.read.parquet(str(out)).collect()]
        assert prices.count("surf/price=17") == 1
        assert len(prices) == 7


def test_offsets_of_another_query_are_refused(tmp_path: Path) -> None:
    def options(**given: str) -> SourceOptions:
        return source_options({"node": str(tmp_path / "node"), **given}, is_stream=True)

    with node_in(tmp_path / "node") as client, ExitStack() as stack:
        first, same, other = (
            stack.enter_context(closing(Journal(options(predicate=text))))
            for text in ("surf/price", "price/surf", "ski")
        )
        offset = first.begin(Position("latest"))
        assert same.end(offset) == offset
        with pytest.raises(PipelineError, match="that reads surf/price, not ski; set another"):
            other.end(offset)
        of_topics = {"bafyrei": {"bafyrei": 3}}
        with pytest.raises(PipelineError, match="that reads topics, not a predicate"):
            other.end(of_topics)
        with pytest.raises(PipelineError, match="that reads topics, not a predicate"):
            other.parts(of_topics, offset)
        news, sports = (client.create_topic(name).id for name in ("news", "sports"))
        topics, others, both = (
            TopicStreamReader(options(topic=names, startingOffsets="earliest"), EVENT_ROWS.schema)
            for names in (news, sports, f"{news},{sports}")
        )
        for reader in (topics, others, both):
            stack.callback(reader.stop)
        with pytest.raises(PipelineError, match="that reads a predicate, not topics"):
            topics.latestOffset(offset, ReadAllAvailable())
        with pytest.raises(PipelineError, match="that reads a predicate, not topics"):
            topics.partitions(offset, of_topics)
        of_sports = others.initialOffset()
        with pytest.raises(PipelineError, match=f"that reads other topics than {news}; set an"):
            topics.partitions(of_sports, of_sports)
        assert both.latestOffset(of_sports, ReadAllAvailable()).keys() > of_sports.keys()


def test_a_journal_whose_history_lacks_events_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, dict[str, object]]] = []

    def ask(_link: NodeLink, do: str, **fields: object) -> dict[str, object]:
        asked.append((do, fields))
        return {"subscription": 3, "epoch": "ab", "first": 0, "end": 9, "is_whole": False}

    monkeypatch.setattr(NodeLink, "ask", ask)
    given = {"node": str(tmp_path), "predicate": "surf"}
    journal = Journal(source_options(given, is_stream=True))
    with pytest.raises(DataLossError, match="the history of surf lacks events"):
        journal.begin(Position("earliest"))
    assert asked[1:] == [("unsubscribe", {"subscription": 3})]

    lenient = Journal(source_options({**given, "failOnDataLoss": "false"}, is_stream=True))
    assert lenient.begin(Position("earliest")) == {"subscription": 3, "epoch": "ab", "next": 0}
    assert [do for do, _ in asked[2:]] == ["journal-open"]


def test_a_journal_that_ends_before_the_offset_has_lost_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node would give the sequence numbers to other events, which the query would skip."""
    offset = {"subscription": 3, "epoch": "ab", "next": 2_000}

    def ask(_link: NodeLink, do: str, **_fields: object) -> object:
        if do == "subscriptions":
            return [{"subscription": 3, "predicate": "surf"}]
        return {"subscription": 3, "epoch": "ab", "first": 900, "end": 1_000, "is_whole": True}

    monkeypatch.setattr(NodeLink, "ask", ask)
    given = {"node": str(tmp_path), "predicate": "surf"}
    with pytest.raises(DataLossError, match="the journal 3 ends at 1000, before the offset"):
        Journal(source_options(given, is_stream=True)).end(offset)

    lenient = Journal(source_options({**given, "failOnDataLoss": "false"}, is_stream=True))
    end = lenient.end(offset)
    assert end == {**offset, "next": 1_000}
    assert lenient.parts(offset, end) == []


def test_a_gap_in_a_journal_is_named(spark: SparkSession, tmp_path: Path) -> None:
    folder, out, checkpoint = tmp_path / "node", tmp_path / "out", tmp_path / "checkpoint"
    with node_in(folder, kept_event_count_max=3) as client:
        frame = stream_of(spark, folder, predicate="surf")
        run_to_end(frame, checkpoint, out)
        for _ in range(5):
            client.publish("surf", wait="all")

        with (
            pytest.raises(PipelineError, match=r"no longer the events 0 to 1, 2 in all"),
            plain_errors(),
        ):
            run_to_end(frame, checkpoint, out)

        careless = stream_of(spark, folder, predicate="surf", failOnDataLoss="false")
        run_to_end(careless, checkpoint, out)
        assert spark.read.parquet(str(out)).count() == 3


def test_a_stream_can_be_had_by_its_condition(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "node"
    with node_in(folder) as client:
        for temp in (10, 20, 30):
            client.publish(f"portugal/temp={temp}", wait="all")
        frame = stream(
            spark, node=str(folder), where="portugal and temp >= 20", startingOffsets="earliest"
        )
        run_to_end(frame, tmp_path / "checkpoint", tmp_path / "out")
        rows = spark.read.parquet(str(tmp_path / "out")).collect()
        assert sorted(row.predicate for row in rows) == ["portugal/temp=20", "portugal/temp=30"]
        with pytest.raises(PipelineError, match="option 'where'"):
            stream(spark, node=str(folder), where="portugal or spain")
