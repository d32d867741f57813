"""The databases find what the index finds, otherwise comparing their speed would be idle."""

from contextlib import closing

import pytest

from smartpubsub.bench.sql_peers import DuckDb, Sqlite
from smartpubsub.bench.workloads import W1, W2, Workload, events, subscriptions
from smartpubsub.matching import Index

COUNT = 5_000


def expected_keys(workload: Workload) -> list[list[int]]:
    index = Index("python")
    for key, predicate in enumerate(subscriptions(workload, COUNT, seed=11).predicates()):
        index.add(key, predicate)
    return [sorted(index.match(event)) for event in events(60, seed=11).predicates()]


@pytest.mark.parametrize("workload", [W1, W2], ids=lambda workload: workload.name)
def test_duckdb_finds_the_same(workload: Workload) -> None:
    with closing(DuckDb(subscriptions(workload, COUNT, seed=11))) as peer:
        pairs = peer.match_table(events(60, seed=11).table())

    found: list[list[int]] = [[] for _ in range(60)]
    for event, key in zip(*(column.to_pylist() for column in pairs.columns), strict=True):
        found[event].append(key)
    assert [sorted(keys) for keys in found] == expected_keys(workload)


@pytest.mark.parametrize("workload", [W1, W2], ids=lambda workload: workload.name)
def test_sqlite_finds_the_same(workload: Workload) -> None:
    with closing(Sqlite(subscriptions(workload, COUNT, seed=11))) as peer:
        found = [sorted(peer.match(event)) for event in events(60, seed=11).predicates()]

    assert found == expected_keys(workload)
