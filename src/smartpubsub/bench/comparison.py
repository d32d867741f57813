"""All matching engines on one workload of one size.

Every engine gets the same subscriptions and events, and all must agree on the matches. A
single event is a predicate in and a list of keys out; a batch is a table of events in and all
pairs out. Rates are events per second of one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import closing

from smartpubsub.bench.report import Report
from smartpubsub.bench.sql_peers import DuckDb, Sqlite
from smartpubsub.bench.timing import best_seconds, rate
from smartpubsub.bench.workloads import Workload, events, subscriptions
from smartpubsub.errors import SmartPubSubError
from smartpubsub.matching import Index
from smartpubsub.matching.index import EngineName
from smartpubsub.matching.native_engine import NativeEngine
from smartpubsub.predicates import Predicate
from smartpubsub.sim.kernel.collector import collector_off

EVENT_COUNT = 1_000
# The number of events on which the engines must agree.
CHECKED_COUNT = 50
# The maximum work of a slow engine, which keeps the whole run under two minutes.
SLOW_CANDIDATES_MAX = 100_000_000

Progress = Callable[[str], None]


class DisagreementError(SmartPubSubError):
    """Two engines found different matches, so their speed means nothing."""


def index_of(engine: EngineName, predicates: Iterable[Predicate]) -> Index:
    """An index of predicates under their numbers."""
    index = Index(engine)
    for key, predicate in enumerate(predicates):
        index.add(key, predicate)
    return index


class Comparison:
    """One workload of one size, and the report that its figures go to."""

    def __init__(
        self,
        report: Report,
        workload: Workload,
        size: tuple[str, int],
        seed: int,
        progress: Progress,
    ) -> None:
        label, count = size
        self._report = report
        self._name = f"{label} {workload.name}"
        self._progress = progress
        self._subscriptions = subscriptions(workload, count, seed)
        self._filters = list(subscriptions(workload, EVENT_COUNT, seed + 1).predicates())
        batch = events(EVENT_COUNT, seed)
        self._events = batch.predicates()
        self._table = batch.table()
        self._few = self._events[: max(20, min(EVENT_COUNT, SLOW_CANDIDATES_MAX // count))]
        self._expected: list[list[int]] = []

    def run(self) -> None:
        """Measure one engine after the other; the matches of the native one are the reference."""
        self._say("generating")
        with collector_off():
            predicates = list(self._subscriptions.predicates())
            self._native(predicates)
            self._pure(predicates)
            self._brute_force(predicates)
            del predicates
        self._duckdb()
        self._sqlite()

    def _native(self, predicates: list[Predicate]) -> None:
        self._say("native")
        index = index_of("native", predicates)
        index.compact()
        matches = index.match_table(self._table.slice(0, CHECKED_COUNT))
        self._expected = [sorted(keys) for keys in matches.to_pylist()]
        add_native_figures(self._report, self._name, index, self._events)
        seconds = best_seconds(lambda: index.match_table(self._table), tries=7)
        self._add("native batch", EVENT_COUNT / seconds)
        self._add("native covering", rate(index.covering, self._filters))

    def _pure(self, predicates: list[Predicate]) -> None:
        self._say("pure Python")
        index = index_of("python", predicates)
        self._add("pure single", rate(index.match, self._few))
        self._check("the pure-Python engine", map(index.match, self._few))

    def _brute_force(self, predicates: list[Predicate]) -> None:
        self._say("brute force")

        def match(event: Predicate) -> list[int]:
            return [key for key, wanted in enumerate(predicates) if wanted.matches(event)]

        self._add("brute force single", rate(match, self._events[:3], tries=1))
        self._check("brute force", map(match, self._events[:3]))

    def _duckdb(self) -> None:
        self._say("DuckDB")
        with closing(DuckDb(self._subscriptions)) as peer:
            seconds = best_seconds(lambda: peer.match_table(self._table), tries=2)
            self._add("duckdb batch", EVENT_COUNT / seconds)
            pairs = peer.match_table(self._table.slice(0, CHECKED_COUNT))
        found: list[list[int]] = [[] for _ in range(CHECKED_COUNT)]
        for event, key in zip(*(column.to_pylist() for column in pairs.columns), strict=True):
            found[event].append(key)
        self._check("DuckDB", found)

    def _sqlite(self) -> None:
        self._say("SQLite")
        few = self._few[: max(10, len(self._few) // 5)]
        with closing(Sqlite(self._subscriptions)) as peer:
            self._add("sqlite single", rate(peer.match, few, tries=1))
            self._check("SQLite", map(peer.match, few))

    def _say(self, what: str) -> None:
        self._progress(f"{self._name}: {what}")

    def _add(self, engine: str, events_per_second: float) -> None:
        self._report.add(f"{engine} {self._name}", events_per_second, "events/s")

    def _check(self, engine: str, found: Iterable[list[int]]) -> None:
        for number, (keys, expected) in enumerate(zip(found, self._expected, strict=False)):
            if sorted(keys) != expected:
                raise DisagreementError(
                    f"{self._name}: {engine} and the native engine find different matches for"
                    f" event {number}; please report this"
                )


def add_native_figures(report: Report, name: str, index: Index, events: list[Predicate]) -> None:
    """Single events, memory, and how close the engine comes to the memory bandwidth."""
    report.add(f"native single {name}", rate(index.match, events), "events/s")
    report.add(f"native bytes per subscription {name}", index.memory_bytes / len(index), "bytes")
    engine = index._engine
    assert isinstance(engine, NativeEngine)
    touched = sum(map(engine.bytes_touched, events)) / len(events)
    report.add(f"native bytes touched per event {name}", touched, "bytes")
    bandwidth = report.value("memory bandwidth") * 1e9
    report.add(f"roofline {name}", bandwidth / touched, "events/s")
