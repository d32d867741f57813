"""Large indexes answer as every filter by itself would, whatever part of them is crowded."""

from pathlib import Path
from random import Random

import pytest

from smartpubsub.matching import Index
from smartpubsub.matching.index import EngineName
from smartpubsub.predicates import Interval, Predicate
from tests.matching.crowds import CROWDS, Make, event, few_topics, one_topic_and_ranges
from tests.matching.engines import needs_native
from tests.matching.oracle import Oracle, check, check_content, filled
from tests.matching.tables import answers, table_of

FILTERS = 1600


def questions(rng: Random, count: int) -> list[Predicate]:
    return [event(rng) for _ in range(count)]


def add_many(make: Make, rng: Random, index: Index, oracle: Oracle, count: int) -> None:
    for key in rng.sample(range(-(2**40), 2**40), count):
        predicate = make(rng)
        index.add(key, predicate)
        oracle[key] = predicate


def remove_many(rng: Random, index: Index, oracle: Oracle, count: int) -> None:
    for key in rng.sample(sorted(oracle), count):
        index.remove(key)
        del oracle[key]


@pytest.mark.parametrize("make", CROWDS)
def test_a_crowd_that_comes_and_goes(make: Make, engine: EngineName, tmp_path: Path) -> None:
    rng = Random(make.__name__)
    index, oracle = Index(engine), Oracle()

    add_many(make, rng, index, oracle, FILTERS)
    check(index, oracle, [*questions(rng, 15), *(make(rng) for _ in range(10))])
    rows = questions(rng, 15)
    assert answers(index, table_of(rows)) == [oracle.match(row) for row in rows]

    remove_many(rng, index, oracle, FILTERS // 2)
    add_many(make, rng, index, oracle, FILTERS // 4)
    check(index, oracle, [*questions(rng, 10), *(make(rng) for _ in range(5))])

    index.compact()
    check(index, oracle, questions(rng, 10))
    index.save(tmp_path / "index")
    index = Index.load(tmp_path / "index", engine)
    remove_many(rng, index, oracle, FILTERS // 4)
    add_many(make, rng, index, oracle, FILTERS // 2)
    check(index, oracle, questions(rng, 10))

    remove_many(rng, index, oracle, len(oracle))
    check(index, oracle, questions(rng, 3))
    add_many(make, rng, index, oracle, 200)
    check(index, oracle, questions(rng, 5))


@pytest.mark.parametrize("order", ["ascending", "descending", "outside in"])
def test_ranges_added_in_an_order(order: str, engine: EngineName) -> None:
    numbers = list(range(2000))
    if order == "descending":
        numbers.reverse()
    if order == "outside in":
        numbers.sort(key=lambda number: -abs(number - 1000))
    index, oracle = Index(engine), Oracle()
    for number in numbers:
        oracle[number] = Predicate.of({"r0": (number, number + 3)})
        index.add(number, oracle[number])
    points = [Predicate.of({"r0": number}) for number in (-1, 0, 1, 511, 512, 1000.5, 2002, 2003)]

    check(index, oracle, points)
    for number in numbers[:1990]:
        index.remove(number)
        del oracle[number]
    check(index, oracle, points)


@needs_native
def test_many_filters_of_few_topics_divide_by_further_topics() -> None:
    rng = Random(7)
    filters = Oracle({key: few_topics(rng) for key in range(30_000)})
    native, python = filled(filters, "native"), filled(filters, "python")
    for share in (0, 25_000):
        for key in range(share):
            native.remove(key)
            python.remove(key)
            del filters[key]
        for question in [*questions(rng, 12), few_topics(rng)]:
            assert sorted(native.match(question)) == sorted(python.match(question))
            assert native.match_any(question) == python.match_any(question)
        for _ in range(6):
            wanted = few_topics(rng)
            assert sorted(native.covered_by(wanted)) == sorted(python.covered_by(wanted))
    check_content(native, filters)


def same_topics(first_key: int, prefix: str) -> dict[int, Predicate]:
    """So many filters of the same three topics that nodes divide down to the last topic."""
    topics: dict[str, Interval | None] = {f"{prefix}{number}": None for number in range(3)}
    return {
        first_key + number: Predicate.unchecked({**topics, "r0": Interval(0.0, float(number % 9))})
        for number in range(27_000)
    }


def check_same_topics(index: Index, oracle: Oracle) -> None:
    everything = "t0/t1/t2/v0/v1/v2/r0=7"
    for text in ["t0/t1/t2/r0=8", "t0/t1/r0=1", "v0/v1/v2/r0=8", "v0/v2/r0=1", everything]:
        event = Predicate.parse(text, attributes_max=7)
        assert sorted(index.match(event)) == oracle.match(event)


@needs_native
def test_nodes_divide_below_nodes_and_go_again(tmp_path: Path) -> None:
    oracle = Oracle(same_topics(0, "t"))
    oracle |= {-1 - number: Predicate.parse(f"t{number}") for number in range(3)}
    index = filled(oracle, "native")
    check_same_topics(index, oracle)
    index.save(tmp_path / "index")
    check_same_topics(Index.load(tmp_path / "index", "native"), oracle)

    for key in range(27_000):
        index.remove(key)
        del oracle[key]
    check_same_topics(index, oracle)
    for prefix in "vt":
        for key, predicate in same_topics(100_000 + ord(prefix) * 100_000, prefix).items():
            index.add(key, predicate)
            oracle[key] = predicate
        check_same_topics(index, oracle)


@needs_native
def test_random_steps_from_empty_to_full_and_back() -> None:
    rng = Random(11)
    native, oracle = Index("native"), Oracle()
    for growing in (True, False, True, False):
        for _ in range(12):
            make = rng.choice([*CROWDS, few_topics, one_topic_and_ranges])
            add_many(make, rng, native, oracle, 130 if growing else 20)
            leaving = len(oracle) // 10 if growing else len(oracle) // 3
            remove_many(rng, native, oracle, leaving)
            for question in questions(rng, 3):
                assert sorted(native.match(question)) == oracle.match(question)
            wanted = make(rng)
            assert sorted(native.covered_by(wanted)) == oracle.covered_by(wanted)
        remove_many(rng, native, oracle, len(oracle) if not growing else 0)
    assert len(native) == 0
