"""Names of any script and length, and as many in one filter as a reader lets through."""

from pathlib import Path

import pytest

from smartpubsub.matching import Index
from smartpubsub.matching.index import EngineName
from smartpubsub.predicates import Predicate
from tests.matching.engines import INSTALLED
from tests.matching.oracle import Oracle, check, filled
from tests.matching.tables import answers, table_of

LONG = "x" * 1024
NAMES = [
    "a",
    "ab",
    "abcdefg",
    "abcdefgh",
    "abcdefghi",
    "são paulo/sp",
    "e\u0301",
    "\u00e9",
    "日本語",
    "🏄",
    "null\0inside",
    "null\0",
    "line\nbreak",
    "next\x85line",
    "separator\u2028",
    " ",
    "%41",
    "[1,2]",
    LONG,
    LONG[:-1],
    LONG[:-1] + "y",
]


def test_names_are_told_apart(engine: EngineName, tmp_path: Path) -> None:
    filters = Oracle()
    for number, name in enumerate(NAMES):
        filters[number] = Predicate.of({name: True})
        filters[100 + number] = Predicate.of({name: (0, number)})
        filters[200 + number] = Predicate.of({name: True, "other": (0, 1)})
    events = [Predicate.of({name: number}) for number, name in enumerate(NAMES)]
    events += [Predicate.of({name: True, "other": 1}) for name in NAMES]
    events += [Predicate.of({name + "z": 0}) for name in NAMES[:5]]
    index = filled(filters, engine)

    check(index, filters, events)
    assert answers(index, table_of(events)) == [filters.match(event) for event in events]
    index.save(tmp_path / "index")
    for other in INSTALLED:
        check(Index.load(tmp_path / "index", other), filters, events)


def test_names_that_no_filter_has_change_nothing(engine: EngineName) -> None:
    index = filled({1: "surf/price[1,2]"}, engine)
    strangers = {f"stranger-{number}": number for number in range(500)}
    event = Predicate.of({"surf": True, "price": 1, **strangers}, attributes_max=1000)

    assert index.match(event) == [1]
    assert answers(index, table_of([event])) == [[1]]
    assert index.covering(event) == [1]
    assert index.covered_by(event) == []
    assert index.covered_by("stranger-1") == []


@pytest.mark.parametrize(("topics", "ranges"), [(40, 0), (0, 40), (40, 40), (1, 40), (40, 1)])
def test_wide_filters(topics: int, ranges: int, engine: EngineName, tmp_path: Path) -> None:
    width = topics + ranges
    attributes: dict[str, object] = {f"t{number}": True for number in range(topics)}
    attributes |= {f"r{number}": (number, number + 10) for number in range(ranges)}
    event = attributes | {f"r{number}": number + 5 for number in range(ranges)}
    oracle = Oracle({0: Predicate.of(attributes, attributes_max=width)})
    events = [Predicate.of(event, attributes_max=width)]
    for key, left_out in enumerate(attributes, 1):
        some = {name: value for name, value in attributes.items() if name != left_out}
        oracle[key] = Predicate.of(some, attributes_max=width)
        events.append(Predicate.of({**event, left_out: -1}, attributes_max=width))
    index = filled(oracle, engine)

    check(index, oracle, events)
    index.compact()
    check(index, oracle, events)
    index.save(tmp_path / "index")
    for other in INSTALLED:
        check(Index.load(tmp_path / "index", other), oracle, events)


def test_no_filter_has_too_many_attributes(engine: EngineName, tmp_path: Path) -> None:
    names = [f"n{number}" for number in range(66_000)]
    widest = Predicate.unchecked(dict.fromkeys(names))
    index = filled({1: widest, 2: "n1/n2"}, engine)

    assert sorted(index.match(widest)) == [1, 2]
    assert index.match(Predicate.unchecked(dict.fromkeys(names[:-1]))) == [2]
    assert sorted(index.covered_by("n1")) == [1, 2]
    index.save(tmp_path / "index")
    assert sorted(Index.load(tmp_path / "index", engine).match(widest)) == [1, 2]
    index.remove(1)
    assert index.match(widest) == [2]
