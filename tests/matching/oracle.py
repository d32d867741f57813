"""What an index has to answer, found by asking every filter."""

from collections.abc import Iterable, Mapping

from smartpubsub.matching import Index
from smartpubsub.matching.index import EngineName
from smartpubsub.predicates import Predicate


class Oracle(dict[int, Predicate]):
    """Filters under keys."""

    def match(self, event: Predicate) -> list[int]:
        return sorted(key for key, predicate in self.items() if predicate.matches(event))

    def covering(self, filter: Predicate) -> list[int]:
        return sorted(key for key, predicate in self.items() if predicate.covers(filter))

    def covered_by(self, filter: Predicate) -> list[int]:
        return sorted(key for key, predicate in self.items() if filter.covers(predicate))


def filled(filters: Mapping[int, Predicate | str], engine: EngineName) -> Index:
    index = Index(engine)
    for key, predicate in filters.items():
        index.add(key, predicate)
    return index


def check(index: Index, oracle: Oracle, asked: Iterable[Predicate]) -> None:
    """Compare every answer to some events, which are also read as filters."""
    for event in asked:
        expected = oracle.match(event)
        assert sorted(index.match(event)) == expected
        assert index.match_any(event) == bool(expected)
        assert sorted(index.covering(event)) == oracle.covering(event)
        assert sorted(index.covered_by(event)) == oracle.covered_by(event)
    check_content(index, oracle)


def check_content(index: Index, oracle: Oracle) -> None:
    assert len(index) == len(oracle)
    assert sorted(key for key, _ in index.items()) == sorted(oracle)
    assert dict(index.items()) == oracle
