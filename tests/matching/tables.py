"""Events as tables."""

import math
from collections.abc import Sequence

import pyarrow as pa

from smartpubsub.matching import EVENTS_SCHEMA, Index
from smartpubsub.predicates import Predicate

RANGES = EVENTS_SCHEMA.field("ranges").type


def table_of(events: Sequence[Predicate]) -> pa.Table:
    """A table with the columns of EVENTS_SCHEMA, open sides being null."""
    rows = [
        {
            "topics": [name for name, interval in event.attributes.items() if interval is None],
            "ranges": [
                {"name": name, "lo": _bound(interval.lo), "hi": _bound(interval.hi)}
                for name, interval in event.attributes.items()
                if interval is not None
            ],
        }
        for event in events
    ]
    return pa.Table.from_pylist(rows, EVENTS_SCHEMA)


def written_table_of(events: Sequence[Predicate]) -> pa.Table:
    """A table with one column of written events."""
    return pa.table({"event": pa.array([str(event) for event in events], pa.string())})


def answers(index: Index, table: pa.Table) -> list[list[int]]:
    """What an index answers to a table, the keys of each row in order."""
    result = index.match_table(table)
    assert result.type == pa.large_list(pa.int64())
    assert len(result) == len(table)
    return [sorted(keys) for keys in result.to_pylist()]


def _bound(number: object) -> float | None:
    assert isinstance(number, float)
    return number if math.isfinite(number) else None
