"""How a set of filters is summarised: examples."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from smartpubsub.bench.adversarial import SEQUENCES, Step
from smartpubsub.matching import Changes, FilterSet, Index
from smartpubsub.predicates import Predicate

OPERATIONS_MAX = 30
"""Operations on the index that a change may need on average."""


def filter_set(*texts: str) -> FilterSet:
    filters = FilterSet()
    for key, text in enumerate(texts):
        filters.add(key, text)
    return filters


def summary(filters: FilterSet) -> list[str]:
    return sorted(str(predicate.canonical()) for predicate in filters.summary())


def changes(filters: FilterSet) -> tuple[list[str], list[str]]:
    added, removed = filters.changes()
    return sorted(map(str, added)), sorted(map(str, removed))


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ([], []),
        (["surf"], ["surf"]),
        (["surf", "surf"], ["surf"]),
        (["surf", "beach"], ["beach", "surf"]),
        (["surf/beach", "surf"], ["surf"]),
        (["surf", "surf/beach"], ["surf"]),
        (["price=1", "price"], ["price"]),
        (["price[,]", "price"], ["price"]),
        (["price[1,2]", "price[2,3]"], ["price[1,3]"]),
        (["price[1,2]", "price[2.1,3]"], ["price[1,2]", "price[2.1,3]"]),
        (["price[1,2]", "price[3,4]", "price[2,3]"], ["price[1,4]"]),
        (["price[,2]", "price[1,]"], ["price[,]"]),
        (["price=1", "price=1.0"], ["price=1"]),
        (["price[1,2]", "temp[1,2]"], ["price[1,2]", "temp[1,2]"]),
        (["surf/price[1,2]", "price[2,3]"], ["price[1,2]/surf", "price[2,3]"]),
        (["a[0,1]/b[0,1]", "a[1,2]/b[1,2]"], ["a[0,1]/b[0,1]", "a[1,2]/b[1,2]"]),
        (["a[0,1]/b[0,1]", "b[0,1]/a[1,2]"], ["a[0,2]/b[0,1]"]),
        (["a[0,1]/b[0,1]", "a[1,2]/b[0,1]", "a[0,2]/b[1,3]"], ["a[0,2]/b[0,3]"]),
        (["x[1,2]", "x[3,4]", "x[5,6]", "x[0,9]"], ["x[0,9]"]),
        (["x[0,0.1]", "x[0.1000000000000000000001,1]"], 2),
        (["x[0,0.1000000000000000000001]", "x[0.1000000000000000000001,1]"], ["x[0,1]"]),
        (["x[1e400,2e400]", "x[2e400,]", "x[,1e400]"], ["x[,]"]),
    ],
)
def test_summaries(members: list[str], expected: list[str] | int) -> None:
    filters = filter_set(*members)

    assert len(filters) == len(members)
    if isinstance(expected, int):
        assert len(filters.summary()) == expected
    else:
        assert summary(filters) == expected


def test_what_a_removed_member_covered_is_exposed_again() -> None:
    filters = filter_set("surf/price[1,2]", "surf/beach", "surf", "price")
    assert summary(filters) == ["price", "surf"]

    filters.remove(2)
    assert summary(filters) == ["beach/surf", "price"]
    filters.remove(3)
    assert summary(filters) == ["beach/surf", "price[1,2]/surf"]


def test_a_merged_filter_comes_apart() -> None:
    filters = filter_set("price[1,2]", "price[2,3]", "price[3,4]")
    assert summary(filters) == ["price[1,4]"]

    filters.remove(1)
    assert summary(filters) == ["price[1,2]", "price[3,4]"]


def test_one_of_two_equal_members_is_enough() -> None:
    filters = filter_set("surf", "surf", "surf/beach")
    filters.changes()
    filters.remove(0)

    assert summary(filters) == ["surf"]
    assert filters.changes() == Changes([], [])
    filters.remove(1)
    assert changes(filters) == (["surf/beach"], ["surf"])


def test_a_member_equal_to_a_merged_filter_keeps_it() -> None:
    filters = filter_set("price[1,2]", "price[2,3]", "price[1,3]")
    filters.changes()
    filters.remove(0)
    filters.remove(1)

    assert summary(filters) == ["price[1,3]"]
    assert filters.changes() == Changes([], [])


def test_changes_tell_the_difference_since_they_were_last_asked() -> None:
    filters = filter_set("price[1,2]", "price[3,4]")

    assert changes(filters) == (["price[1,2]", "price[3,4]"], [])
    filters.add(2, "price[2,3]")
    assert changes(filters) == (["price[1,4]"], ["price[1,2]", "price[3,4]"])
    filters.add(3, "price[1.5,1.6]")
    assert changes(filters) == ([], [])
    filters.add(4, "surf")
    filters.remove(4)
    assert changes(filters) == ([], [])


def test_the_oldest_filters_come_first() -> None:
    filters = filter_set("c", "a", "b", "d/e", "d")

    assert [str(predicate) for predicate in filters.summary()] == ["c", "a", "b", "d"]


def test_matches_asks_the_summary() -> None:
    filters = filter_set("price[1,2]", "price[2,3]")

    assert filters.matches("price=2")
    assert filters.matches(Predicate.parse("surf/price[1.5,2.5]"))
    assert not filters.matches("price=3.5")
    assert not FilterSet().matches("price=2")


def test_keys_in_use_and_unknown_keys_are_refused() -> None:
    filters = filter_set("surf")

    with pytest.raises(ValueError, match="key 0 is in the set already"):
        filters.add(0, "beach")
    with pytest.raises(KeyError):
        filters.remove(1)
    assert (0 in filters, 1 in filters) == (True, False)
    assert summary(filters) == ["surf"]


def test_a_filter_that_cannot_be_read_leaves_no_trace() -> None:
    filters = FilterSet()

    with pytest.raises(ValueError, match="column"):
        filters.add(1, "surf/")
    assert (len(filters), 1 in filters, filters.summary()) == (0, False, [])


def test_members_alike_are_never_compared_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> list[int]:
        raise AssertionError("looked through all filters of the same shape")

    monkeypatch.setattr(Index, "covered_by", refuse)
    filters = FilterSet()
    for key in range(2_000):
        filters.add(key, f"surf/price[{key},{key + 1}]")
    for key in range(2_000, 3_000):
        filters.add(key, f"surf/price={10 * key}")

    assert len(filters.summary()) == 1_001
    filters.remove(1_000)
    assert {"surf/price[0,1000]", "surf/price[1001,2000]"} <= set(map(str, filters.summary()))


@pytest.mark.parametrize("key", [1.5, "1", None])
def test_key_that_is_no_integer_is_refused(key: object) -> None:
    for kept in (FilterSet(), Index()):
        with pytest.raises(TypeError):
            kept.add(key, "surf")  # type: ignore[arg-type]
        assert len(kept) == 0


@pytest.mark.parametrize("sequence", SEQUENCES, ids=lambda sequence: sequence.__name__)
def test_no_sequence_of_changes_costs_more_than_a_few_steps_each(
    sequence: Callable[[int], Iterator[Step]], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert operations_each(sequence(200), monkeypatch) < OPERATIONS_MAX
    assert operations_each(sequence(800), monkeypatch) < OPERATIONS_MAX


def operations_each(steps: Iterator[Step], monkeypatch: pytest.MonkeyPatch) -> float:
    """The operations on the index, for each change."""
    operations = 0

    def counted(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            nonlocal operations
            operations += 1
            return method(*arguments)

        return call

    filters = FilterSet()
    change_count = 0
    with monkeypatch.context() as patches:
        for name in ("add", "remove", "covering", "covered_by"):
            patches.setattr(Index, name, counted(getattr(Index, name)))
        for step in steps:
            step.apply(filters)
            change_count += 1
    return operations / change_count


def test_after_costly_changes_the_summary_is_correct_and_becomes_short_again() -> None:
    filters = FilterSet()
    for key in range(2_000):
        filters.add(key, f"surf/price={2 * key}")
    for key in range(5_000, 5_100):  # More than the changes so far pay for.
        filters.add(key, "surf")
        assert filters.matches("surf/price=1")
        filters.remove(key)
        assert filters.matches("surf/price=3998")
        assert not filters.matches("surf/price=1")
    filters.add(0 - 1, "surf")
    assert len(filters.summary()) > 1

    for key in range(2_000):  # The broad filter stays; changes that have nothing to do with it pay.
        filters.add(10_000 + key, "beach")
    assert summary(filters) == ["beach", "surf"]
