"""The components of a union of intervals, against a sweep over all of them."""

from hypothesis import given, settings
from hypothesis import strategies as st

from smartpubsub.matching.interval_union import IntervalUnion
from smartpubsub.predicates import Interval
from tests.matching.strategies import REPEATABLE


def swept(intervals: list[Interval]) -> list[Interval]:
    components: list[Interval] = []
    for interval in sorted(intervals):
        if components and components[-1].touches(interval):
            components[-1] = components[-1].hull(interval)
        else:
            components.append(interval)
    return components


bounds = st.integers(0, 40).map(float)
intervals = st.tuples(bounds, bounds).map(lambda pair: Interval(min(pair), max(pair)))


@settings(REPEATABLE, max_examples=300)
@given(st.lists(st.tuples(intervals, st.integers(0, 100)), max_size=60))
def test_components_are_those_of_a_sweep(changes: list[tuple[Interval, int]]) -> None:
    union = IntervalUnion()
    present: list[Interval] = []
    told: list[Interval] = []
    for interval, choice in changes:
        if choice % 2 or not present:
            present.append(interval)
            removed, added = union.add(interval)
        else:
            removed, added = union.remove(present.pop(choice % len(present)))
        for component in removed:
            told.remove(component)
        told += added
        assert sorted(told) == swept(present) == union.components()
        assert union.touched(interval) == sum(map(interval.touches, told))


@settings(REPEATABLE, max_examples=300)
@given(
    st.lists(intervals, max_size=3),
    st.lists(st.tuples(st.integers(0, 200), st.sampled_from([-1, 1]), st.integers(1, 30))),
)
def test_intervals_that_come_and_go_at_once_leave_nothing(
    lasting: list[Interval], runs: list[tuple[int, int, int]]
) -> None:
    """Their bounds make a branch of the tree deep, and none of them is in use any more."""
    union = IntervalUnion()
    for interval in lasting:
        union.add(interval)
    for start, step, count in runs:
        for number in range(start, start + step * count, step):
            point = Interval(float(number), float(number))
            union.add(point)
            union.remove(point)
            assert union.components() == swept(lasting)


def test_bounds_in_any_order_keep_the_tree_shallow() -> None:
    union = IntervalUnion()
    union.add(Interval(-1.0, -1.0))
    union.add(Interval(-1.0, -1.0))
    union.remove(Interval(-1.0, -1.0))  # From the first removal on, there is a tree.
    for step in range(4_000):
        union.add(Interval(float(step), float(step)))

    assert len(union._path_to(3_999.0)) <= 30

    for step in range(3_900):
        union.remove(Interval(float(step), float(step)))
    assert len(union.components()) == 101
    assert len(union._path_to(3_999.0)) <= 20
    assert union._root.size <= 300
