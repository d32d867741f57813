"""Tables of events are answered row by row, however they are cut and typed."""

import math
from random import Random

import pyarrow as pa
import pytest

from smartpubsub.matching import EVENTS_SCHEMA, Index
from smartpubsub.matching.index import EngineName
from smartpubsub.predicates import Predicate
from tests.matching.crowds import event, many_topics
from tests.matching.engines import needs_native
from tests.matching.oracle import Oracle, filled
from tests.matching.tables import RANGES, answers, table_of, written_table_of

ORACLE = Oracle((key, many_topics(Random(key))) for key in range(700))
EVENTS = [event(Random(f"event {number}")) for number in range(60)]
EXPECTED = [ORACLE.match(one) for one in EVENTS]
TABLE = table_of(EVENTS)


@pytest.fixture
def index(engine: EngineName) -> Index:
    return filled(ORACLE, engine)


def test_rows_are_answered_in_order(index: Index) -> None:
    assert answers(index, TABLE) == EXPECTED
    assert answers(index, written_table_of(EVENTS)) == EXPECTED
    assert any(EXPECTED)


@pytest.mark.parametrize(
    ("start", "length"), [(0, 1), (1, 1), (7, 20), (8, 8), (9, 51), (59, 1), (60, 0)]
)
def test_slices_keep_their_offsets(start: int, length: int, index: Index) -> None:
    expected = EXPECTED[start : start + length]

    assert answers(index, TABLE.slice(start, length)) == expected
    assert answers(index, written_table_of(EVENTS).slice(start, length)) == expected


def test_columns_may_be_slices_of_their_own(index: Index) -> None:
    columns = [
        pa.concat_arrays([TABLE["topics"].combine_chunks()[:5], TABLE["topics"].combine_chunks()]),
        pa.concat_arrays([TABLE["ranges"].combine_chunks()[:9], TABLE["ranges"].combine_chunks()]),
    ]
    table = pa.table([columns[0][5:], columns[1][9:]], EVENTS_SCHEMA)

    assert answers(index, table) == EXPECTED
    assert answers(index, table.slice(11, 13)) == EXPECTED[11:24]


def test_ranges_may_be_slices_of_structs(index: Index) -> None:
    ranges = TABLE["ranges"].combine_chunks()
    surplus = pa.array([{"name": "r0", "lo": 1.0, "hi": 2.0}] * 3, RANGES.value_type)
    longer = pa.concat_arrays([surplus, ranges.flatten()])
    shifted = pa.ListArray.from_arrays(ranges.offsets, longer.slice(3))
    table = pa.table([TABLE["topics"], shifted], EVENTS_SCHEMA)

    assert answers(index, table) == EXPECTED


def test_chunks_need_not_lie_alike(index: Index) -> None:
    topics, ranges = (TABLE[name].combine_chunks() for name in EVENTS_SCHEMA.names)
    table = pa.table(
        [
            pa.chunked_array([topics[:1], topics[1:1], topics[1:40], topics[40:]]),
            pa.chunked_array([ranges[:25], ranges[25:26], ranges[26:]]),
        ],
        EVENTS_SCHEMA,
    )

    assert answers(index, table) == EXPECTED
    assert answers(index, pa.concat_tables([TABLE.slice(3, 9), table])) == EXPECTED[3:12] + EXPECTED


def test_an_empty_table_has_no_answers(index: Index) -> None:
    assert answers(index, EVENTS_SCHEMA.empty_table()) == []
    assert answers(index, TABLE.slice(0, 0)) == []
    assert answers(index, pa.table({"event": pa.array([], pa.string())})) == []


def test_null_lists_are_empty_and_null_bounds_are_open(engine: EngineName) -> None:
    index = filled({1: "surf", 2: "price[3,]", 3: "price[,4]", 4: "price[,]"}, engine)
    rows = [
        {"topics": None, "ranges": [{"name": "price", "lo": 3.5, "hi": None}]},
        {"topics": ["surf"], "ranges": None},
        {"topics": [], "ranges": [{"name": "price", "lo": None, "hi": None}]},
        {"topics": ["surf"], "ranges": [{"name": "price", "lo": None, "hi": 4.0}]},
        {"topics": [], "ranges": [{"name": "price", "lo": -math.inf, "hi": math.inf}]},
    ]

    table = pa.Table.from_pylist(rows, EVENTS_SCHEMA)
    assert answers(index, table) == [[2, 4], [1], [4], [1, 3, 4], [4]]


