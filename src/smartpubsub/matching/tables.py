"""Events as Arrow tables, and the keys that match them.

A table of events has the columns of `EVENTS_SCHEMA`; a float stands for its shortest decimal and a
null bound for an open side. If events have numbers that no float stands for, a column `event` with
the written predicates replaces these columns.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from smartpubsub.errors import SmartPubSubError
from smartpubsub.predicates import Interval, Predicate, PredicateError
from smartpubsub.predicates.names import check_name

EVENTS_SCHEMA = pa.schema(
    [
        pa.field("topics", pa.list_(pa.string())),
        pa.field(
            "ranges",
            pa.list_(
                pa.struct(
                    [
                        pa.field("name", pa.string()),
                        pa.field("lo", pa.float64()),
                        pa.field("hi", pa.float64()),
                    ]
                )
            ),
        ),
    ]
)
KEYS_TYPE = pa.large_list(pa.int64())
KNOWN_NAMES_MAX = 100_000
"""How many valid names are cached, so that they are not checked again."""
BATCH_KEYS = 1 << 20
"""A batch of results is full with this many keys; the native engine uses the same number."""


class TableError(SmartPubSubError, ValueError):
    """A table that does not hold events."""


def lists_of(keys: Iterable[list[int]]) -> Iterator[pa.LargeListArray]:
    """Arrow lists of keys, in batches of `BATCH_KEYS` keys, plus the rest of the last row."""
    values: list[int] = []
    offsets = [0]
    for found in keys:
        values += found
        offsets.append(len(values))
        if len(values) >= BATCH_KEYS:
            yield _lists(values, offsets)
            values, offsets = [], [0]
    if len(offsets) > 1:
        yield _lists(values, offsets)


def _lists(values: list[int], offsets: list[int]) -> pa.LargeListArray:
    return pa.LargeListArray.from_arrays(
        pa.array(offsets, pa.int64()), pa.array(values, pa.int64())
    )


def written_events(table: pa.Table) -> pa.ChunkedArray | None:
    """The column of written events, if the table has that instead of topics and ranges."""
    written = pa.field("event", pa.large_string())
    return _column(table, written) if written.name in table.column_names else None


def columns_of(table: pa.Table) -> pa.Table:
    """The columns of events in their declared types; raise TableError if they are missing."""
    missing = [name for name in EVENTS_SCHEMA.names if name not in table.column_names]
    if missing:
        raise TableError(
            f"a table of events has the columns 'topics' and 'ranges', or a column 'event';"
            f" {missing[0]!r} is missing among {table.column_names}"
        )
    return pa.table([_column(table, field) for field in EVENTS_SCHEMA], EVENTS_SCHEMA)


def _column(table: pa.Table, field: pa.Field) -> pa.ChunkedArray:
    if table.column_names.count(field.name) > 1:
        raise TableError(f"the column {field.name!r} is repeated")
    column = table.column(field.name)
    if pa.types.is_large_string(field.type) and not _is_text(column.type):
        raise TableError(f"the column {field.name!r} is not text but {column.type}")
    try:
        _check_parts(getattr(column.type, "value_type", None), field.type)
        return column.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
        raise TableError(f"the column {field.name!r} is not {field.type}: {error}") from None


def _is_text(given: pa.DataType) -> bool:
    plain = given.value_type if pa.types.is_dictionary(given) else given
    return plain in (pa.string(), pa.large_string(), pa.string_view())


def _check_parts(given: pa.DataType | None, wanted: pa.DataType) -> None:
    """Raise ValueError if a struct lacks fields; a cast would make them null."""
    if given is not None and pa.types.is_struct(given) and pa.types.is_list(wanted):
        for part in getattr(wanted.value_type, "names", ()):
            if given.get_field_index(part) < 0:
                raise ValueError(f"{part!r} is missing or repeated in its structs")


def events_of(table: pa.Table) -> Iterator[Predicate]:
    """The events of a table, row by row, with any number of attributes."""
    written = written_events(table)
    if written is None:
        yield from _events_from(columns_of(table))
        return
    for number, text in enumerate(written.to_pylist()):
        try:
            yield Predicate.parse(text or "", attributes_max=len(text or "") + 1)
        except PredicateError as error:
            raise TableError(f"row {number}: {error}") from None


def _events_from(table: pa.Table) -> Iterator[Predicate]:
    """Convert column by column, which takes a third of the time; `_event_of` handles unusual
    rows."""
    known: set[str] = set()
    rows_before = 0
    for batch in table.to_batches():
        topics, ranges = batch.columns
        topic_ends, topic_names = _unfolded(topics)
        range_ends, parts = _unfolded(ranges)
        named, los, his = (part.to_pylist() for part in parts.flatten())
        topic_list = topic_names.to_pylist()
        topic_start = range_start = 0
        for row, (topic_end, range_end) in enumerate(zip(topic_ends, range_ends, strict=True)):
            own = topic_list[topic_start:topic_end]
            carried: dict[str, Interval | None] = dict.fromkeys(own)
            is_usual = bool(own) or range_end > range_start
            for place in range(range_start, range_end):
                lo, hi = los[place], his[place]
                lo = -math.inf if lo is None else lo + 0.0
                hi = math.inf if hi is None else hi + 0.0
                is_usual = is_usual and lo <= hi and lo != math.inf and hi != -math.inf
                carried[named[place]] = Interval(lo, hi)
            is_usual = is_usual and len(carried) == len(own) + range_end - range_start
            topic_start, range_start = topic_end, range_end
            if is_usual and (carried.keys() <= known or _are_names(carried, known)):
                yield Predicate.unchecked(carried)
                continue
            try:
                yield _event_of(batch.slice(row, 1).to_pylist()[0])
            except PredicateError as error:
                raise TableError(f"row {rows_before + row}: {error}") from None
        rows_before += len(batch)


def _unfolded(lists: pa.ListArray) -> tuple[list[int], pa.Array]:
    """The end of each list among the values of all."""
    lengths = pc.fill_null(pc.list_value_length(lists), 0)
    return pc.cumulative_sum(lengths).to_pylist(), lists.flatten()


def _are_names(carried: Iterable[object], known: set[str]) -> bool:
    """Whether all are valid names; caches them if so."""
    for name in carried:
        if not isinstance(name, str):
            return False
        try:
            check_name(name)
        except ValueError:
            return False
        if len(known) < KNOWN_NAMES_MAX:
            known.add(name)
    return True


def _event_of(row: dict[str, list]) -> Predicate:  # type: ignore[type-arg]  # checked by the cast
    attributes: dict[str, object] = {}
    for topic in row["topics"] or ():
        if topic in attributes:
            raise PredicateError("a name is repeated")
        attributes[topic] = True
    for wanted in row["ranges"] or ():
        if wanted is None or wanted["name"] is None:
            raise PredicateError("a range has no name")
        if wanted["name"] in attributes:
            raise PredicateError("a name is repeated")
        lo, hi = wanted["lo"], wanted["hi"]
        attributes[wanted["name"]] = (
            -math.inf if lo is None else lo,
            math.inf if hi is None else hi,
        )
    return Predicate.of(attributes, attributes_max=len(attributes))
