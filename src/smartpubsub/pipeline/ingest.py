"""The stage `ingest`: turns rows of data into records, or into bad lines with a reason.

Arrow and NumPy do most of the work, on many rows at once. Only unusual values take a Python call
for each.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

from smartpubsub.pipeline.mapping import ColumnMapping
from smartpubsub.pipeline.parsing import Number, Parsed
from smartpubsub.pipeline.schemas import RECORDS
from smartpubsub.predicates.names import NAME_BYTES_MAX

AUTHOR_HEX_DIGITS = 16
SECONDS_MAX = 1e11
"""The largest time, in seconds since 1970."""

_OWN = [column for column in RECORDS.schema if column.name != "source"]
JUDGED = StructType([*_OWN, StructField("reason", StringType()), StructField("line", StringType())])
"""Records without their source, with the reason and the line if they are bad."""
_ARROW = to_arrow_schema(JUDGED, timezone="UTC")

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_NO_ARRAY = (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError)

Floats = npt.NDArray[np.float64]
Marks = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]


class Judge:
    """Turns the rows of a source into records.

    Authors are hashed with the salt, or kept if there is none.
    """

    def __init__(self, source: str, mapping: ColumnMapping, salt: str | None) -> None:
        self._mapping = mapping
        self._salt = salt
        digest = hashlib.sha256(source.encode()).digest()
        self._source = np.frombuffer(digest[:8], np.uint64)

    def judged(self, parsed: Parsed, places: Sequence[Numbers]) -> pa.RecordBatch:
        """Rows with their places in the source: where their part begins, and the number in it."""
        mapping, columns = self._mapping, parsed.columns
        count = len(parsed.lines)
        numbers = {name: numbers_of(columns[name]) for name in mapping.columns_of_numbers()}
        time, is_no_time = _times(columns[mapping.time]) if mapping.time else _no_times(count)
        texts = {name: _texts(columns.get(getattr(mapping, name)), count) for name in _TEXTS}
        topics = _topics(mapping, columns, count)
        ranges = _ranges({name: numbers[own][0] for name, own in mapping.ranges.items()}, count)
        said = pc.or_(pc.is_valid(texts["text"]), pc.is_valid(texts["payload"]))
        says_nothing = ~(_has_some(topics) | _has_some(ranges) | said.to_numpy(False))
        reasons = np.full(count, None, object)
        # The first reason counts, so it is set last.
        reasons[says_nothing] = "no topic, no number and no text"
        reasons[_has_long(topics)] = f"a topic has more than {NAME_BYTES_MAX} bytes"
        reasons[is_no_time] = f"{mapping.time} is not a time"
        for name in reversed(mapping.columns_of_numbers()):
            reasons[numbers[name][1]] = f"{name} is not a number"
        for number, problem in parsed.problems.items():
            reasons[number] = problem
        lines = [
            None if reason is None else line.decode(errors="replace")
            for reason, line in zip(reasons, parsed.lines, strict=True)
        ]
        found = {
            **texts,
            "event_id": self._event_ids(places),
            "time": time,
            "author": self._authors(texts["author"]),
            "topics": topics,
            "ranges": ranges,
            "payload": texts["payload"].cast(pa.binary()),
            "reason": pa.array(reasons, pa.string()),
            "line": pa.array(lines, pa.string()),
        }
        return pa.RecordBatch.from_arrays([found[name] for name in _ARROW.names], schema=_ARROW)

    def _event_ids(self, places: Sequence[Numbers]) -> pa.Array:
        mixed = self._source
        for part in places:
            mixed = _mixed(mixed + part.astype(np.uint64))
        return pa.array((mixed >> np.uint64(1)).astype(np.int64))

    def _authors(self, names: pa.Array) -> pa.Array:
        if self._mapping.nobody:
            nobody = pc.is_in(names, pa.array(self._mapping.nobody, pa.string()))
            names = pc.if_else(nobody, None, names)
        if self._salt is None:
            return names
        known = names.dictionary_encode()
        hashed = [
            hashlib.sha256(f"{self._salt}\0{name}".encode()).hexdigest()[:AUTHOR_HEX_DIGITS]
            for name in known.dictionary.to_pylist()
        ]
        return pa.array(hashed, pa.string()).take(known.indices)


_TEXTS = ("author", "text", "label", "key", "payload")


def numbers_of(values: Sequence[Any]) -> tuple[Floats, Marks]:
    """Values as numbers, NaN where there is none, and which values are wrong.

    >>> numbers_of([1, " 2.5", None, "", "many", True])
    (array([1. , 2.5, nan, nan, nan, nan]), array([False, False, False, False,  True,  True]))
    """
    found, is_there = _plain_numbers(values)
    found = np.where(np.isfinite(found), found, np.nan)
    return found, is_there & np.isnan(found)


def _plain_numbers(values: Sequence[Any]) -> tuple[Floats, Marks]:
    try:
        array = pa.array(values)
        if pa.types.is_string(array.type):
            array = _blank_as_null(array)
        elif pa.types.is_boolean(array.type):
            raise pa.ArrowInvalid
        numbers = array.cast(pa.float64(), safe=False).to_numpy(False)
    except _NO_ARRAY:
        is_there = [value is not None and value != "" for value in values]
        return np.array([*map(_number, values)], np.float64), np.array(is_there, bool)
    return np.array(numbers, np.float64), array.is_valid().to_numpy(False)


def _number(value: object) -> float:
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
            return float(value)
    except OverflowError:
        pass
    return np.nan


def _no_times(count: int) -> tuple[pa.Array, Marks]:
    return pa.nulls(count, _ARROW.field("time").type), np.zeros(count, bool)


def _times(values: Sequence[Any]) -> tuple[pa.Array, Marks]:
    """Seconds since 1970, or dates and times; and which values are neither."""
    seconds, is_other = numbers_of(values)
    is_known = np.abs(seconds) < SECONDS_MAX
    is_far = np.isfinite(seconds) & ~is_known
    found = np.round(np.where(is_known, seconds, 0) * 1e6).astype(np.int64)
    for place in np.flatnonzero(is_other).tolist():
        at_us = _date_us(values[place])
        if at_us is not None:
            found[place], is_known[place], is_other[place] = at_us, True, False
    times = pa.array(found, pa.int64(), mask=~is_known).cast(_ARROW.field("time").type)
    return times, is_other | is_far


def _date_us(value: object) -> int | None:
    """A date, or a date and time, as microseconds since 1970; UTC unless it says another zone."""
    if not isinstance(value, str):
        return None
    try:
        found = datetime.fromisoformat(value.strip().removesuffix("UTC").rstrip())
        at = found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
    except (ValueError, OverflowError):  # Python has no UTC before the year 1 or after 9999.
        return None
    since = at - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def _texts(values: Sequence[Any] | None, count: int) -> pa.Array:
    """Values as texts; an empty text is null."""
    if values is None:
        return pa.nulls(count, pa.string())
    try:
        array = pa.array(values, pa.string())
    except _NO_ARRAY:
        array = pa.array([*map(_text, values)], pa.string())
    return _blank_as_null(array)


def _blank_as_null(texts: pa.Array) -> pa.Array:
    is_blank = pc.equal(pc.binary_length(texts), 0)
    return pc.if_else(is_blank, None, texts) if pc.any(is_blank).as_py() else texts


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, Number):
        return value.text
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except RecursionError:  # The parser had more room on the stack.
        return None


def _topics(mapping: ColumnMapping, columns: Mapping[str, Sequence[Any]], count: int) -> pa.Array:
    """All topics of each row, each once, without names that have a number."""
    if len(mapping.topics) == 1:
        simple = _single_topics(columns[mapping.topics[0]], mapping.ranges)
        if simple is not None:
            return simple
    found: list[list[str]] = [[] for _ in range(count)]
    for name in mapping.topics:
        for own, value in zip(found, columns[name], strict=True):
            own += (
                topic
                for topic in map(_text, _topics_in(value))
                if topic and topic not in mapping.ranges
            )
    return pa.array([[*dict.fromkeys(own)] for own in found], _ARROW.field("topics").type)


def _single_topics(values: Sequence[Any], unwanted: Iterable[str]) -> pa.Array | None:
    """The topics of rows that have one each; None if there are others among them."""
    try:
        topics = pa.array(values, pa.string())
    except _NO_ARRAY:
        return None
    special = pc.or_(
        pc.or_(pc.starts_with(topics, "["), pc.equal(topics, "")),
        pc.is_in(topics, pa.array([*unwanted], pa.string())),
    )
    if topics.null_count or pc.any(special).as_py():
        return None
    return _lists(np.ones(len(topics), np.int64), topics, "topics")


def _topics_in(value: object) -> list[object]:
    """A list, also if it is written as JSON, or else the value alone."""
    if isinstance(value, str) and value.startswith("["):
        try:
            found = json.loads(value, parse_float=Number)
            json.dumps(found, ensure_ascii=False).encode()  # An error for text that is no Unicode.
        except (ValueError, RecursionError):
            return [value]
        value = found
    return value if isinstance(value, list) else [value]


def _ranges(numbers: Mapping[str, Floats], count: int) -> pa.Array:
    """A range for each number that is there."""
    names = pa.array([*numbers], pa.string())
    table = np.stack([*numbers.values()], axis=1) if numbers else np.zeros((count, 0))
    is_there = ~np.isnan(table)
    flat = pa.array(table[is_there])
    own_names = names.take(pa.array(np.nonzero(is_there)[1]))
    struct_type = _ARROW.field("ranges").type.value_type
    ranges = pa.StructArray.from_arrays([own_names, flat, flat], fields=[*struct_type])
    return _lists(is_there.sum(axis=1), ranges, "ranges")


def _lists(sizes: Numbers, values: pa.Array, column: str) -> pa.Array:
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    array_type = _ARROW.field(column).type
    return pa.ListArray.from_arrays(pa.array(offsets), values, type=array_type)


def _has_some(lists: pa.Array) -> Marks:
    marks: Marks = pc.greater(pc.list_value_length(lists), 0).to_numpy(False)
    return marks


def _has_long(topics: pa.Array) -> Marks:
    is_long = pc.greater(pc.binary_length(topics.flatten()), NAME_BYTES_MAX)
    marks = np.zeros(len(topics), bool)
    marks[pc.list_parent_indices(topics).filter(is_long).to_numpy(False)] = True
    return marks


def _mixed(numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """A hash of each number, without collisions: the finalizer of SplitMix64."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))
