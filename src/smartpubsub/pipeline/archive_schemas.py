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

from smartpubsub.pipeline.schemas import Column, Table

_LONG, _STRING, _YES_NO, _TIME = LongType(), StringType(), BooleanType(), TimestampType()
_BLOCK = Column("block", BinaryType(), "all of it, with its signatures, as anybody can verify it")
_TOPIC = Column(
    "topic", _STRING, "the topic that all versions are one of: its oldest in the archive"
)
_ROOM = Column("room", _STRING, "the meta topic, which all versions have in common")

BLOCKS = Table(
    name="blocks",
    about="what is in CAR files; the content ids are looked at, and nothing else",
    columns=(
        Column("source", _STRING, "the file"),
        Column("position", _LONG, "its place in the file, from 0"),
        Column("cid", _STRING, "its content id as the file gives it", is_nullable=True),
        Column("block", BinaryType(), "the block", is_nullable=True),
        Column("reason", _STRING, "why it cannot be used, if it cannot", is_nullable=True),
    ),
)
ARCHIVED_TOPICS = Table(
    name="archived_topics",
    about="descriptors of topics, one row for each version, in the folder `topics` of an archive",
    columns=(
        Column("cid", _STRING, "its content id"),
        _TOPIC,
        _ROOM,
        Column("is_meta", _YES_NO, "whether it is the meta topic, in which versions are told of"),
        Column("name", _STRING, "what it is called"),
        Column("author", _STRING, "the peer whose it is"),
        Column("version", _LONG, "which version it is; grows from each to the next"),
        Column("parent", _STRING, "the version before", is_nullable=True),
        Column("created", _TIME, "when it was made, as its author says"),
        Column("subtopics", MapType(_STRING, _STRING), "content ids by name"),
        Column("ordered", _YES_NO, "whether all events are in one line"),
        Column("publishers", ArrayType(_STRING), "who may publish; null for anybody", True),
        Column("takes_requests", _YES_NO, "whether others may ask those to publish"),
        Column("requesters", ArrayType(_STRING), "who may ask; empty for anybody"),
        Column("linking", _STRING, "who says what events link to: LAST_SEEN or CUSTOM"),
        _BLOCK,
    ),
)
ARCHIVED_EVENTS = Table(
    name="archived_events",
    about="events of topics, in the folder `events` of an archive, parted by topic and day",
    columns=(
        Column("cid", _STRING, "its content id"),
        _TOPIC,
        Column("day", _STRING, "the day of `created`, as 2026-01-31"),
        _ROOM,
        Column("version", _STRING, "the version of the topic that it was published in"),
        Column("author", _STRING, "the peer who says it"),
        Column("publisher", _STRING, "the peer who gave it its place"),
        Column("start", _LONG, "which start of its author's it comes from"),
        Column("number", _LONG, "which of its author's events it is"),
        Column("created", _TIME, "when, as its author says"),
        Column("height", _LONG, "one more than the highest of those it links to has"),
        Column("parents", ArrayType(_STRING), "the events that it links to"),
        Column("announces", _STRING, "the version that it tells of, in a meta topic", True),
        Column("payload", BinaryType(), "what it carries, if it announces nothing", True),
        _BLOCK,
    ),
)
ARCHIVED_PUBLICATIONS = Table(
    name="archived_publications",
    about="events that belong to no topic, but say by a predicate what they are about, in the"
    " folder `publications` of an archive, parted by day",
    columns=(
        Column("cid", _STRING, "its content id"),
        Column("day", _STRING, "the day of `created`, as 2026-01-31"),
        Column("publisher", _STRING, "the peer who says it"),
        Column("start", _LONG, "which start of its publisher's it comes from"),
        Column("number", _LONG, "which of its publisher's events it is"),
        Column("created", _TIME, "when, as its publisher says"),
        Column("predicate", _STRING, "what it is about"),
        Column("payload", BinaryType(), "what it carries"),
        _BLOCK,
    ),
)
BAD_BLOCKS = Table(
    name="bad_blocks",
    about="blocks that cannot be believed, in the folder `_bad` of an archive",
    columns=(
        *(column for column in BLOCKS.columns if column.name != "reason"),
        Column("reason", _STRING, "why not"),
    ),
)

ARCHIVE_TABLES = (BLOCKS, ARCHIVED_TOPICS, ARCHIVED_EVENTS, ARCHIVED_PUBLICATIONS, BAD_BLOCKS)
"""All tables of `archive`."""
