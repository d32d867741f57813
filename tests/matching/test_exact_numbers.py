"""Numbers are exact decimals, also between and beyond the floats."""

from itertools import product
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from smartpubsub.matching import Index
from smartpubsub.matching.index import EngineName
from smartpubsub.predicates import Predicate
from tests.matching.engines import INSTALLED
from tests.matching.oracle import Oracle, check, filled
from tests.matching.strategies import REPEATABLE, events, filters, float_events, is_exact
from tests.matching.tables import answers, table_of, written_table_of

NEIGHBOURS = [
    ["0.1", "0.1000000000000000000001", "0.1000000000000000000002", "0.10000000000000002"],
    ["0", "1e-400", "3e-324", "5e-324", "7e-324", "1e-323"],
    ["-1e-323", "-5e-324", "-3e-324", "-1e-400", "0"],
    ["1.7976931348623157e308", "1.7976931348623158e308", "1e309", "1e400"],
    ["-1e400", "-1e309", "-1.7976931348623158e308", "-1.7976931348623157e308"],
    ["9007199254740992", "9007199254740993", "9007199254740994"],
    ["9223372036854775807", "9223372036854775808", "9223372036854776000"],
    ["36028797018963968", "36028797018963970", "36028797018963972"],
    ["123456789012345678901234567889", "123456789012345678901234567890", "1e30"],
]


@pytest.mark.parametrize("written", NEIGHBOURS)
def test_neighbouring_numbers_are_told_apart(
    written: list[str], engine: EngineName, tmp_path: Path
) -> None:
    pairs = [f"x[{lo},{hi}]" for lo, hi in product(["", *written], [*written, ""])]
    oracle = Oracle()
    for text in pairs:
        try:
            oracle[len(oracle)] = Predicate.parse(text)
        except ValueError:
            continue  # The lower bound is the larger one.
    asked = [*oracle.values(), *(Predicate.parse(f"x={number}") for number in written)]
    index = filled(oracle, engine)

    check(index, oracle, asked)
    assert answers(index, written_table_of(asked)) == [oracle.match(event) for event in asked]
    floats = [event for event in asked if not is_exact(event)]
    assert answers(index, table_of(floats)) == [oracle.match(event) for event in floats]
    index.save(tmp_path / "index")
    for other in INSTALLED:
        check(Index.load(tmp_path / "index", other), oracle, asked)


@given(st.lists(filters, max_size=12), st.lists(events, max_size=6))
@settings(REPEATABLE, max_examples=150)
def test_any_filters_and_events(wanted: list[Predicate], asked: list[Predicate]) -> None:
    oracle = Oracle(enumerate(wanted))
    for engine in INSTALLED:
        check(filled(oracle, engine), oracle, asked + wanted)


@given(st.lists(filters, max_size=8), st.lists(float_events, max_size=6))
@example([Predicate.parse("price[0.1,]")], [Predicate.parse("price=0.1")])
@settings(REPEATABLE, max_examples=100)
def test_any_filters_and_tables(wanted: list[Predicate], asked: list[Predicate]) -> None:
    oracle = Oracle(enumerate(wanted))
    expected = [oracle.match(event) for event in asked]
    for engine in INSTALLED:
        index = filled(oracle, engine)
        assert answers(index, table_of(asked)) == expected
        assert answers(index, written_table_of(asked)) == expected


@given(st.floats(allow_nan=False, allow_infinity=False))
@example(2.0**63)
@example(1e23)
@settings(REPEATABLE, max_examples=300)
def test_every_float_comes_back_from_a_file(
    tmp_path_factory: pytest.TempPathFactory, number: float
) -> None:
    path = tmp_path_factory.getbasetemp() / "float"
    filters = {1: Predicate.of({"x": number}), 2: Predicate.of({"x": (number, None)})}
    for saving, loading in product(INSTALLED, INSTALLED):
        filled(filters, saving).save(path)
        assert dict(Index.load(path, loading).items()) == filters
