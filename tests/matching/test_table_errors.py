"""A table that holds no events is refused with the column or the row that is wrong."""

import math
from typing import Any

import pyarrow as pa
import pytest

from smartpubsub.errors import SmartPubSubError
from smartpubsub.matching import EVENTS_SCHEMA, Index, TableError
from smartpubsub.matching.index import EngineName
from tests.matching.oracle import filled
from tests.matching.tables import RANGES, answers

GOOD: dict[str, Any] = {"topics": ["surf"], "ranges": []}
NO_RANGES = pa.array([[]], RANGES)
NAN = math.nan
INF = math.inf


def ranged(name: str | None, lo: float | None, hi: float | None) -> dict[str, Any]:
    return {"topics": [], "ranges": [{"name": name, "lo": lo, "hi": hi}]}


def structs(**parts: object) -> pa.Array:
    return pa.array([[parts]])


BAD_ROWS = {
    "no attribute": {"topics": [], "ranges": []},
    "no lists": {"topics": None, "ranges": None},
    "null topic": {"topics": ["surf", None], "ranges": []},
    "null range": {"topics": ["surf"], "ranges": [None]},
    "null name": ranged(None, 1.0, 2.0),
    "NaN below": ranged("price", NAN, 2.0),
    "NaN above": ranged("price", 1.0, NAN),
    "NaN of an unknown name": ranged("unknown", NAN, NAN),
    "bounds in the wrong order": ranged("price", 2.0, 1.0),
    "infinite point": ranged("price", INF, INF),
    "infinite point below": ranged("price", -INF, -INF),
    "from infinity on": ranged("price", INF, None),
    "topic twice": {"topics": ["surf", "surf"], "ranges": []},
    "range twice": {"topics": [], "ranges": ranged("price", 1.0, 2.0)["ranges"] * 2},
    "topic and range": {**ranged("surf", 1.0, 2.0), "topics": ["surf"]},
    "unknown topic twice": {"topics": ["x", "unknown", "y", "unknown"], "ranges": []},
    "unknown topic and range": {**ranged("unknown", 1.0, 2.0), "topics": ["unknown"]},
    "empty name": {"topics": [""], "ranges": []},
    "empty name of a range": ranged("", 1.0, 2.0),
    "overlong name": {"topics": ["x" * 1025], "ranges": []},
}
BAD_TABLES = {
    "topics": [
        pa.table({"ranges": NO_RANGES}),
        pa.table({"topics": ["surf"], "ranges": NO_RANGES}),
        pa.table({"topics": [1], "ranges": NO_RANGES}),
        pa.table({"topics": [[{"name": "surf"}]], "ranges": NO_RANGES}),
        pa.table([pa.array([["a"]]), pa.array([["a"]]), NO_RANGES], ["topics", "topics", "ranges"]),
        pa.table({}),
    ],
    "ranges": [
        pa.table({"topics": [["surf"]]}),
        pa.table({"topics": [["surf"]], "ranges": [1.5]}),
        pa.table({"topics": [["surf"]], "ranges": [["price"]]}),
        pa.table({"topics": [["surf"]], "ranges": structs(name="price", lo=1.0)}),
        pa.table({"topics": [["surf"]], "ranges": structs(name="price", lo=1.0, high=2.0)}),
        pa.table({"topics": [["surf"]], "ranges": structs(name="price", lo="low", hi=2.0)}),
        pa.table({"topics": [["surf"]], "ranges": structs(name="price", lo=2**53 + 1, hi=2**60)}),
    ],
    "event": [
        pa.table({"event": [["surf"]]}),
        pa.table({"event": [{"surf": 1}]}),
        pa.table({"event": [b"\xff"]}),
        pa.table([pa.array(["surf"]), pa.array(["surf"])], ["event", "event"]),
    ],
}


@pytest.fixture
def index(engine: EngineName) -> Index:
    return filled({1: "surf", 2: "price[0,10]"}, engine)


@pytest.mark.parametrize("row", BAD_ROWS.values(), ids=list(BAD_ROWS))
@pytest.mark.parametrize("before", [0, 1, 2, 13])
def test_a_row_that_is_no_event(row: dict[str, Any], before: int, index: Index) -> None:
    table = pa.Table.from_pylist([GOOD] * before + [row, GOOD], EVENTS_SCHEMA)

    with pytest.raises(TableError, match=f"^row {before}: "):
        index.match_table(table)
    assert answers(index, table.slice(before + 1)) == [[1]]


def test_rows_are_counted_over_chunks(index: Index) -> None:
    good = pa.Table.from_pylist([GOOD] * 5, EVENTS_SCHEMA)
    bad = pa.Table.from_pylist([GOOD, ranged("price", NAN, 1.0)], EVENTS_SCHEMA)

    with pytest.raises(TableError, match=r"^row 11: "):
        index.match_table(pa.concat_tables([good, good, bad]))


@pytest.mark.parametrize("text", ["", "surf/", "surf/surf", "price[2,1]", "price=NaN", None])
def test_a_written_row_that_is_no_event(text: str | None, index: Index) -> None:
    table = pa.table({"event": pa.array(["surf", text], pa.string())})

    with pytest.raises(TableError, match=r"^row 1: "):
        index.match_table(table)


@pytest.mark.parametrize(
    ("column", "table"),
    [(column, table) for column, tables in BAD_TABLES.items() for table in tables],
)
def test_the_wrong_column_is_named(column: str, table: pa.Table, index: Index) -> None:
    with pytest.raises(TableError, match=f"^the column '{column}'|'{column}' is missing among"):
        index.match_table(table)


def test_the_error_is_one_of_the_package_and_a_value_error() -> None:
    assert issubclass(TableError, SmartPubSubError)
    assert issubclass(TableError, ValueError)
