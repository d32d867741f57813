"""The stage `archive`: valid blocks become topics, events and publications.

Every block is verified as a node verifies what it receives: its content id, its signatures, and the
rules of its topic. Invalid blocks are kept separately, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from smartpubsub.node.identity import peer_text
from smartpubsub.node.signing import Ed25519Witness, is_signed_event
from smartpubsub.pipeline.archive_schemas import (
    ARCHIVED_EVENTS,
    ARCHIVED_PUBLICATIONS,
    ARCHIVED_TOPICS,
    BAD_BLOCKS,
    BLOCKS,
)
from smartpubsub.pipeline.schemas import Table
from smartpubsub.protocols.blocks import BlockError, cid_text
from smartpubsub.protocols.event_blocks import read_event_block
from smartpubsub.protocols.pulsarcast.events import TopicEvent, read_event
from smartpubsub.protocols.pulsarcast.fields import RefusalError, cid_in, value_in
from smartpubsub.protocols.pulsarcast.permissions import check_event, check_meta_topic, check_topic
from smartpubsub.protocols.pulsarcast.settings import PulsarSettings
from smartpubsub.protocols.pulsarcast.topics import Topic, read_topic

TOPIC, EVENT, PUBLICATION = "topic", "event", "publication"
NO_META = "incomplete: its meta topic is missing"
NO_TOPIC = "incomplete: its topic is missing"
NOT_SIGNED = "forged: an event that is not signed by its publisher"
OF_THE_FUTURE = "future-dated: an event that is dated in the future"
NOT_HIGHER = "cyclic: an event that is not one higher than what it links"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_OPENED = StructType(
    [
        *BLOCKS.schema,
        StructField("kind", StringType()),
        StructField("link", StringType()),
        StructField("linked", BinaryType()),
    ]
)
"""`link` is what a block is checked against: a topic's meta topic, an event's topic."""
_FOUND = ("source", "position", "reason")

Row = Mapping[str, object]
Batches = Iterator[pa.RecordBatch]


def now_us() -> int:
    """The latest allowed date of descriptors: the clocks of their authors may be fast."""
    now = (datetime.now(UTC) - _EPOCH) // timedelta(microseconds=1)
    return now + PulsarSettings().skew_us_max


def opened(blocks: DataFrame) -> DataFrame:
    """Decode the blocks of `car_files.read_blocks`: their kind, and the block they depend on."""
    schema = StructType([field for field in _OPENED if field.name != "linked"])
    return blocks.mapInArrow(_each(open_block, schema), schema)


def judged_topics(found: DataFrame, known: DataFrame, latest_us: int) -> DataFrame:
    """The topics among opened blocks; invalid ones have a reason.

    `known` are topics of the archive so far.
    """
    topics = found.where(sf.col("kind") == TOPIC)
    blocks = _linked(topics.where("reason is null"), known.where("is_meta"))
    schema = _with_reason(ARCHIVED_TOPICS)
    judged = topics.join(sf.broadcast(blocks), "link", "left").mapInArrow(
        _each(lambda row: judged_topic(row, latest_us), schema), schema
    )
    return _named(judged, known)


def judged_events(found: DataFrame, topics: DataFrame, latest_us: int) -> DataFrame:
    """The events among opened blocks; invalid ones have a reason.

    `topics` are all known topics; every task gets them.
    """
    schema = _with_reason(ARCHIVED_EVENTS)
    blocks = topics.select(sf.col("cid").alias("link"), sf.col("block").alias("linked"))
    names = topics.groupBy("room").agg(sf.min("topic").alias("topic"))
    judged = (
        found.where(sf.col("kind") == EVENT)
        .join(sf.broadcast(blocks.dropDuplicates(["link"])), "link", "left")
        .mapInArrow(_each(lambda row: judged_event(row, latest_us), schema), schema)
        .drop("topic")
        .join(sf.broadcast(names), "room", "left")
    )
    return judged.select(*ARCHIVED_EVENTS.names, *_FOUND)


def judged_publications(found: DataFrame, latest_us: int) -> DataFrame:
    """The events of no topic among opened blocks; invalid ones have a reason."""
    schema = _with_reason(ARCHIVED_PUBLICATIONS)
    chosen = found.where(sf.col("kind") == PUBLICATION)
    return chosen.mapInArrow(_each(lambda row: judged_publication(row, latest_us), schema), schema)


def lying_above(judged: DataFrame, known: DataFrame) -> DataFrame:
    """Refuse events whose height is not one more than that of the events they link to.

    `known` are the events of the archive so far. Linked events may be missing; then only those
    present count.
    """
    keys = ["room", "cid"]
    fine = judged.where("reason is null")
    heights = fine.select(*keys, "height").union(known.select(*keys, "height")).distinct()
    links = fine.select(*keys, "height", sf.explode("parents").alias("parent")).distinct()
    below = heights.select("room", sf.col("cid").alias("parent"), sf.col("height").alias("below"))
    is_just_above = sf.col("height") == sf.max("below") + 1
    is_above = (sf.col("height") > sf.max("below")) & sf.bool_or(sf.isnull("below"))
    wrong = (
        links.join(below, ["room", "parent"], "left")
        .groupBy(*keys, "height")
        .agg((~(is_just_above | is_above)).alias("is_wrong"))
        .where("is_wrong")
    )
    refused = sf.when(sf.col("is_wrong"), NOT_HIGHER)
    return (
        judged.join(wrong.drop("height"), keys, "left")
        .withColumn("reason", sf.coalesce("reason", refused))
        .drop("is_wrong")
    )


def good(judged: DataFrame, table: Table) -> DataFrame:
    """The valid blocks, each once."""
    return judged.where("reason is null").select(*table.names).dropDuplicates(["cid"])


def bad_blocks(found: DataFrame, *judged: DataFrame) -> DataFrame:
    """The bad blocks: unknown kinds, and invalid topics and events."""
    names = BAD_BLOCKS.names
    parts = [found.where("kind is null"), *judged]
    return reduce(
        DataFrame.union, (part.where("reason is not null").select(*names) for part in parts)
    )


def missing_parents(events: DataFrame, known: DataFrame) -> DataFrame:
    """The content ids that events link to and that are not among the known ones."""
    linked = events.select(sf.explode("parents").alias("cid")).distinct()
    return linked.join(known.select("cid"), "cid", "left_anti")


def _each(judge: Callable[[Row], Row], schema: StructType) -> Callable[[Batches], Batches]:
    def work(batches: Batches) -> Batches:
        arrow = to_arrow_schema(schema, timezone="UTC")
        for batch in batches:
            yield pa.RecordBatch.from_pylist(
                [{**row, **judge(row)} for row in batch.to_pylist()], arrow
            )

    return work


def _with_reason(table: Table) -> StructType:
    """The schema of a table with possibly invalid rows, whose columns may be null."""
    columns = [StructField(field.name, field.dataType) for field in table.schema]
    return StructType([*columns, *(BLOCKS.schema[name] for name in _FOUND)])


def _linked(*frames: DataFrame) -> DataFrame:
    chosen = (
        frame.select(sf.col("cid").alias("link"), sf.col("block").alias("linked"))
        for frame in frames
    )
    return reduce(DataFrame.union, chosen).dropDuplicates(["link"])


def open_block(row: Row) -> Row:
    """Decode a block, as far as that needs no other block."""
    block = row["block"]
    if row["reason"] is not None or not isinstance(block, bytes):
        return {}
    try:
        fields = value_in(block)
        if isinstance(fields, dict) and "topic" in fields:
            return {"kind": EVENT, "link": cid_text(cid_in(fields["topic"]))}
        if isinstance(fields, dict) and "predicate" in fields:
            return {"kind": PUBLICATION}
        return {"kind": TOPIC, "link": cid_text(read_topic(block).stable_id)}
    except RefusalError as error:
        return {"reason": str(error)}


def judged_topic(row: Row, latest_us: int) -> Row:
    """The columns of one topic, or the reason why it is invalid."""
    block, meta = row["block"], row["linked"]
    assert isinstance(block, bytes)
    topic = read_topic(block)
    try:
        check_topic(topic, Ed25519Witness(), latest_us)
        if not isinstance(meta, bytes):
            return {"reason": NO_META}
        if topic.meta is not None:
            check_meta_topic(read_topic(meta), topic)
    except RefusalError as error:
        return {"reason": str(error)}
    return _topic_row(topic)


def judged_event(row: Row, latest_us: int) -> Row:
    """The columns of one event of a topic, or the reason why it is invalid."""
    block, topic = row["block"], row["linked"]
    assert isinstance(block, bytes)
    if not isinstance(topic, bytes):
        return {"reason": NO_TOPIC}
    published_in = read_topic(topic)
    try:
        event = read_event(block)
        # An event that was allowed when it was published stays in the topic's history.
        check_event(event, published_in, None, Ed25519Witness(), latest_us)
    except RefusalError as error:
        return {"reason": str(error)}
    return _event_row(event, published_in)


def judged_publication(row: Row, latest_us: int) -> Row:
    """The columns of one event of no topic, or the reason why it is invalid."""
    block = row["block"]
    assert isinstance(block, bytes)
    try:
        event = read_event_block(block)
    except BlockError as error:
        return {"reason": f"malformed: {error}"}
    id, predicate, payload, _, _, created_us = event
    if not is_signed_event(event):
        return {"reason": NOT_SIGNED}
    if created_us > latest_us:
        return {"reason": OF_THE_FUTURE}
    created = _time(created_us)
    return {
        "day": f"{created:%Y-%m-%d}",
        "publisher": peer_text(id.publisher),
        "start": id.incarnation,
        "number": id.number,
        "created": created,
        "predicate": str(predicate),
        "payload": payload,
    }


def _topic_row(topic: Topic) -> Row:
    rules = topic.rules
    publishers = None if rules.publishers is None else [*map(peer_text, rules.publishers)]
    return {
        "room": cid_text(topic.stable_id),
        "is_meta": topic.meta is None,
        "name": topic.name,
        "author": peer_text(topic.author),
        "version": topic.version,
        "parent": None if topic.parent is None else cid_text(topic.parent),
        "created": _time(topic.created_us),
        "subtopics": [(name, cid_text(cid)) for name, cid in topic.subtopics.items()],
        "ordered": rules.is_chained,
        "publishers": publishers,
        "takes_requests": rules.takes_requests,
        "requesters": [*map(peer_text, rules.requesters)],
        "linking": rules.linking.value,
    }


def _event_row(event: TopicEvent, topic: Topic) -> Row:
    draft = event.draft
    created = _time(draft.created_us)
    return {
        "day": f"{created:%Y-%m-%d}",
        "room": cid_text(topic.stable_id),
        "version": cid_text(event.topic),
        "author": peer_text(event.id.publisher),
        "publisher": peer_text(event.publisher),
        "start": event.id.incarnation,
        "number": event.id.number,
        "created": created,
        "height": event.height,
        "parents": [*map(cid_text, event.parents)],
        "announces": cid_text(draft.payload) if draft.is_announcement else None,
        "payload": None if draft.is_announcement else draft.payload,
    }


def _time(at_us: int) -> datetime:
    return _EPOCH + timedelta(microseconds=at_us)


def _named(judged: DataFrame, known: DataFrame) -> DataFrame:
    """Topics with the id under which the archive keeps all versions of each."""
    is_version = sf.col("reason").isNull() & ~sf.col("is_meta")
    oldest = sf.min_by(sf.when(is_version, sf.col("cid")), sf.when(is_version, sf.col("version")))
    found = judged.groupBy("room").agg(oldest.alias("found"))
    called = known.groupBy("room").agg(sf.min("topic").alias("called"))
    names = found.join(called, "room", "left").select(
        "room", sf.coalesce("called", "found", "room").alias("topic")
    )
    named = judged.drop("topic").join(sf.broadcast(names), "room", "left")
    return named.select(*ARCHIVED_TOPICS.names, *_FOUND)
