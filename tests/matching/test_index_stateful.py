"""Any order of operations leaves every engine with the answers of the oracle."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from smartpubsub.matching import Index
from smartpubsub.predicates import Interval, Predicate
from tests.matching.engines import INSTALLED
from tests.matching.oracle import Oracle, check_content
from tests.matching.strategies import (
    NAMES,
    REPEATABLE,
    events,
    filters,
    float_events,
    keys,
)
from tests.matching.tables import answers, table_of, written_table_of

CROWD_KEYS = 1000


class Engines(RuleBasedStateMachine):
    """One index for each engine and the oracle, all told the same."""

    @initialize()
    def begin(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.indexes = [Index(engine) for engine in INSTALLED]
        self.oracle = Oracle()

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self.folder.cleanup()

    @rule(key=keys, predicate=filters)
    def add(self, key: int, predicate: Predicate) -> None:
        known = key in self.oracle
        for index in self.indexes:
            if known:
                with pytest.raises(ValueError, match="is in the index already"):
                    index.add(key, predicate)
            else:
                index.add(key, predicate)
        self.oracle.setdefault(key, predicate)

    @rule(names=st.permutations(NAMES), topics=st.integers(0, 2), ranges=st.integers(0, 3))
    def add_a_crowd(self, names: list[str], topics: int, ranges: int) -> None:
        attributes: dict[str, Interval | None] = dict.fromkeys(names[:topics])
        for number in range(140):
            bounds = Interval(float(number % 7), float(number % 7 + number % 5))
            attributes |= dict.fromkeys(names[topics : topics + ranges], bounds)
            key = CROWD_KEYS + len(self.oracle)
            if key not in self.oracle and attributes:
                self.add(key, Predicate.unchecked(dict(attributes)))

    @rule(part=st.integers(1, 4))
    def remove_some(self, part: int) -> None:
        for key in sorted(self.oracle)[::part]:
            self.forget(key)

    @precondition(lambda self: self.oracle)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        self.forget(data.draw(st.sampled_from(sorted(self.oracle))))

    def forget(self, key: int) -> None:
        for index in self.indexes:
            index.remove(key)
        del self.oracle[key]

    @rule(key=keys)
    def remove_an_unknown_key(self, key: int) -> None:
        if key not in self.oracle:
            for index in self.indexes:
                with pytest.raises(KeyError):
                    index.remove(key)

    @rule(key=keys)
    def contains(self, key: int) -> None:
        for index in self.indexes:
            assert (key in index) == (key in self.oracle)

    @rule(event=events)
    def match(self, event: Predicate) -> None:
        for index in self.indexes:
            assert sorted(index.match(event)) == self.oracle.match(event)
            assert index.match_any(event) == bool(self.oracle.match(event))

    @rule(predicate=filters)
    def cover(self, predicate: Predicate) -> None:
        for index in self.indexes:
            assert sorted(index.covering(predicate)) == self.oracle.covering(predicate)
            assert sorted(index.covered_by(predicate)) == self.oracle.covered_by(predicate)

    @rule(rows=st.lists(float_events, max_size=4))
    def match_table(self, rows: list[Predicate]) -> None:
        expected = [self.oracle.match(event) for event in rows]
        for index in self.indexes:
            assert answers(index, table_of(rows)) == expected

    @rule(rows=st.lists(events, max_size=4))
    def match_written_table(self, rows: list[Predicate]) -> None:
        expected = [self.oracle.match(event) for event in rows]
        for index in self.indexes:
            assert answers(index, written_table_of(rows)) == expected

    @rule()
    def compact(self) -> None:
        for index in self.indexes:
            index.compact()

    @rule()
    def load_what_the_other_engine_saved(self) -> None:
        files = [Path(self.folder.name) / str(number) for number in range(len(self.indexes))]
        for index, file in zip(self.indexes, files, strict=True):
            index.save(file)
        self.load(files[::-1])

    @rule()
    def load_what_the_same_engine_saved(self) -> None:
        files = [Path(self.folder.name) / str(number) for number in range(len(self.indexes))]
        for index, file in zip(self.indexes, files, strict=True):
            index.save(file)
        self.load(files)

    def load(self, files: list[Path]) -> None:
        self.indexes = [
            Index.load(file, engine) for file, engine in zip(files, INSTALLED, strict=True)
        ]

    @invariant()
    def the_content_is_the_same(self) -> None:
        for index in getattr(self, "indexes", []):
            check_content(index, self.oracle)


TestEngines = Engines.TestCase
TestEngines.settings = settings(REPEATABLE, max_examples=60, stateful_step_count=30)
