"""The tables that `measure` computes from traces, except that of runs."""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from smartpubsub.pipeline.result_schemas import LATENCY_FIGURES, RUN, RUNS
from smartpubsub.pipeline.schemas import Column, Table

_LONG, _DOUBLE, _STRING, _YES_NO = LongType(), DoubleType(), StringType(), BooleanType()

_GOT = ArrayType(
    StructType(
        [
            StructField("at_us", _LONG),
            StructField("row", _LONG),
            StructField("hops", _LONG),
            StructField("subscriptions", _STRING),
        ]
    )
)
_NODE = Column("node", _LONG, "the node's number")
_TOPIC = Column(
    "topic", _STRING, "its topic's name, or its predicate without numbers", is_nullable=True
)
_WINDOW = Column("window", _LONG, "the number of the time window, from 0")
_TRAFFIC = (
    Column("sent", _LONG, "messages sent"),
    Column("received", _LONG, "messages received"),
    Column("sent_bytes", _LONG, "bytes sent"),
    Column("dropped", _LONG, "messages that did not arrive"),
)
_COPIES = (
    Column("copies", _LONG, "downward copies of events, retransmissions excluded"),
    Column("wire_duplicates", _LONG, "copies that reached a node which already had one"),
)
_PAIRS = (
    Column("expected", _LONG, "expected pairs of an event and a node"),
    Column("delivered", _LONG, "expected pairs that were delivered"),
    Column("missing", _LONG, "expected pairs that were not delivered"),
    Column("unexpected", _LONG, "delivered pairs that no subscription of the node matches"),
    Column("app_duplicates", _LONG, "events delivered twice to a subscription"),
)
_COVERAGE = (
    Column("coverage_injected", _DOUBLE, "delivered over expected, 1 if nothing is expected"),
    Column("coverage_published", _DOUBLE, "the same, of acknowledged events"),
)
_LATENCY = tuple(
    Column(f"latency_ms_{name}", _DOUBLE, f"from publish to delivery: {name}", is_nullable=True)
    for name in LATENCY_FIGURES
)
_HOPS = (
    Column("hops_mean", _DOUBLE, "links from the publisher: mean", is_nullable=True),
    Column("hops_max", _DOUBLE, "links from the publisher: max", is_nullable=True),
)

DELIVERIES = Table(
    name="deliveries",
    about="every pair of an event and a node that wanted it or got it",
    columns=(
        RUN,
        Column("event", _STRING, "the event's id"),
        _NODE,
        _TOPIC,
        Column("publisher", _LONG, "the node that published it", is_nullable=True),
        Column("called_us", _LONG, "when publish was called", is_nullable=True),
        Column("is_published", _YES_NO, "whether the event was acknowledged"),
        Column("is_expected", _YES_NO, "whether the delivery was expected"),
        Column(
            "is_unexpected", _YES_NO, "whether it was delivered without a matching subscription"
        ),
        Column("delivered_us", _LONG, "when it was first delivered", is_nullable=True),
        Column("latency_us", _LONG, "the time until then", is_nullable=True),
        Column("hops", _LONG, "the number of links that it passed", is_nullable=True),
        Column("app_duplicates", _LONG, "repeated deliveries to the same subscription"),
        Column("got", _GOT, "every delivery, with its subscriptions", is_nullable=True),
    ),
)
SUBSCRIBED = Table(
    name="subscribed",
    about="every subscription of a run",
    columns=(
        RUN,
        _NODE,
        Column("subscription", _LONG, "its number on the node"),
        Column("predicate", _STRING, "its predicate"),
        Column("topic", _STRING, "the topic's name, or the predicate without numbers"),
        Column("called_us", _LONG, "when subscribe was called"),
        Column("in_force_us", _LONG, "when it was first in force", is_nullable=True),
        Column("latency_us", _LONG, "the time until then", is_nullable=True),
        Column("place", _LONG, "its number among the node's subscriptions, from 1"),
    ),
)
PUBLISHED = Table(
    name="by_event",
    about="every event of a run, with its outcome",
    columns=(
        RUN,
        Column("event", _STRING, "the event's id"),
        Column("publisher", _LONG, "the node that published it"),
        Column("predicate", _STRING, "what it says"),
        _TOPIC,
        Column("called_us", _LONG, "when publish was called"),
        Column("acknowledged_us", _LONG, "when it was acknowledged", is_nullable=True),
        Column("is_refused", _YES_NO, "whether it was refused"),
        Column("payload_bytes", _LONG, "the size of its payload", is_nullable=True),
        Column("subscriptions", _LONG, "the number of subscriptions at that time"),
        *_COPIES,
        *_PAIRS,
        *_LATENCY,
        *_HOPS,
    ),
)
COPIES = Table(
    name="copies",
    about="every pair of an event and a node that received a downward copy, wanted or not",
    columns=(
        RUN,
        Column("event", _STRING, "the event's id"),
        _NODE,
        Column("copies", _LONG, "the number of copies"),
    ),
)
LOADS = Table(
    name="loads",
    about="what each node sent and received in each time window",
    columns=(RUN, _NODE, _WINDOW, *_TRAFFIC),
)
NODES = Table(
    name="by_node",
    about="every node of a run; traffic counts from when the overlay was complete",
    columns=(
        RUN,
        _NODE,
        *_TRAFFIC,
        *_COPIES,
        Column("injected", _LONG, "events that it published"),
        Column("subscriptions", _LONG, "its subscriptions"),
        *_PAIRS,
        *_LATENCY,
    ),
)
TOPICS = Table(
    name="by_topic",
    about="every topic of a run, of events or subscriptions",
    columns=(
        RUN,
        Column("topic", _STRING, "its name, or a predicate without its numbers"),
        Column("injected", _LONG, "events that were published"),
        Column("subscriptions", _LONG, "subscriptions to exactly this"),
        Column("subscribers", _LONG, "nodes with such subscriptions"),
        *_COPIES,
        *_PAIRS,
        *_COVERAGE,
        *_LATENCY,
    ),
)
WINDOWS = Table(
    name="by_window",
    about="every time window of a run from when the overlay was complete; events count when"
    " published",
    columns=(
        RUN,
        _WINDOW,
        Column("start_ms", _LONG, "when it begins"),
        *_TRAFFIC,
        Column("injected", _LONG, "events that were published"),
        Column("arrived", _LONG, "first deliveries to nodes in this window"),
        Column("crashed", _LONG, "nodes that crashed or left in this window"),
        Column("returned", _LONG, "nodes that were started again in this window"),
        *_PAIRS,
        *_COVERAGE,
        *_LATENCY,
    ),
)

METRIC_TABLES = (
    RUNS,
    NODES,
    TOPICS,
    WINDOWS,
    PUBLISHED,
    SUBSCRIBED,
    DELIVERIES,
    COPIES,
    LOADS,
)
"""All tables of `measure`."""
