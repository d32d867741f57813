"""The matching index: which of many filters does an event match?"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from os import PathLike
from pathlib import Path
from typing import Literal, SupportsIndex

import pyarrow as pa

from smartpubsub.matching import native_engine
from smartpubsub.matching.engine import Engine
from smartpubsub.matching.native_engine import NativeEngine
from smartpubsub.matching.python_engine import PythonEngine
from smartpubsub.matching.storage import IndexFile
from smartpubsub.matching.tables import KEYS_TYPE
from smartpubsub.predicates import Predicate, as_predicate

EngineName = Literal["auto", "python", "native"]

# Up to here both answer in about a microsecond, and a dictionary is the smaller: a node keeps very
# many small sets. `bench matching` shows that beyond it the native engine wins.
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
        raise ValueError(f"keys are integers of 64 bits, {number} is not")
    return number


class Index:
    """Filters under integer keys of 64 bits, and which of them match an event.

    >>> index = Index()
    >>> index.add(7, "surf/price[10,20]")
    >>> index.match("surf/portugal/price=15")
    [7]

    `engine` is "python", "native", or "auto": the native one when it is installed and there are
    enough filters for it to pay, or a saved index is loaded. The results are the same, their order
    is not promised.
    """

    def __init__(self, engine: EngineName = "auto") -> None:
        if engine not in ("auto", *_ENGINES):
            raise ValueError(f"engine is 'auto', 'python' or 'native', not {engine!r}")
        self._engine = _ENGINES["python" if engine == "auto" else engine]()
        self._may_switch = engine == "auto" and native_engine.is_available()

    @classmethod
    def load(cls, path: str | PathLike[str], engine: EngineName = "auto") -> Index:
        """A saved index. With the native engine its bulk stays in the file, shared by everyone.

        Changing a loaded index changes neither the file nor what others see. Damage is noticed, but
        the file is believed: load only what you or somebody you trust has saved.
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
        """The name of the engine in use now."""
        return self._engine.name

    @property
    def memory_bytes(self) -> int:
        """What the index itself takes, as its engine counts it."""
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
        return pa.chunked_array([*self.match_batches(table)], KEYS_TYPE)

    def match_batches(self, table: pa.Table) -> Iterator[pa.LargeListArray]:
        """The same in parts, one after the other, which have about a million keys at most.

        So a table may match far more than memory could hold. Each part has the lists of the next
        rows, and is made when it is asked for.
        """
        return self._engine.match_batches(table)

    def covering(self, filter: Predicate | str) -> list[int]:
        """The keys of all filters that cover the given one.

        >>> index = Index()
        >>> index.add(1, "surf/price[0,100]")
        >>> index.covering("surf/portugal/price[10,20]")
        [1]
        """
        # To cover is to match the filter read as an event.
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
        """All keys with their filters; a filter's attributes may come in another order."""
        return self._engine.items()

    def save(self, path: str | PathLike[str]) -> None:
        """Write a file that `load` reads, with any engine."""
        self._engine.save(Path(path))

    def compact(self) -> None:
        """Lay the filters out anew, knowing all of them.

        Worth its time, some microseconds for each filter, after very many have been added one by
        one: matching gets faster and memory smaller. A saved index is compact already.
        """
        self._engine = self._engine.compacted()

    def _switch_to_native(self) -> None:
        native = NativeEngine()
        for key, predicate in self._engine.items():
            native.add(key, predicate)
        self._engine = native
        self._may_switch = False
