"""Filters that come and go leave nothing behind."""

from random import Random

import pytest

from smartpubsub.matching import Index
from smartpubsub.predicates import Predicate
from tests.matching.crowds import many_topics
from tests.matching.engines import needs_native

pytestmark = needs_native

LIVE = 1500


def newcomer(number: int) -> Predicate:
    """A filter with names that no other filter ever had."""
    return Predicate.of({f"topic-{number}": True, f"range-of-a-longer-name-{number}": (0, number)})


@pytest.mark.parametrize("asks", [False, True], ids=["match only", "covered_by too"])
def test_memory_stays_bounded_with_ever_new_names_and_keys(asks: bool) -> None:
    index = Index("native")
    for key in range(LIVE):
        index.add(key, newcomer(key))
    if asks:
        assert index.covered_by("topic-3") == [3]
    sizes = []
    for number in range(LIVE, 12 * LIVE):
        index.remove(number - LIVE)
        index.add(number, newcomer(number))
        if number % LIVE == LIVE - 1:
            sizes.append(index.memory_bytes)
    assert index.match(f"topic-{number}/range-of-a-longer-name-{number}=1") == [number]
    assert index.match("topic-3/range-of-a-longer-name-3=1") == []
    assert max(sizes) <= 1.3 * sizes[0]


def test_what_covered_by_looks_up_forgets_keys_that_come_back_with_other_names() -> None:
    names = [f"n{number}" for number in range(60)]
    sizes = []
    for asks in (False, True):
        index = Index("native")
        for number, name in enumerate(names):
            index.add(-1 - number, name)
        if asks:
            assert index.covered_by(names[0]) == [-1]
        for name in names:
            for key in range(LIVE):
                if key in index:
                    index.remove(key)
                index.add(key, name)
        sizes.append(index.memory_bytes)
    assert len(index.covered_by(names[-1])) == LIVE + 1
    assert index.covered_by(names[1]) == [-2]
    assert sizes[1] - sizes[0] < 8 * 8 * LIVE


def test_memory_stays_bounded_with_filters_of_all_sizes() -> None:
    rng = Random(5)
    index = Index("native")
    sizes = []
    for number in range(20 * LIVE):
        if number >= LIVE:
            index.remove(number - LIVE)
        index.add(number, many_topics(rng))
        if number % LIVE == LIVE - 1:
            sizes.append(index.memory_bytes)
    assert max(sizes) <= 2 * sizes[1]


def test_an_index_emptied_and_filled_again_needs_no_more_memory() -> None:
    index = Index("native")
    sizes = []
    for _ in range(5):
        rng = Random(5)
        for key in range(4000):
            index.add(key, many_topics(rng))
        sizes.append(index.memory_bytes)
        for key in range(4000):
            index.remove(key)
        assert len(index) == 0
        assert not index.match_any("t0/t1/t2/r0=3/r1=3")
    assert max(sizes) <= 1.3 * sizes[0]


def test_compacting_takes_less_memory() -> None:
    rng = Random(5)
    index = Index("native")
    for key in range(8000):
        index.add(key, many_topics(rng))
    for key in range(7000):
        index.remove(key)
    before = index.memory_bytes
    index.compact()
    assert index.memory_bytes < before / 2
