"""The tables of the pipeline: their purpose and columns.

docs/pipeline.md shows them, and a test compares the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)


class Column(NamedTuple):
    """A column of a table."""

    name: str
    type: DataType
    about: str
    is_nullable: bool = False


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table that stages read or write."""

    name: str
    about: str
    columns: tuple[Column, ...]

    @property
    def schema(self) -> StructType:
        """The table's schema in Spark."""
        return StructType([StructField(c.name, c.type, c.is_nullable) for c in self.columns])

    @property
    def names(self) -> list[str]:
        """The names of all columns."""
        return [column.name for column in self.columns]

    def column(self, name: str) -> Column:
        """A column by its name."""
        return self.columns[self.names.index(name)]


_RANGES = ArrayType(
    StructType(
        [
            StructField("name", StringType()),
            StructField("lo", DoubleType()),
            StructField("hi", DoubleType()),
        ]
    )
)
_PREDICATE = (
    Column("predicate", StringType(), "the predicate as it is written", is_nullable=True),
    Column(
        "topics",
        ArrayType(StringType()),
        "its topics; null if the predicate has a number that no float stands for",
        is_nullable=True,
    ),
    Column(
        "ranges",
        _RANGES,
        "its ranges, with null for an open bound; null where `topics` is",
        is_nullable=True,
    ),
)
_WHEN = (
    Column("place", LongType(), "its position among all actions of the workload"),
    Column("phase", IntegerType(), "the phase of the workload, from 0"),
    Column("at_us", LongType(), "the time, in microseconds from the beginning of the phase"),
)

RECORDS = Table(
    name="records",
    about="events as found in data, before they are assigned to publishers",
    columns=(
        Column("event_id", LongType(), "a hash of the file's name and the position in it, 63 bits"),
        Column("time", TimestampType(), "when it happened", is_nullable=True),
        Column(
            "author",
            StringType(),
            "its author, hashed unless `--keep-authors` was given",
            is_nullable=True,
        ),
        Column("topics", ArrayType(StringType()), "its topics"),
        Column("ranges", _RANGES, "its numbers, as ranges with equal bounds"),
        Column("text", StringType(), "its text, for `classify`", is_nullable=True),
        Column("label", StringType(), "its label, if known", is_nullable=True),
        Column("key", StringType(), "its key in the data", is_nullable=True),
        Column("payload", BinaryType(), "its payload", is_nullable=True),
        Column("source", StringType(), "the file that it comes from"),
    ),
)
BAD_LINES = Table(
    name="bad_lines",
    about="bad lines, in the folder `_bad` beside the records",
    columns=(
        Column(
            "line", StringType(), "the line as in the file; for Parquet the mapped columns, as JSON"
        ),
        Column("reason", StringType(), "why it is bad"),
        Column("source", StringType(), "the file that it comes from"),
    ),
)
EVENTS = Table(
    name="events",
    about="published events; one row per publication, even if equal",
    columns=(
        Column("event_id", LongType(), "a number that no other event has"),
        Column("node", StringType(), "the node that publishes it"),
        *_PREDICATE,
        Column("payload", BinaryType(), "its payload", is_nullable=True),
        *_WHEN,
    ),
)
SUBSCRIPTIONS = Table(
    name="subscriptions",
    about="subscriptions; one row per subscription, even if equal",
    columns=(
        Column("subscription_id", LongType(), "a number that no other subscription has"),
        Column("node", StringType(), "the node that subscribes"),
        *_PREDICATE,
        *_WHEN,
    ),
)
NODES = Table(
    name="nodes",
    about="the nodes of a workload",
    columns=(
        Column("number", LongType(), "the node's number, from 0"),
        Column("node", StringType(), "its name"),
    ),
)
ACTIONS = Table(
    name="actions",
    about="the other actions of a workload: crashes, restarts, topics, ends of subscriptions",
    columns=(
        Column("action", StringType(), "the action, as in workload files"),
        Column("node", StringType(), "the node that it concerns"),
        Column("text", StringType(), "its predicate or topic", is_nullable=True),
        Column("ordered", BooleanType(), "whether a topic is ordered", is_nullable=True),
        *_WHEN,
    ),
)
PUBLISHERS = Table(
    name="publishers",
    about="the node that publishes the events of each author",
    columns=(
        Column("author", StringType(), "the author, as in `records`"),
        Column("node", StringType(), "the node"),
    ),
)
MATCHES = Table(
    name="matches",
    about="every pair of an event and a subscription that it matches",
    columns=(
        Column("event_id", LongType(), "the event"),
        Column("subscription_id", LongType(), "the subscription"),
    ),
)
EVENT_ROWS = Table(
    name="event_rows",
    about='events of a running node, as `format("smartpubsub")` reads them',
    columns=(
        Column("event_id", StringType(), "the id that its publisher gave it"),
        Column("cid", StringType(), "its content id", is_nullable=True),
        Column("publisher", StringType(), "the peer that published it"),
        Column("published_at", TimestampType(), "when, by that peer's clock", is_nullable=True),
        Column("topics", ArrayType(StringType()), "its attributes without numbers"),
        Column("ranges", _RANGES, "its attributes with numbers; null for an open bound"),
        Column("payload", BinaryType(), "what it carries"),
        Column("predicate", StringType(), "its predicate; in a topic, the topic's content id"),
    ),
)
BLOCK = Column("block", BinaryType(), "the complete block, which any node can verify")
"""A column that `format("smartpubsub")` has for schemas that name it."""

TABLES = (
    RECORDS,
    BAD_LINES,
    PUBLISHERS,
    EVENTS,
    SUBSCRIPTIONS,
    NODES,
    ACTIONS,
    MATCHES,
    EVENT_ROWS,
)
"""All tables, in the order in which data passes through them."""