def test_what_lies_under_a_null_list_is_not_looked_at(engine: EngineName) -> None:
    topics = pa.ListArray.from_arrays(
        [0, 1, 2], pa.array(["surf", "beach"]), mask=pa.array([True, False])
    )
    ranges = pa.array([[{"name": "price", "lo": 1.0, "hi": 1.0}], []], RANGES)
    index = filled({1: "surf", 2: "beach", 3: "price=1"}, engine)

    assert answers(index, pa.table([topics, ranges], EVENTS_SCHEMA)) == [[3], [2]]


@pytest.mark.parametrize(
    ("topics", "ranges"),
    [
        (pa.large_list(pa.large_string()), ("large_string", "double", "double")),
        (pa.list_(pa.dictionary(pa.int32(), pa.string())), ("string", "float", "float")),
        (pa.list_(pa.string()), ("string", "int64", "int8")),
    ],
)
def test_columns_of_other_types_are_cast(
    topics: pa.DataType, ranges: tuple[str, str, str], engine: EngineName
) -> None:
    parts = pa.struct(list(zip(("name", "lo", "hi"), map(pa.type_for_alias, ranges), strict=True)))
    values = [[{"name": "price", "lo": 1, "hi": 2}], [{"name": "price", "lo": 3, "hi": None}]]
    table = pa.table(
        [pa.array([["surf"], []], topics), pa.array(values, pa.large_list(parts))],
        ["topics", "ranges"],
    )
    index = filled({1: "surf", 2: "price[1,2]", 3: "price[3,]"}, engine)

    assert answers(index, table) == [[1, 2], [3]]


def test_a_narrow_float_stands_for_the_float_that_it_is(engine: EngineName) -> None:
    parts = pa.struct([("name", pa.string()), ("lo", pa.float32()), ("hi", pa.float32())])
    ranges = pa.array([[{"name": "price", "lo": 0.1, "hi": 0.1}]], pa.list_(parts))
    table = pa.table([pa.array([[]], pa.list_(pa.string())), ranges], ["topics", "ranges"])
    index = filled({1: "price=0.1", 2: "price=0.10000000149011612"}, engine)

    assert answers(index, table) == [[2]]


def test_other_columns_are_left_alone(index: Index) -> None:
    table = TABLE.append_column("weather", pa.array(["fine"] * len(TABLE)))

    assert answers(index, table.select(["weather", "ranges", "topics"])) == EXPECTED


@pytest.mark.parametrize("text", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
def test_written_events_of_any_text_type(text: pa.DataType, engine: EngineName) -> None:
    written = pa.array(["surf/price=0.1000000000000000000001", "price=0.1"], text)
    index = filled({1: "surf", 2: "price[0.1,0.2]", 3: "price[,0.1]"}, engine)

    assert answers(index, pa.table({"event": written})) == [[1, 2], [2, 3]]
    encoded = pa.table({"event": written.cast(pa.string()).dictionary_encode()})
    assert answers(index, encoded) == [[1, 2], [2, 3]]


def test_written_events_have_as_many_attributes_as_they_have(engine: EngineName) -> None:
    event = "/".join(f"n{number}" for number in range(100))

    assert answers(filled({1: "n7/n99"}, engine), pa.table({"event": [event]})) == [[1]]


@needs_native
def test_very_many_keys_come_in_chunks() -> None:
    filters = {key: Predicate.parse("surf") for key in range(4000)}
    filters |= {4000 + key: Predicate.of({"price": (key, None)}) for key in range(400)}
    index = filled(filters, "native")
    rows = [f"surf/price={number}" if number % 3 else f"price={number}" for number in range(800)]
    table = table_of([Predicate.parse(row) for row in rows])

    result = index.match_table(table)
    assert sum(map(len, result.to_pylist())) > 2 * 2**20
    assert result.num_chunks > 2
    for number, keys in enumerate(result.to_pylist()):
        expected = [*range(4000 if number % 3 else 0), *range(4000, 4000 + min(number + 1, 400))]
        assert sorted(keys) == expected


@needs_native
def test_a_result_outlives_its_index_and_its_table() -> None:
    index = filled({1: "surf", 2: "surf"}, "native")
    result = index.match_table(table_of([Predicate.parse("surf")] * 100))
    index.remove(1)
    index.match_table(table_of([Predicate.parse("beach")] * 100))
    del index

    assert [sorted(keys) for keys in result.to_pylist()] == [[1, 2]] * 100
    result.validate(full=True)
