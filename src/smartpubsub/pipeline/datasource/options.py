"""The options of `format("smartpubsub")`, checked; errors name the option and the remedy."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from smartpubsub.node.api.past import CLOCK_SKEW, event_or_time
from smartpubsub.pipeline.errors import PipelineError
from smartpubsub.predicates import Predicate, PredicateError

KEY_BYTES_MAX = 100
END_FIRST = "is before startingOffsets, so there is nothing to read; exchange the two"
EARLIEST, LATEST = "earliest", "latest"

T = TypeVar("T")
_log = logging.getLogger(__name__)

_NODE = ("node", "token")
_SOURCE = (
    *_NODE,
    "topic",
    "predicate",
    "where",
    "startingOffsets",
    "endingOffsets",
    "maxEventsPerTrigger",
    "minPartitions",
    "failOnDataLoss",
)
_SINK = (*_NODE, "topic", "predicate", "idempotencyKey")
_IGNORED = ("queryname", "checkpointlocation")
"""The options that Spark itself adds to those of a stream."""


class OptionError(PipelineError):
    """An option that cannot be used."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"option {name!r}: {problem}")


class DataLossError(PipelineError):
    """Lost events that a query has not read."""


class OtherQueryError(PipelineError):
    """Offsets, usually of a checkpoint, of a query that reads something else."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"the offsets are of a query that reads {what}; set another checkpointLocation"
        )


class Losses:
    """The reaction to lost events."""

    def __init__(self, fails: bool) -> None:
        self._fails = fails

    def judge(self, problem: str) -> None:
        """Raise an error, or log the problem."""
        if self._fails:
            raise DataLossError(
                f"{problem}; to go on without them, set the option 'failOnDataLoss' to false"
            )
        _log.warning("%s; going on without them", problem)


@dataclass(frozen=True)
class Position:
    """Where a read begins or ends: `earliest`, `latest`, a time, or offsets."""

    word: str | None = None
    at: datetime | None = None
    offsets: Mapping[str, Any] | None = None

    @property
    def is_earliest(self) -> bool:
        """Whether it is the earliest event."""
        return self.word == EARLIEST


UNSETTLED = "unsettled"
"""The only entry of the offset of a query whose beginning is not determined yet.

