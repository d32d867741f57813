"""The faults of a soak are all from the seed, and never more than the protocols promise to bear."""

from random import Random

import pytest

from smartpubsub.testbed.soak.plan import CALM_S, REPAIR_S, STORMY_S, Fault, Kind, Plan

LENGTH_S = 4 * (STORMY_S + CALM_S)


def planned(
    seed: int, nodes: int = 10, backups: int = 2, without: tuple[Kind, ...] = ()
) -> list[tuple[float, Fault]]:
    """The faults of a soak in which every node is free when its fault is over."""
    plan = Plan(Random(seed), nodes, backups, without)
    faults: list[tuple[float, Fault]] = []
    busy_until = dict.fromkeys(range(nodes), 0.0)
    at_s = 0.0
    while (at_s := at_s + plan.gap_s()) < LENGTH_S:
        free = {node: None for node, until_s in busy_until.items() if until_s <= at_s}
        fault = plan.next(at_s, LENGTH_S - at_s, free.__contains__)
        if fault is not None:
            faults.append((at_s, fault))
            busy_until[fault.node] = at_s + fault.for_s
    return faults


def test_a_seed_gives_the_same_faults_again_and_another_seed_others() -> None:
    assert planned(1) == planned(1)
    assert planned(1) != planned(2)


def test_all_kinds_come_about_equally_often_and_none_that_is_left_out() -> None:
    kinds = [fault.kind for _, fault in planned(1)]
    counts = [kinds.count(kind) for kind in Kind]
    assert max(counts) - min(counts) <= 1 < min(counts)

    without = (Kind.KILLS, Kind.CLOCKS)
    kinds = [fault.kind for _, fault in planned(1, without=without)]
    assert set(kinds) == set(Kind) - set(without)


@pytest.mark.parametrize("backups", [0, 1, 2])
def test_no_more_nodes_fail_within_a_repair_time_than_there_are_backups(backups: int) -> None:
    failing = (Kind.KILLS, Kind.PAUSES, Kind.DISKS)
    times = [at_s for at_s, fault in planned(1, backups=backups) if fault.kind in failing]
    for at_s in times:
        assert sum(at_s <= other < at_s + REPAIR_S for other in times) <= backups
    assert bool(times) == bool(backups)


def test_some_nodes_keep_their_processes() -> None:
    ends = (Kind.KILLS, Kind.CHURN, Kind.DISKS)
    ended = {fault.node for _, fault in planned(1) if fault.kind in ends}
    assert ended == {1, 3, 5, 7, 9}


def test_there_are_times_without_faults() -> None:
    assert all(at_s % (STORMY_S + CALM_S) < STORMY_S for at_s, _ in planned(1))
