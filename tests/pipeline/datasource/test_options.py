"""Options: a wrong one is an error that names it and says what to do."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    CalendarIntervalType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    LongType,
    MapType,
    StringType,
    StructType,
    VariantType,
)

from smartpubsub.errors import SmartPubSubError
from smartpubsub.node.errors import NoNodeError
from smartpubsub.pipeline.datasource import nodes, sink
from smartpubsub.pipeline.datasource.events import EventMapping
from smartpubsub.pipeline.datasource.nodes import NodeLink
from smartpubsub.pipeline.datasource.options import (
    NodeOptions,
    OptionError,
    Position,
    sink_options,
    source_options,
)
from smartpubsub.pipeline.datasource.rows import RowSchema
from smartpubsub.pipeline.datasource.sink import StreamSink
from smartpubsub.pipeline.errors import PipelineError, plain_errors
from tests.pipeline.datasource.nodes import run_to_end, stream_of

SOURCE_MISTAKES: list[tuple[dict[str, str], str]] = [
    ({"topic": "news"}, "option 'node': is missing"),
    ({"node": "a"}, "option 'topic': name either"),
    ({"node": "a", "topic": "news", "predicate": "surf"}, "option 'topic': name either"),
    ({"node": "a", "predicate": "surf//"}, "option 'predicate': "),
    ({"node": "a", "where": "surf or"}, "option 'where': "),
    ({"node": "a", "where": "a", "predicate": "b"}, "option 'where': says the same"),
    ({"node": "a", "topic": "n", "startingOffsets": "soon"}, "option 'startingOffsets': 'soon'"),
    ({"node": "a", "topic": "n", "startingOffsets": "{"}, "option 'startingOffsets': '{' is not"),
    ({"node": "a", "topic": "n", "startingOffsets": "2999-01-31"}, "'2999-01-31' is in the future"),
    ({"node": "a", "topic": "n", "endingOffsets": "earliest"}, "option 'endingOffsets': a read"),
    (
        {"node": "a", "topic": "n", "startingOffsets": "1h", "endingOffsets": "2h"},
        "option 'endingOffsets': is before startingOffsets",
    ),
    ({"node": "a", "topic": "n", "minPartitions": "0"}, "option 'minPartitions': '0' is no"),
    ({"node": "a", "topic": "n", "failOnDataLoss": "no"}, "option 'failOnDataLoss': 'no' is"),
    ({"node": "a", "topic": "n", "group": "x"}, "option 'group': there is no such option"),
    ({"node": "a", "topic": "n", "path": "x"}, "option 'path': there is no path"),
    ({"node": "a", "topic": "n", "maxEventsPerTrigger": "3"}, "is for spark.readStream"),
]


@pytest.mark.parametrize(("given", "problem"), SOURCE_MISTAKES)
def test_a_mistake_is_named(given: dict[str, str], problem: str) -> None:
    with pytest.raises(OptionError) as raised:
        source_options(given, is_stream=False)
    assert problem in str(raised.value)


def test_options_are_read() -> None:
    given = {
        "node": "a",
        "where": "surf and price between 10 and 20",
        "startingOffsets": "2026-01-31T12:00Z",
        "maxEventsPerTrigger": "7",
        "failOnDataLoss": "FALSE",
    }
    options = source_options(given, is_stream=True)
    assert options.predicate == "surf/price[10,20]"
    assert options.start == Position(at=datetime(2026, 1, 31, 12, tzinfo=UTC))
    assert options.events_per_trigger_max == 7
    assert not options.fails_on_data_loss


def test_a_read_that_ends_in_the_future_ends_at_the_latest_event() -> None:
    given = {"node": "a", "topic": "n", "endingOffsets": "2999-01-31"}
    assert source_options(given, is_stream=False).end == Position("latest")


def test_a_type_that_no_event_has_is_named() -> None:
    with pytest.raises(PipelineError, match="the column 'wait' has the type interval"):
        RowSchema(StructType().add("wait", CalendarIntervalType()))


def test_a_column_that_is_declared_twice_is_named() -> None:
    twice = StructType().add("temp", DoubleType()).add("temp", StringType())
    with pytest.raises(PipelineError, match="there are two columns 'temp'"):
        RowSchema(twice)


def test_a_node_that_is_not_there_is_an_error_that_says_so(tmp_path: Path) -> None:
    with pytest.raises(SmartPubSubError, match=r"option 'node': .* does not exist"):
        NodeLink(NodeOptions(str(tmp_path / "nowhere")))
    with pytest.raises(SmartPubSubError, match=r"no node runs in .*; start one with"):
        NodeLink(NodeOptions(str(tmp_path))).ask("info")


def test_a_request_that_waits_for_its_node_warns_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(nodes, "RETRY_S", 0)
    outcomes: list[NoNodeError | str] = ["back", NoNodeError("gone"), NoNodeError("gone")]

    def request() -> str:
        outcome = outcomes.pop()
        if isinstance(outcome, NoNodeError):
            raise outcome
        return outcome

    assert NodeLink(NodeOptions(str(tmp_path)), was_there=True).patiently(request) == "back"
    assert [record.getMessage() for record in caplog.records] == ["gone; trying for up to 60 s"]


def test_a_sink_needs_predicates() -> None:
    rows = StructType().add("city", StringType()).add("temp", DoubleType())
    with pytest.raises(OptionError, match="the rows have no column 'predicate'"):
        EventMapping(sink_options({"node": "a"}), rows)
    with pytest.raises(OptionError, match="there is no column 'town', only city, temp"):
        EventMapping(sink_options({"node": "a", "predicate": "{town}"}), rows)
    with pytest.raises(SmartPubSubError, match="option 'predicate': 'a//1' is no predicate"):
        EventMapping(sink_options({"node": "a", "predicate": "a//{city}"}), rows)


def payload_of(kind: DataType, value: object) -> str:
    """The payload of a row with one column."""
    schema = StructType().add("x", kind).add("predicate", StringType())
    mapping = EventMapping(sink_options({"node": "a"}), schema)
    rows = {"x": [value], "predicate": ["surf"]}
    batch = pa.RecordBatch.from_pydict(rows, schema=to_arrow_schema(schema, timezone="UTC"))
    return next(mapping.events(batch)).payload.decode()


NUMBERS = StructType().add("n", DoubleType())


@pytest.mark.parametrize(
    ("kind", "value", "written"),
    [
        (DoubleType(), float("nan"), '"NaN"'),
        (FloatType(), float("-inf"), '"-Infinity"'),
        (ArrayType(NUMBERS), [{"n": float("inf")}, None], '[{"n": "Infinity"}, null]'),
        (MapType(StringType(), NUMBERS), [("é", {"n": 1.5})], '{"é": {"n": 1.5}}'),
        (MapType(LongType(), LongType()), [(7, None)], '{"7": null}'),
        (MapType(DateType(), LongType()), [(date(2026, 1, 31), 1)], '{"2026-01-31": 1}'),
        (DecimalType(38, 0), Decimal("1" + "2" * 37), "1" + "2" * 37),
        (DecimalType(4, 2), Decimal("2.50"), "2.5"),
        (StructType().add("m", MapType(StringType(), LongType())), None, "null"),
    ],
)
def test_a_row_is_written_as_json(kind: DataType, value: object, written: str) -> None:
    assert payload_of(kind, value) == f'{{"x": {written}}}'


def test_a_variant_has_to_be_converted() -> None:
    for rows in (
        StructType().add("payload", ArrayType(VariantType())),
        StructType().add("payload", VariantType()),
    ):
        with pytest.raises(PipelineError, match="column 'payload' has a variant; write it as text"):
            EventMapping(sink_options({"node": "a", "predicate": "surf"}), rows)


def test_the_batches_of_a_stream_do_not_share_their_keys() -> None:
    options = sink_options({"node": "a", "topic": "news", "idempotencyKey": "once"})
    with pytest.raises(OptionError, match="option 'idempotencyKey': is for a write that is not"):
        StreamSink(options, StructType().add("payload", StringType()), overwrite=False)


def test_a_payload_that_is_too_long_is_named() -> None:
    assert len(payload_of(StringType(), "a" * 500_000)) == 500_009
    with pytest.raises(
        PipelineError, match="a row has 600,009 bytes; an event carries at most 524"
    ):
        payload_of(StringType(), "a" * 600_000)


def test_a_stream_waits_once_for_the_node_of_its_sink(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []

    class Link(NodeLink):
        def __init__(self, options: NodeOptions, *, was_there: bool = False) -> None:
            super().__init__(options)  # So that it does not wait in this test.
            asked.append(was_there)

    monkeypatch.setattr(sink, "NodeLink", Link)
    options = sink_options({"node": str(tmp_path), "topic": "news"})
    with pytest.raises(NoNodeError, match="no node runs in"):
        StreamSink(options, StructType().add("payload", StringType()), overwrite=False)
    assert asked == [True]


def test_a_stream_that_cannot_begin_says_why(spark: SparkSession, tmp_path: Path) -> None:
    checkpoint, out = tmp_path / "checkpoint", tmp_path / "out"
    with (
        pytest.raises(PipelineError, match=r"^option 'minPartitions': .* whole number from 1 on$"),
        plain_errors(),
    ):
        run_to_end(stream_of(spark, tmp_path, topic="n", minPartitions=0), checkpoint, out)
    wrong = spark.readStream.format("smartpubsub").schema("cid int")
    frame = wrong.options(node=str(tmp_path), topic="n").load()
    with pytest.raises(PipelineError, match=r"^schema: the column 'cid' has"), plain_errors():
        run_to_end(frame, checkpoint, out)
