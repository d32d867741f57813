"""The generated workloads are what they are said to be, and the same for everyone."""

import numpy as np
import pytest

from smartpubsub.bench.workloads import (
    ATTRIBUTE_COUNT,
    W1,
    W2,
    Workload,
    events,
    predicates_in_parts,
    subscriptions,
)
from smartpubsub.matching import Index
from smartpubsub.matching.tables import events_of


@pytest.mark.parametrize("workload", [W1, W2], ids=lambda workload: workload.name)
def test_subscriptions_have_distinct_topics_in_the_promised_number(workload: Workload) -> None:
    for topics in subscriptions(workload, 2_000, seed=3).topics:
        used = topics[topics >= 0]
        assert workload.topics_min <= len(used) <= workload.topics_max
        assert len(set(used)) == len(used)


def test_ranges_lie_in_the_unit_interval_with_the_promised_widths() -> None:
    found = subscriptions(W1, 2_000, seed=3)
    used = found.attributes >= 0

    assert set(used.sum(axis=1)) == {0, 1, 2, 3}
    assert (found.los[used] >= 0).all()
    assert (found.his[used] <= 1).all()
    widths = (found.his - found.los)[used]
    assert widths.min() == pytest.approx(0.05, abs=0.01)
    assert widths.max() == pytest.approx(0.5, abs=0.01)


def test_two_fifths_of_an_events_values_are_absent_and_a_tenth_carry_intervals() -> None:
    found = events(4_000, seed=3)

    assert np.isnan(found.los).mean() == pytest.approx(0.4, abs=0.01)
    assert (np.nanmax(found.his - found.los, axis=1) > 0).mean() == pytest.approx(0.1, abs=0.02)
    assert found.los.shape[1] == ATTRIBUTE_COUNT


@pytest.mark.parametrize(
    ("workload", "percent", "tolerance"), [(W1, 0.12, 0.03), (W2, 0.002, 0.001)]
)
def test_share_that_matches(workload: Workload, percent: float, tolerance: float) -> None:
    count = 20_000
    index = Index()
    for key, predicate in enumerate(subscriptions(workload, count, seed=5).predicates()):
        index.add(key, predicate)
    carried = events(1_000, seed=5).predicates()

    matches = sum(len(index.match(event)) for event in carried)

    assert 100 * matches / (count * len(carried)) == pytest.approx(percent, abs=tolerance)


def test_table_holds_the_same_events_as_the_predicates() -> None:
    found = events(50, seed=7)

    assert list(events_of(found.table())) == found.predicates()


def test_same_seed_gives_the_same_workload_and_another_seed_another() -> None:
    first, again, other = (list(subscriptions(W1, 50, seed).predicates()) for seed in (1, 1, 2))

    assert first == again
    assert first != other


def test_parts_make_up_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("smartpubsub.bench.workloads.PART_COUNT", 30)

    found = list(predicates_in_parts(W1, 70, seed=1))

    assert len(found) == 70
    assert found[:30] == list(subscriptions(W1, 30, seed=1).predicates())
