"""The pure-Python engine: a dictionary of buckets, one for each name.

A filter lies in the bucket of one of its names: the topic whose bucket is the least full. An event
looks only into the buckets of its own names. Below about a thousand filters nothing is faster, and
because this engine is short, the native one is tested against it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from smartpubsub.matching.storage import write_index
from smartpubsub.predicates import Predicate
from smartpubsub.predicates.numbers import Number

if TYPE_CHECKING:
    import pyarrow as pa


class _Conditional(NamedTuple):
    """A filter that wants more than the name of its bucket."""

    key: int
    topics: tuple[str, ...]
    ranges: tuple[tuple[str, Number, Number], ...]


class _Bucket(NamedTuple):
    plain: dict[int, None]
    conditional: dict[int, _Conditional]


class PythonEngine:
    """Filters in a dictionary of buckets."""

    name = "python"

    def __init__(self) -> None:
        self._buckets: dict[str, _Bucket] = {}
        self._predicates: dict[int, Predicate] = {}
        self._bucket_names: dict[int, str] = {}
        # The filters that have a name; built on the first call of `covered_by`, then maintained.
        self._postings: dict[str, dict[int, None]] | None = None

    def __len__(self) -> int:
        return len(self._predicates)

    def __contains__(self, key: int) -> bool:
        return key in self._predicates

    def add(self, key: int, predicate: Predicate) -> None:
        attributes = predicate._attributes
        topics = [name for name, interval in attributes.items() if interval is None]
        access = min(topics or attributes, key=self._fullness)
        others = tuple(name for name in topics if name != access)
        ranges = tuple((name, *wanted) for name, wanted in attributes.items() if wanted)
        bucket = self._buckets.get(access)
        if bucket is None:
            bucket = self._buckets[access] = _Bucket({}, {})
        if others or ranges:
            bucket.conditional[key] = _Conditional(key, others, ranges)
        else:
            bucket.plain[key] = None
        self._predicates[key] = predicate
        self._bucket_names[key] = access
        if self._postings is not None:
            self._post(self._postings, key, predicate)

    def remove(self, key: int) -> None:
        predicate = self._predicates.pop(key)
        access = self._bucket_names.pop(key)
        bucket = self._buckets[access]
        bucket.plain.pop(key, None)
        bucket.conditional.pop(key, None)
        if not any(bucket):
            del self._buckets[access]
        if self._postings is not None:
            for name in predicate.attributes:
                del self._postings[name][key]
                if not self._postings[name]:
                    del self._postings[name]

    def match(self, event: Predicate) -> list[int]:
        carried = event._attributes
        keys: list[int] = []
        for plain, conditional in filter(None, map(self._buckets.get, carried)):
            keys += plain
            for key, topics, ranges in conditional.values():
                for topic in topics:
                    if topic not in carried:
                        break
                else:
                    for wanted, lo, hi in ranges:
                        interval = carried.get(wanted)
                        if interval is None or interval[0] < lo or hi < interval[1]:
                            break
                    else:
                        keys.append(key)
        return keys

    def match_any(self, event: Predicate) -> bool:
        for name in event.attributes:
            bucket = self._buckets.get(name)
            if bucket is not None and (
                bucket.plain
                or any(self._predicates[key].matches(event) for key in bucket.conditional)
            ):
                return True
        return False

    def match_batches(self, table: pa.Table) -> Iterator[pa.LargeListArray]:
        # Most indexes never see a table, and Arrow takes 40 MB.
        from smartpubsub.matching.tables import events_of, lists_of

        return lists_of(map(self.match, events_of(table)))

    def covered_by(self, filter: Predicate) -> list[int]:
        if self._postings is None:
            self._postings = {}
            for key, predicate in self._predicates.items():
                self._post(self._postings, key, predicate)
        postings = [self._postings.get(name, {}) for name in filter.attributes]
        return [key for key in min(postings, key=len) if filter.covers(self._predicates[key])]

    def items(self) -> Iterator[tuple[int, Predicate]]:
        return iter(self._predicates.items())

    def compacted(self) -> PythonEngine:
        engine = PythonEngine()
        for key, predicate in self._predicates.items():
            engine.add(key, predicate)
        return engine

    def save(self, path: Path) -> None:
        write_index(path, self.items())

    @property
    def memory_bytes(self) -> int:
        seen: list[object] = [self._buckets, self._predicates, self._bucket_names]
        for bucket in self._buckets.values():
            seen += [bucket, *bucket]
            for conditional in bucket.conditional.values():
                seen += [conditional, conditional.topics, conditional.ranges, *conditional.ranges]
        return sum(map(sys.getsizeof, seen))

    def _fullness(self, name: str) -> int:
        bucket = self._buckets.get(name)
        return len(bucket.plain) + len(bucket.conditional) if bucket else 0

    @staticmethod
    def _post(postings: dict[str, dict[int, None]], key: int, predicate: Predicate) -> None:
        for name in predicate.attributes:
            postings.setdefault(name, {})[key] = None
