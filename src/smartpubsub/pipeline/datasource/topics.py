"""Topics as a source: an offset is a set of heads, and a batch is the range between two of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from smartpubsub.node.api.past import time_us
from smartpubsub.pipeline.datasource.nodes import NodeLink
from smartpubsub.pipeline.datasource.options import (
    EARLIEST,
    END_FIRST,
    LATEST,
    UNSETTLED,
    DataLossError,
    Losses,
    OptionError,
    OtherQueryError,
    Position,
    SourceOptions,
)
from smartpubsub.pipeline.datasource.partitions import parts
from smartpubsub.pipeline.datasource.rows import RowSchema

Heads: TypeAlias = dict[str, int]
"""Heights by content id."""
Offset: TypeAlias = dict[str, Heads]
"""The heads of each topic, by the content id that all versions of the topic share."""

NAMED_COUNT_MAX = 5
HEIGHT_MAX = 1 << 53


@dataclass
class TopicPart(InputPartition):
    """A part of the range between two sets of heads."""

    topic: str
    after: Heads
    until: Heads
    first: int
    count: int


class Topics:
    """The topics that a query reads, as Spark's driver sees them."""

    def __init__(self, options: SourceOptions, *, pins: bool) -> None:
        self._options = options
        self._link = NodeLink(options)
        self._names: dict[str, str] = {}
        """The user's name of each topic, by its id in offsets."""
        for topic in options.topics:
            answer = self._link.ask("topic-heads", topic=topic, limit=0)
            self._names[answer["room"]] = answer["topic"]
            if pins:
                self._link.ask("topic-pin", topic=topic)

    def at(self, position: Position, option: str = "startingOffsets") -> Offset:
        """The offset at a position, which an option gives."""
        if position.offsets is not None:
            return self._checked(position.offsets, option)
        if position.is_earliest:
            return {room: {} for room in self._names}
        fields = {} if position.at is None else {"before_us": time_us(position.at)}
        return {room: self._end(room, {}, **fields)["heads"] for room in self._names}

    def latest(
        self, start: Offset, until: Offset | None = None, count_max: int | None = None
    ) -> Offset:
        """The offset of all events now or at an offset, or that of so many events after another."""
        ends = {
            room: self._end(
                room, start.get(room, {}), until=(until or {}).get(room), limit=count_max
            )
            for room in self._names
        }
        total = sum(end["events"] for end in ends.values())
        if count_max is not None and total > count_max:
            for room, end in ends.items():
                share = -(-count_max * end["events"] // total)
                heads = end["heads"]
                ends[room] = self._end(room, start.get(room, {}), until=heads, limit=share)
        return {room: end["heads"] for room, end in ends.items()}

    def parts(self, start: Offset, end: Offset) -> list[TopicPart]:
        """Divide the range between two offsets."""
        ranges: list[tuple[str, Heads, Heads]] = []
        counts: list[int] = []
        for room, topic in self._names.items():
            after, until = start.get(room, {}), end.get(room, {})
            if until and after != until:
                answer = self._range(room, after, until)
                self._judge(topic, answer["lost"])
                ranges.append((topic, after, until))
                counts.append(answer["events"])
        return [
            TopicPart(*ranges[number], first, count)
            for number, first, count in parts(counts, self._options.partition_count_min)
        ]

    def has_events(self, start: Offset, end: Offset) -> bool:
        """Whether there is an event between two offsets."""
        return any(
            self._range(room, start.get(room, {}), end[room])["events"]
            for room in self._names
            if end.get(room)
        )

    def check(self, start: Offset) -> None:
        """Check that an offset is of a query that reads at least one of the topics."""
        if not all(isinstance(heads, dict) for heads in start.values()):
            raise OtherQueryError("a predicate, not topics")
        if start and not start.keys() & self._names.keys():
            raise OtherQueryError(f"other topics than {', '.join(self._names.values())}")

    def close(self) -> None:
        """Close the connection to the node."""
        self._link.close()

    def _range(self, room: str, after: Heads, until: Heads) -> dict[str, Any]:
        answer: dict[str, Any] = self._link.ask(
            "topic-range", topic=self._names[room], after=after, until=until, limit=0
        )
        return answer

    def _end(self, room: str, after: Heads, **fields: object) -> dict[str, Any]:
        given = {name: value for name, value in fields.items() if value is not None}
        answer: dict[str, Any] = self._link.ask(
            "topic-heads", topic=self._names[room], after=after, **given
        )
        return answer

    def _checked(self, given: Mapping[str, Any], option: str) -> Offset:
        for room, heads in given.items():
            if room not in self._names or not _are_heads(heads):
                topics = ", ".join(self._names)
                raise OptionError(
                    option,
                    f"heads of {room!r} cannot be used; give the heights of events by content id"
                    f" for the topics {topics}, as the offsets of a query show them",
                )
        return {room: given.get(room, {}) for room in self._names}

    def _judge(self, topic: str, lost: Sequence[str]) -> None:
        if not lost:
            return
        named = ", ".join(lost[:NAMED_COUNT_MAX]) + (", ..." if len(lost) > NAMED_COUNT_MAX else "")
        Losses(self._options.fails_on_data_loss).judge(
            f"the topic {topic} lacks {len(lost)} or more events that were to be read, and no node"
            f" that answers has them: {named}"
        )


def _are_heads(given: object) -> bool:
    return isinstance(given, dict) and all(
        type(height) is int and 0 <= height <= HEIGHT_MAX and _is_cid(cid)
        for cid, height in given.items()
    )


def _is_cid(text: str) -> bool:
    # Spark starts a Python process for each step of planning, where this is rarely needed.
    from smartpubsub.protocols.blocks import CidError, cid_from_text

    try:
        cid_from_text(text)
    except CidError:
        return False
    return True


class _Reading:
    """The work of the tasks."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._rows = RowSchema(schema)

    def read(self, part: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a part."""
        # Imported here, because the Python process of each planning step does not need it.
        from smartpubsub.pipeline.datasource.decoding import TopicEvents

        if not isinstance(part, TopicPart):
            return  # Spark passes None if there are no parts.
        link = NodeLink(self._options, was_there=True)
        first, end = part.first, part.first + part.count
        while first < end:
            _, page = link.page(
                "topic-range",
                topic=part.topic,
                after=part.after,
                until=part.until,
                first=first,
                limit=end - first,
            )
            events = TopicEvents(page)
            if not len(events):
                raise DataLossError(
                    f"the topic {part.topic} has lost events while they were read; try again"
                )
            first += len(events)
            yield from self._rows.batches(events)
        link.close()


class TopicBatchReader(_Reading, DataSourceReader):
    """Reads topics up to an end."""

    def partitions(self) -> Sequence[InputPartition]:
        """Divide the events among tasks."""
        topics = Topics(self._options, pins=False)
        try:
            start = topics.at(self._options.start or Position(EARLIEST))
            end = topics.at(self._options.end, "endingOffsets")
            found = topics.parts(start, end)
            if not found and topics.has_events(end, start):
                raise OptionError("endingOffsets", END_FIRST)
            return found
        finally:
            topics.close()


class TopicStreamReader(_Reading, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads topics as they grow; the node pins them, so that it has all their events."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        self._driver: Topics | None = None
        self._target: Offset | None = None
        self._last: Offset = {}

    @property
    def _topics(self) -> Topics:
        # Tasks get a copy of the reader, and need no connection of the driver.
        if self._driver is None:
            self._driver = Topics(self._options, pins=True)
        return self._driver

    def initialOffset(self) -> Offset:
        """Where a new query begins."""
        start = self._start
        is_settled = start.is_earliest or start.offsets is not None
        return self._topics.at(start) if is_settled else {UNSETTLED: {}}

    @property
    def _start(self) -> Position:
        return self._options.start or Position(LATEST)

    def getDefaultReadLimit(self) -> ReadLimit:
        """How many events a batch has."""
        most = self._options.events_per_trigger_max
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:
        """Remember the end of a query that reads only the events that exist now."""
        self._target = self._topics.at(Position(LATEST))

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """Where the next batch ends."""
        if UNSETTLED in start:
            self._last = self._topics.at(self._start)
        else:
            self._topics.check(start)
            most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
            self._last = self._topics.latest(start, self._target, most)
        return self._last

    def reportLatestOffset(self) -> Offset:
        """The newest offset, for the query's progress."""
        return self._topics.latest(self._last)

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Divide a batch among tasks."""
        if UNSETTLED in start:
            return []
        self._topics.check(start)
        return self._topics.parts(start, end)

    def stop(self) -> None:
        """End the query."""
        if self._driver is not None:
            self._driver.close()
