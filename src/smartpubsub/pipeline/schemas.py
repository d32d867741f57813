"""The tables of the pipeline: what each is for, and its columns.

docs/pipeline.md shows them, and a test holds the two equal.
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
        """The table's columns as Spark has them."""
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
        "its topics; null if a number of the predicate is one that no float stands for",
        is_nullable=True,
    ),
    Column(
        "ranges",
        _RANGES,
        "its ranges, a missing bound being open; null where `topics` is",
        is_nullable=True,
    ),
)
_WHEN = (
    Column("place", LongType(), "its place among all that happens in the workload"),
    Column("phase", IntegerType(), "the phase of the workload, from 0"),
    Column("at_us", LongType(), "when, in microseconds from the beginning of the phase"),
)

RECORDS = Table(
    name="records",
    about="events as they were found in data, before anybody publishes them",
    columns=(
        Column("event_id", LongType(), "a hash of the file's name and the place in it, 63 bits"),
        Column("time", TimestampType(), "when it happened", is_nullable=True),
        Column(
            "author", StringType(), "whose it is, hashed unless asked otherwise", is_nullable=True
        ),
        Column("topics", ArrayType(StringType()), "its topics"),
        Column("ranges", _RANGES, "its numbers, as ranges of which both ends are the number"),
        Column("text", StringType(), "what it says, for `classify`", is_nullable=True),
        Column("label", StringType(), "what it is about, if that is known", is_nullable=True),
        Column("key", StringType(), "what the data itself calls it", is_nullable=True),
        Column("payload", BinaryType(), "what it carries", is_nullable=True),
        Column("source", StringType(), "the file that it comes from"),
    ),
)
BAD_LINES = Table(
    name="bad_lines",
    about="lines of data that could not be used, in the folder `_bad` beside the records",
    columns=(
        Column(
            "line", StringType(), "the line as it is there; of Parquet the mapped columns, as JSON"
        ),
        Column("reason", StringType(), "why it could not be used"),
        Column("source", StringType(), "the file that it comes from"),
    ),
)
EVENTS = Table(
    name="events",
    about="what is published; one row for each publication, equal or not",
    columns=(
        Column("event_id", LongType(), "a number that no other event has"),
        Column("node", StringType(), "the node that publishes it"),
        *_PREDICATE,
        Column("payload", BinaryType(), "what the event carries", is_nullable=True),
        *_WHEN,
    ),
)
SUBSCRIPTIONS = Table(
    name="subscriptions",
    about="who wants what; one row for each subscription, equal or not",
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
    about="what else happens in a workload: crashes, restarts, topics, ends of subscriptions",
    columns=(
        Column("action", StringType(), "what happens, as workload files call it"),
        Column("node", StringType(), "the node to which it happens"),
        Column("text", StringType(), "the predicate or topic that it is about", is_nullable=True),
        Column("ordered", BooleanType(), "whether a topic keeps its order", is_nullable=True),
        *_WHEN,
    ),
)
PUBLISHERS = Table(
    name="publishers",
    about="which node publishes what an author writes",
    columns=(
        Column("author", StringType(), "the author, as in `records`"),
        Column("node", StringType(), "the node"),
    ),
)
MATCHES = Table(
    name="matches",
    about="every event with every subscription that it matches",
    columns=(
        Column("event_id", LongType(), "the event"),
        Column("subscription_id", LongType(), "the subscription"),
    ),
)

TABLES = (RECORDS, BAD_LINES, PUBLISHERS, EVENTS, SUBSCRIPTIONS, NODES, ACTIONS, MATCHES)
"""All tables, in the order in which data passes through them."""
