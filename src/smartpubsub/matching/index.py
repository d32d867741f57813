"""The matching index: which of many filters does an event match?"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Literal, SupportsIndex

from smartpubsub.matching import native_engine
from smartpubsub.matching.engine import Engine
from smartpubsub.matching.native_engine import NativeEngine
from smartpubsub.matching.python_engine import PythonEngine
from smartpubsub.matching.storage import IndexFile
from smartpubsub.predicates import Predicate, as_predicate

if TYPE_CHECKING:
    import pyarrow as pa

EngineName = Literal["auto", "python", "native"]

# Up to here both engines answer in about a microsecond, and a dictionary takes less memory, which
# matters because a node keeps very many small sets. Above it the native engine is faster (`bench
# matching`).
NATIVE_FILTERS_MIN = 100

_KEY_MIN, _KEY_MAX = -(2**63), 2**63 - 1
_ENGINES: dict[str, Callable[[], Engine]] = {"python": PythonEngine, "native": NativeEngine}


def as_key(key: SupportsIndex) -> int:
    """A key as a plain integer; raise TypeError or ValueError if it cannot be one.

    >>> as_key(7)
    7
    """
    number = operator.index(key)
    if not _KEY_MIN <= number <= _KEY_MAX:
        raise ValueError(f"keys are 64-bit integers, {number} is not")
    return number


class Index:
    """Filters under 64-bit integer keys; finds those that an event matches.

    >>> index = Index()
    >>> index.add(7, "surf/price[10,20]")
    >>> index.match("surf/portugal/price=15")
    [7]

    `engine` is "python", "native", or "auto": the native one if it is installed and there are
    enough filters for it to be faster, or if a saved index is loaded. The results are the same;
    their order is not promised.
    """

    def __init__(self, engine: EngineName = "auto") -> None:
        if engine not in ("auto", *_ENGINES):
            raise ValueError(f"engine is 'auto', 'python' or 'native', not {engine!r}")
        self._engine = _ENGINES["python" if engine == "auto" else engine]()
        self._may_switch = engine == "auto" and native_engine.is_available()

    @classmethod
    def load(cls, path: str | PathLike[str], engine: EngineName = "auto") -> Index:
        """Load a saved index. With the native engine, processes share the mapped file.

        Changing a loaded index changes neither the file nor other processes' view of it. A file
        that another user has saved is not mapped: its filters are read as text, which takes longer.
        """
        index = cls(engine)
        file = IndexFile(Path(path))
        if engine == "native" or index._may_switch:
            index._engine = NativeEngine.load(file)
            index._may_switch = False
        else:
            for key, predicate in file.filters():
                index._engine.add(key, predicate)
        return index

    @property
    def engine(self) -> str:
        """The name of the current engine."""
        return self._engine.name

    @property
    def memory_bytes(self) -> int:
        """The memory of the index, as its engine counts it."""
        return self._engine.memory_bytes

    def __len__(self) -> int:
        return len(self._engine)

    def __contains__(self, key: int) -> bool:
        return _KEY_MIN <= operator.index(key) <= _KEY_MAX and key in self._engine

    def add(self, key: int, predicate: Predicate | str) -> None:
        """Add a filter; raise ValueError if the key is in use.

        >>> index = Index()
        >>> index.add(1, "surf")
        >>> len(index)
        1
        """
        key = as_key(key)
        if key in self._engine:
            raise ValueError(f"key {key} is in the index already; remove it first")
        self._engine.add(key, as_predicate(predicate))
        if self._may_switch and len(self._engine) > NATIVE_FILTERS_MIN:
            self._switch_to_native()

    def remove(self, key: int) -> None:
        """Remove a filter; raise KeyError if there is none under this key."""
        if key not in self:
            raise KeyError(key)
        self._engine.remove(key)

    def match(self, event: Predicate | str) -> list[int]:
        """The keys of all filters that an event matches.

        >>> index = Index()
        >>> index.add(1, "price[10,]")
        >>> index.match("price=9.99")
        []
        """
        return self._engine.match(as_predicate(event))

    def match_any(self, event: Predicate | str) -> bool:
        """Whether an event matches at least one filter."""
        return self._engine.match_any(as_predicate(event))

    def match_table(self, table: pa.Table) -> pa.ChunkedArray:
        """For each row of a table of events, the list of keys of the filters that it matches.

        The table has the columns of `EVENTS_SCHEMA`, or one column `event` with written events.
        """
        import pyarrow as pa

        from smartpubsub.matching.tables import KEYS_TYPE

        return pa.chunked_array([*self.match_batches(table)], KEYS_TYPE)

    def match_batches(self, table: pa.Table) -> Iterator[pa.LargeListArray]:
        """Like `match_table`, in batches of at most about a million keys.

        So a table may match far more keys than fit in memory. Each batch has the lists of the next
        rows, and is computed when it is requested.
        """
        return self._engine.match_batches(table)

    def covering(self, filter: Predicate | str) -> list[int]:
        """The keys of all filters that cover the given one.

        >>> index = Index()
        >>> index.add(1, "surf/price[0,100]")
        >>> index.covering("surf/portugal/price[10,20]")
        [1]
        """
        # A filter covers another if it matches the other read as an event.
        return self.match(filter)

    def covered_by(self, filter: Predicate | str) -> list[int]:
        """The keys of all filters that the given one covers.

        >>> index = Index()
        >>> index.add(1, "surf/portugal/price[10,20]")
        >>> index.covered_by("surf/price[0,100]")
        [1]
        """
        return self._engine.covered_by(as_predicate(filter))

    def items(self) -> Iterator[tuple[int, Predicate]]:
        """All keys with their filters; a filter's attributes may be in another order."""
        return self._engine.items()

    def save(self, path: str | PathLike[str]) -> None:
        """Write a file that `load` reads, with any engine."""
        self._engine.save(Path(path))

    def compact(self) -> None:
        """Lay out all filters anew.

        Takes some microseconds per filter. After very many single additions it pays: matching gets
        faster and memory smaller. A saved index is already compact.
        """
        self._engine = self._engine.compacted()

    def _switch_to_native(self) -> None:
        native = NativeEngine()
        for key, predicate in self._engine.items():
            native.add(key, predicate)
        self._engine = native
        self._may_switch = False
