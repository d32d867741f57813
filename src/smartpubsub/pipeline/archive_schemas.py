"""The tables of an archive: topics and events, as `archive` writes them."""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    LongType,
    MapType,
    StringType,
    TimestampType,
)

from smartpubsub.pipeline.schemas import BLOCK, Column, Table

_LONG, _STRING, _YES_NO, _TIME = LongType(), StringType(), BooleanType(), TimestampType()
_TOPIC = Column("topic", _STRING, "the topic, named by its oldest version in the archive")
_ROOM = Column("room", _STRING, "the meta topic, which all versions share")

BLOCKS = Table(
    name="blocks",
    about="the blocks of CAR files, of which only the content ids were checked",
    columns=(
        Column("source", _STRING, "the file"),
        Column("position", _LONG, "its place in the file, from 0"),
        Column("cid", _STRING, "its content id as the file gives it", is_nullable=True),
        Column("block", BinaryType(), "the block", is_nullable=True),
        Column("reason", _STRING, "why it cannot be used; null if it can", is_nullable=True),
    ),
)
ARCHIVED_TOPICS = Table(
    name="archived_topics",
    about="descriptors of topics, one row per version, in the folder `topics` of an archive",
    columns=(
        Column("cid", _STRING, "its content id"),
        _TOPIC,
        _ROOM,
        Column("is_meta", _YES_NO, "whether it is the meta topic, in which versions are announced"),
        Column("name", _STRING, "its name"),
        Column("author", _STRING, "its author's peer id"),
        Column("version", _LONG, "the number of the version, which increases"),
        Column("parent", _STRING, "the previous version", is_nullable=True),
        Column("created", _TIME, "when it was created, as its author states"),
        Column("subtopics", MapType(_STRING, _STRING), "content ids by name"),
        Column("ordered", _YES_NO, "whether the topic is ordered"),
        Column("publishers", ArrayType(_STRING), "the peers that may publish; null for all", True),
        Column("takes_requests", _YES_NO, "whether other peers may ask these to publish"),
        Column("requesters", ArrayType(_STRING), "the peers that may ask; empty for all"),
        Column("linking", _STRING, "how events are linked: LAST_SEEN or CUSTOM"),
        BLOCK,
    ),
)
ARCHIVED_EVENTS = Table(
    name="archived_events",
    about="events of topics, in the folder `events` of an archive, partitioned by topic and day",
    columns=(
        Column("cid", _STRING, "its content id"),
        _TOPIC,
        Column("day", _STRING, "the day of `created`, as 2026-01-31"),
        _ROOM,
        Column("version", _STRING, "the version of the topic that it was published in"),
        Column("author", _STRING, "the peer that wrote it"),
        Column("publisher", _STRING, "the peer that published it"),
        Column("start", _LONG, "the incarnation of its author"),
        Column("number", _LONG, "its number among its author's events"),
        Column("created", _TIME, "when it was created, as its author states"),
        Column("height", _LONG, "one more than the greatest height of the events that it links to"),
        Column("parents", ArrayType(_STRING), "the events that it links to"),
        Column("announces", _STRING, "the version that it announces, in a meta topic", True),
        Column("payload", BinaryType(), "its payload, unless it announces a version", True),
        BLOCK,
    ),
)
ARCHIVED_PUBLICATIONS = Table(
    name="archived_publications",
    about="events that belong to no topic but have a predicate, in the folder `publications` of an"
    " archive, partitioned by day",
    columns=(
        Column("cid", _STRING, "its content id"),
        Column("day", _STRING, "the day of `created`, as 2026-01-31"),
        Column("publisher", _STRING, "the peer that published it"),
        Column("start", _LONG, "the incarnation of its publisher"),
        Column("number", _LONG, "its number among its publisher's events"),
        Column("created", _TIME, "when it was created, as its publisher states"),
        Column("predicate", _STRING, "its predicate"),
        Column("payload", BinaryType(), "what it carries"),
        BLOCK,
    ),
)
BAD_BLOCKS = Table(
    name="bad_blocks",
    about="invalid blocks, in the folder `_bad` of an archive",
    columns=(
        *(column for column in BLOCKS.columns if column.name != "reason"),
        Column("reason", _STRING, "why not"),
    ),
)

ARCHIVE_TABLES = (BLOCKS, ARCHIVED_TOPICS, ARCHIVED_EVENTS, ARCHIVED_PUBLICATIONS, BAD_BLOCKS)
"""All tables of `archive`."""
