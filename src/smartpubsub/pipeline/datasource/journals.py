"""Predicates as a stream: a journal at the node, and sequence numbers as offsets."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from smartpubsub.node.errors import NoSubscriptionError
from smartpubsub.pipeline.datasource.nodes import NodeLink
from smartpubsub.pipeline.datasource.options import (
    LATEST,
    UNSETTLED,
    DataLossError,
    Losses,
    OptionError,
    OtherQueryError,
    Position,
    SourceOptions,
    since_text,
)
from smartpubsub.pipeline.datasource.partitions import parts
from smartpubsub.pipeline.datasource.rows import RowSchema
from smartpubsub.predicates import Predicate

Offset: TypeAlias = dict[str, Any]
"""The number of the journal's subscription, its epoch, and the next sequence number."""

_FIELDS = {"subscription": int, "epoch": str, "next": int}
_log = logging.getLogger(__name__)


@dataclass
class JournalPart(InputPartition):
    """A range of sequence numbers of a journal."""

    subscription: int
    epoch: str
    first: int
    end: int


class Journal:
    """The journal that a query reads, as Spark's driver sees it."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._losses = Losses(options.fails_on_data_loss)
        self._link = NodeLink(options)
        self._known: set[int] = set()
        """The journals that have the predicate of the query."""

    def begin(self, position: Position) -> Offset:
        """Make a journal that begins at a position, or use the one in the given offsets."""
        if position.offsets is not None:
            offset = _checked(dict(position.offsets))
            self._state(offset)
            return offset
        fields = {"predicate": self._options.predicate}
        if (since := since_text(position)) is not None:
            fields["since"] = since
        state = self._link.ask("journal-open", **fields)
        if not state["is_whole"]:
            try:
                self._losses.judge(
                    f"the history of {self._options.predicate} lacks events, as not all nodes that"
                    " keep it answered; try later"
                )
            except DataLossError:  # The next try makes another journal.
                self._link.ask("unsubscribe", subscription=state["subscription"])
                raise
        return _offset(state, state["first"])

    def end(self, start: Offset) -> Offset:
        """The offset of all events now."""
        _check_kind(start)
        try:
            state = self._state(start)
        except NoSubscriptionError as error:
            self._losses.judge(f"{error}; all events since the offset {start} are lost")
            return self.end(self.begin(Position(LATEST)))
        if state["end"] < start["next"]:
            self._losses.judge(
                f"the journal {state['subscription']} ends at {state['end']}, before the offset"
                f" {start}: the node runs with an older copy of its data folder, and new events get"
                " the sequence numbers of events that the query has read"
            )
        return _offset(state, state["end"])

    def parts(self, start: Offset, end: Offset) -> list[JournalPart]:
        """Divide the range between two offsets."""
        _check_kind(start)
        is_same = start["epoch"] == end["epoch"]
        begin = start["next"] if is_same else 0
        if begin >= end["next"]:
            return []
        try:
            first = min(max(begin, self._state(end)["first"]), end["next"])
        except NoSubscriptionError as error:
            self._losses.judge(f"{error}; the events from {start} to {end} are lost")
            return []
        if is_same and first > begin:
            self._losses.judge(_gap(end, begin, first))
        count_min = self._options.partition_count_min
        return [
            JournalPart(end["subscription"], end["epoch"], first + at, first + at + count)
            for _, at, count in parts([end["next"] - first], count_min)
        ]

    def take(self, end: Offset) -> None:
        """Acknowledge the events before an offset."""
        try:
            self._link.ask("journal-take", **_name(end), end=end["next"])
        except NoSubscriptionError as error:
            _log.warning("%s", error)  # The next batch finds out whether events were lost.

    def close(self) -> None:
        """Close the connection to the node."""
        self._link.close()

    def _state(self, offset: Offset) -> dict[str, Any]:
        state: dict[str, Any] = self._link.ask("journal-state", **_name(offset))
        if state["subscription"] not in self._known:
            self._check_predicate(state["subscription"])
        return state

    def _check_predicate(self, number: int) -> None:
        assert self._options.predicate is not None
        for each in self._link.ask("subscriptions"):
            text = each["predicate"]
            is_wanted = _parsed(text) == _parsed(self._options.predicate)
            if each["subscription"] == number and not is_wanted:
                raise OtherQueryError(f"{text}, not {self._options.predicate}")
        self._known.add(number)


class JournalStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the events that match a predicate."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._rows = RowSchema(schema)
        self._driver: Journal | None = None
        self._is_to_end = False
        self._begun: Offset | None = None
        self._target: Offset | None = None
        self._last: Offset | None = None

    @property
    def _journal(self) -> Journal:
        # Tasks get a copy of the reader, and need no connection of the driver.
        if self._driver is None:
            self._driver = Journal(self._options)
        return self._driver

    def initialOffset(self) -> Offset:
        """Where a new query begins; its first batch makes the journal."""
        return {UNSETTLED: True}

    def getDefaultReadLimit(self) -> ReadLimit:
        """How many events a batch has."""
        most = self._options.events_per_trigger_max
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:
        """End the query at the events that exist when Spark first asks for an offset."""
        self._is_to_end = True

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """Where the next batch ends."""
        if UNSETTLED in start:
            if self._begun is None:
                self._begun = self._journal.begin(self._options.start or Position(LATEST))
            return self._begun
        end = self._target or self._journal.end(start)
        if self._is_to_end:
            self._target = end
        self._last = end
        if isinstance(limit, ReadMaxRows):
            first = start["next"] if start["epoch"] == end["epoch"] else 0
            end = {**end, "next": min(end["next"], first + limit.max_rows)}
        return end

    def reportLatestOffset(self) -> Offset | None:
        """The newest offset, for the query's progress."""
        return self._last or self._begun

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Divide a batch among tasks."""
        return [] if UNSETTLED in start else self._journal.parts(start, end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a part."""
        # Imported here, because the Python process of each planning step does not need it.
        from smartpubsub.pipeline.datasource.decoding import StoredEvents

        assert isinstance(partition, JournalPart)
        link = NodeLink(self._options, was_there=True)
        name = {"subscription": partition.subscription, "epoch": partition.epoch}
        first = partition.first
        while first < partition.end:
            answer, page = link.page("journal-read", **name, first=first, end=partition.end)
            begin = min(answer["first"], partition.end)
            if begin > first:
                Losses(self._options.fails_on_data_loss).judge(_gap(name, first, begin))
            events = StoredEvents(page)
            if not len(events) and begin < partition.end:
                raise NoSubscriptionError(
                    f"the journal {partition.subscription} ends before {partition.end}; the node"
                    " runs with an older copy of its data folder"
                )
            first = begin + len(events)
            yield from self._rows.batches(events)
        link.close()

    def commit(self, end: Offset) -> None:
        """Acknowledge what the query has processed."""
        self._journal.take(end)

    def stop(self) -> None:
        """End the query."""
        if self._driver is not None:
            self._driver.close()


def _offset(state: dict[str, Any], sequence: int) -> Offset:
    return {"subscription": state["subscription"], "epoch": state["epoch"], "next": sequence}


def _name(offset: Offset) -> dict[str, Any]:
    return {"subscription": offset["subscription"], "epoch": offset["epoch"]}


def _parsed(text: str) -> Predicate:
    return Predicate.parse(text, attributes_max=len(text))


def _check_kind(offset: Offset) -> None:
    if offset.keys() != _FIELDS.keys():
        raise OtherQueryError("topics, not a predicate")


def _gap(name: Offset, first: int, end: int) -> str:
    return (
        f"the journal {name['subscription']} of the epoch {name['epoch']} has no longer the events"
        f" {first} to {end - 1}, {end - first} in all: a query has acknowledged them, or the node"
        " dropped them beyond its limits of kept events"
    )


def _checked(given: Offset) -> Offset:
    if given.keys() != _FIELDS.keys() or any(
        type(given[name]) is not kind for name, kind in _FIELDS.items()
    ):
        raise OptionError(
            "startingOffsets",
            f"{given} are no offsets of a predicate; give subscription, epoch and next, as the"
            " offsets of a query show them",
        )
    return given
