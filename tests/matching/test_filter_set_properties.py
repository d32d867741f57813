"""A summary lets through what its members want, is as short as can be, and is kept up to date."""

from itertools import permutations
from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from smartpubsub.matching import FilterSet
from smartpubsub.matching import index as index_module
from smartpubsub.predicates import Interval, Predicate
from smartpubsub.predicates.numbers import Number, number_from
from tests.matching.strategies import REPEATABLE, intervals, predicates

VALUES: list[Number] = [
    *map(float, range(6)),
    2.5,
    number_from("2.00000000000000000001"),
    number_from("1e400"),
]
NAMES = ["surf", "price", "temp"]

values = st.sampled_from(VALUES)
members = predicates(NAMES, intervals(values), size_max=3)
points = predicates(NAMES, values.map(lambda number: Interval(number, number)), size_max=3)


class Replayed:
    """A set of filters, its members, and its summary as the changes tell it."""

    def __init__(self) -> None:
        self.filters = FilterSet()
        self.members: dict[int, Predicate] = {}
        self.told: set[Predicate] = set()

    def add(self, key: int, predicate: Predicate) -> None:
        self.filters.add(key, predicate)
        self.members[key] = predicate

    def remove(self, key: int) -> None:
        self.filters.remove(key)
        del self.members[key]

    def check_changes(self) -> None:
        added, removed = self.filters.changes()
        assert len(set(added)) == len(added)
        assert len(set(removed)) == len(removed)
        assert set(removed) <= self.told
        assert not set(added) & self.told
        self.told = self.told - set(removed) | set(added)
        assert self.told == set(self.filters.summary())

    def check_point(self, event: Predicate) -> None:
        wanted = any(member.matches(event) for member in self.members.values())
        assert self.filters.matches(event) == wanted

    def check_interval(self, event: Predicate) -> None:
        if any(member.matches(event) for member in self.members.values()):
            assert self.filters.matches(event)

    def check_summary(self) -> None:
        summary = self.filters.summary()
        assert len(self.filters) == len(self.members)
        assert bool(summary) == bool(self.members)
        for member in self.members.values():
            assert any(predicate.covers(member) for predicate in summary)
        for one, other in permutations(summary, 2):
            assert not one.covers(other)
            # With several ranges, merging along one can make room for another merge along another.
            assert one.merge(other) is None or range_count(one) > 1
        for predicate in summary:
            self.check_point(lowest_point(predicate))


def range_count(predicate: Predicate) -> int:
    return sum(interval is not None for interval in predicate.attributes.values())


def lowest_point(predicate: Predicate) -> Predicate:
    """The point event that a filter matches with nothing to spare."""
    attributes: dict[str, Interval | None] = {}
    for name, interval in predicate.attributes.items():
        if interval is None:
            attributes[name] = None
        else:
            bound = next((one for one in interval if one not in (float("-inf"), float("inf"))), 0.0)
            attributes[name] = Interval(bound, bound)
    return Predicate.unchecked(attributes)


class FilterSets(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.replayed = Replayed()
        self.next_key = 0

    @rule(predicate=members)
    def add(self, predicate: Predicate) -> None:
        self.replayed.add(self.next_key, predicate)
        self.next_key += 1

    @precondition(lambda self: self.replayed.members)
    @rule(data=st.data())
    def add_again(self, data: st.DataObject) -> None:
        self.add(data.draw(st.sampled_from(list(self.replayed.members.values()))))

    @precondition(lambda self: self.replayed.members)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        self.replayed.remove(data.draw(st.sampled_from(list(self.replayed.members))))

    @rule()
    def changes(self) -> None:
        self.replayed.check_changes()

    @rule(event=points)
    def point(self, event: Predicate) -> None:
        self.replayed.check_point(event)

    @rule(event=members)
    def interval(self, event: Predicate) -> None:
        self.replayed.check_interval(event)

    @invariant()
    def summary_is_short_and_complete(self) -> None:
        self.replayed.check_summary()


TestFilterSets = FilterSets.TestCase
TestFilterSets.settings = settings(REPEATABLE, max_examples=150, stateful_step_count=30)


def random_member(rng: Random) -> Predicate:
    names = rng.sample(NAMES, rng.randint(1, 3))
    attributes: dict[str, Interval | None] = {}
    for name in names:
        lo = rng.randrange(200)
        hi = lo + rng.randrange(8)
        attributes[name] = rng.choice([Interval(float(lo), float(hi))] * 9 + [None])
    attributes[f"topic-{rng.randrange(8)}"] = None
    return Predicate.unchecked(attributes)


@pytest.mark.parametrize("switch_above", [0, 40, 10_000])
def test_large_sets(switch_above: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "NATIVE_FILTERS_MIN", switch_above)
    rng = Random(switch_above)
    replayed = Replayed()
    for key in range(400):
        replayed.add(key, random_member(rng))
    for step in range(4):
        replayed.check_changes()
        replayed.check_summary()
        for key in rng.sample(sorted(replayed.members), 100):
            replayed.remove(key)
        for key in range(1000 * (step + 1), 1000 * (step + 1) + 60):
            replayed.add(key, random_member(rng))
    for key in list(replayed.members):
        replayed.remove(key)
    replayed.check_changes()
    assert replayed.filters.summary() == []
    assert replayed.told == set()


def test_the_order_of_coming_and_going_is_no_matter_for_what_matches() -> None:
    rng = Random(3)
    kept = {key: random_member(rng) for key in range(80)}
    gone = {key: random_member(rng) for key in range(100, 180)}
    everyone = [*kept.items(), *gone.items()]
    for _ in range(4):
        rng.shuffle(everyone)
        replayed = Replayed()
        for key, predicate in everyone:
            replayed.add(key, predicate)
        for key in rng.sample(sorted(gone), len(gone)):
            replayed.remove(key)
        assert replayed.members.keys() == kept.keys()
        replayed.check_changes()
        replayed.check_summary()