Spark asks for the initial offset several times, also after a crash, and does not store it. So a
first batch without rows determines and stores where the query begins.
"""


@dataclass(frozen=True)
class NodeOptions:
    """The node to use."""

    node: str
    """A data folder, or the URL of a gateway."""
    token: str | None = None


@dataclass(frozen=True)
class SourceOptions(NodeOptions):
    """The topics or the predicate to read, and how."""

    topics: tuple[str, ...] = ()
    predicate: str | None = None
    start: Position | None = None
    end: Position = Position(LATEST)
    events_per_trigger_max: int | None = None
    partition_count_min: int | None = None
    fails_on_data_loss: bool = True


@dataclass(frozen=True)
class SinkOptions(NodeOptions):
    """Where to publish rows, and as what."""

    topic: str | None = None
    template: str | None = None
    """The predicate of a row, with the names of columns in braces."""
    key: str | None = None
    """The beginning of the keys of rows that are not of a stream."""


def sink_options(given: Mapping[str, str]) -> SinkOptions:
    """Read the options of a sink."""
    _check_names(given, _SINK)
    topic, template = given.get("topic"), given.get("predicate")
    if topic is not None and template is not None:
        raise OptionError("topic", "events of a topic have no predicate; give one of the two")
    key = given.get("idempotencyKey")
    if key is not None and not 1 <= len(key.encode()) <= KEY_BYTES_MAX:
        raise OptionError("idempotencyKey", f"has 1 to {KEY_BYTES_MAX} bytes of UTF-8")
    return SinkOptions(_node(given), given.get("token"), topic, template, key)


def source_options(given: Mapping[str, str], *, is_stream: bool) -> SourceOptions:
    """Read the options of a source."""
    _check_names(given, _SOURCE)
    topics = tuple(part.strip() for part in given.get("topic", "").split(",") if part.strip())
    predicate = _predicate(given)
    if bool(topics) == (predicate is not None):
        raise OptionError(
            "topic", "name either the topics to read, or a predicate with 'predicate' or 'where'"
        )
    if is_stream and "endingOffsets" in given:
        raise OptionError("endingOffsets", "is for spark.read; a stream has no end")
    if not is_stream and "maxEventsPerTrigger" in given:
        raise OptionError("maxEventsPerTrigger", "is for spark.readStream; leave it out")
    start = _read(given, "startingOffsets", _start, None)
    end = _read(given, "endingOffsets", _end, Position(LATEST))
    if start is not None and start.at is not None and end.at is not None and end.at < start.at:
        raise OptionError("endingOffsets", END_FIRST)
    return SourceOptions(
        _node(given),
        given.get("token"),
        topics,
        predicate,
        start,
        end,
        _read(given, "maxEventsPerTrigger", _count, None),
        _read(given, "minPartitions", _count, None),
        _read(given, "failOnDataLoss", _switch, True),
    )


def since_text(position: Position) -> str | None:
    """The time from which on history is wanted; None for no history."""
    if position.is_earliest:
        return "1970-01-01T00:00:00Z"
    return None if position.at is None else position.at.isoformat()


def _check_names(given: Mapping[str, str], allowed: Iterable[str]) -> None:
    known = {name.lower(): name for name in allowed}
    for name in given:
        if name.lower() == "path":
            raise OptionError("path", "there is no path; name the node with option('node', ...)")
        if name.lower() not in known and name.lower() not in _IGNORED:
            raise OptionError(name, f"there is no such option; there are {', '.join(allowed)}")


def _node(given: Mapping[str, str]) -> str:
    node = given.get("node", "")
    if not node:
        raise OptionError(
            "node", "is missing; name the data folder of a running node, or its gateway's URL"
        )
    return node


def _predicate(given: Mapping[str, str]) -> str | None:
    written, where = given.get("predicate"), given.get("where")
    if written is not None and where is not None:
        raise OptionError("where", "says the same as 'predicate'; give one of them")
    try:
        if where is not None:
            return str(Predicate.where(where))
        return None if written is None else str(Predicate.parse(written))
    except PredicateError as error:
        raise OptionError("predicate" if where is None else "where", str(error)) from None


def _read(given: Mapping[str, str], name: str, read: Callable[[str], T], default: T) -> T:
    if name not in given:
        return default
    try:
        return read(given[name].strip())
    except ValueError as error:
        raise OptionError(name, str(error)) from None


def _position(text: str, words: str = "earliest, latest") -> Position:
    if text.lower() in (EARLIEST, LATEST):
        return Position(text.lower())
    if text.startswith("{"):
        try:
            return Position(offsets=json.loads(text))
        except ValueError:
            raise ValueError(
                f"{text[:60]!r} is not JSON; give offsets as a query shows them"
            ) from None
    at = event_or_time(text)
    if isinstance(at, str):
        raise ValueError(
            f"{text[:60]!r} is no position; give {words}, a time such as"
            " 2026-01-31T12:00Z, a period such as 1h, or offsets as JSON"
        )
    return Position(at=at if at.tzinfo is not None else at.replace(tzinfo=UTC))


def _start(text: str) -> Position:
    start = _position(text)
    if _is_in_future(start):
        raise ValueError(f"{text!r} is in the future; give latest for events from now on")
    return start


def _is_in_future(position: Position) -> bool:
    return position.at is not None and position.at > datetime.now(UTC) + CLOCK_SKEW


def _end(text: str) -> Position:
    end = _position(text, "latest")
    if end.is_earliest:
        raise ValueError("a read does not end at the earliest event; give latest, or a time")
    # There is no later event, and the node does not count that far.
    return Position(LATEST) if _is_in_future(end) else end


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not int(text):
        raise ValueError(f"{text[:60]!r} is no whole number from 1 on")
    return int(text)


def _switch(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(f"{text[:60]!r} is neither true nor false")
    return text.lower() == "true"
