"""The native engine, with a Python engine for the filters that it cannot hold.

The native core compares floats, which is exact for every filter whose bounds floats stand for (see
`smartpubsub.predicates.numbers`). The rare others, and those with more attributes than its records
can count, are kept in a pure-Python engine beside it, so that no result needs a second check.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from smartpubsub.errors import SmartPubSubError
from smartpubsub.matching.python_engine import PythonEngine
from smartpubsub.matching.storage import IndexFile, IndexFileError, filter_lines, write_index
from smartpubsub.native import native
from smartpubsub.predicates import Interval, Predicate
from smartpubsub.predicates.names import encode_name
from smartpubsub.predicates.numbers import Exact

if TYPE_CHECKING:
    import pyarrow as pa

# The mapped sections hold the machine's own representation of numbers.
_TREE, _ARENA, _WHERE, _BEYOND = (
    f"native-1-{sys.byteorder}-{part}" for part in ("tree", "arena", "where", "beyond-floats")
)


class EngineError(SmartPubSubError):
    """An engine that is not available here."""


def is_available() -> bool:
    """Whether the native module is installed in a version that this package understands."""
    return native is not None


def instructions() -> str:
    """The instruction set that the native module uses on this processor."""
    return str(native.instructions()) if native else "none"


class NativeEngine:
    """Filters in the native core."""

    name = "native"

    def __init__(self) -> None:
        if native is None:
            raise EngineError(
                "the native engine is not installed, or has another version; install a C++20"
                " compiler and set up again, or use engine='python'"
            )
        self._core = native.Core()
        self._beyond_core = PythonEngine()

    @classmethod
    def load(cls, file: IndexFile) -> NativeEngine:
        """Open a saved index; the sections of a native engine are mapped and shared.

        They are used only if this user has saved them, because their offsets are trusted.
        """
        engine = cls()
        is_frozen = _TREE in file
        if is_frozen:
            tree, arena, where, _ = map(file.section, (_TREE, _ARENA, _WHERE, _BEYOND))
        if not is_frozen or not file.is_sealed:
            for key, predicate in file.filters():
                engine.add(key, predicate)
            return engine
        try:
            engine._core = native.Core.thaw(bytes(tree), arena, where)
        except RuntimeError as error:
            raise IndexFileError(f"{file.path} is damaged: {error}; save it again") from None
        for key, predicate in file.filters(_BEYOND):
            engine._beyond_core.add(key, predicate)
        return engine

    def __len__(self) -> int:
        return len(self._core) + len(self._beyond_core)

    def __contains__(self, key: int) -> bool:
        return key in self._core or key in self._beyond_core

    def add(self, key: int, predicate: Predicate) -> None:
        if _is_beyond_core(predicate):
            self._beyond_core.add(key, predicate)
        else:
            self._core.add(key, predicate._attributes)

    def remove(self, key: int) -> None:
        if not self._core.remove(key):
            self._beyond_core.remove(key)

    def match(self, event: Predicate) -> list[int]:
        keys: list[int] = self._core.match(event._attributes)
        if self._beyond_core:
            keys += self._beyond_core.match(event)
        return keys

    def match_any(self, event: Predicate) -> bool:
        return self._core.match_any(event._attributes) or self._beyond_core.match_any(event)

    def match_batches(self, table: pa.Table) -> Iterator[pa.LargeListArray]:
        # Most indexes never see a table, and Arrow takes 40 MB.
        from smartpubsub.matching.tables import columns_of, events_of, lists_of, written_events

        if self._beyond_core or written_events(table) is not None:
            yield from lists_of(map(self.match, events_of(table)))
            return
        rows_before = 0
        for batch in columns_of(table).to_batches():
            done = 0
            while done < len(batch):
                lists = self._match_batch(batch, done, rows_before)
                done += len(lists)
                yield lists
            rows_before += done

    def _match_batch(self, batch: pa.RecordBatch, first: int, rows_before: int) -> pa.Array:
        import pyarrow as pa

        from smartpubsub.matching.tables import TableError

        try:
            offsets, keys = self._core.match_batch(batch.__arrow_c_array__()[1], first, rows_before)
        except ValueError as error:
            raise TableError(str(error)) from None
        return pa.LargeListArray.from_arrays(
            pa.Array.from_buffers(pa.int64(), len(offsets), [None, pa.py_buffer(offsets)]),
            pa.Array.from_buffers(pa.int64(), len(keys), [None, pa.py_buffer(keys)]),
        )

    def covered_by(self, filter: Predicate) -> list[int]:
        keys: list[int] = self._core.covered_by(filter._attributes)
        return keys + self._beyond_core.covered_by(filter)

    def items(self) -> Iterator[tuple[int, Predicate]]:
        keys: list[int] = self._core.keys()
        for key in keys:
            yield key, self._predicate(key)
        yield from self._beyond_core.items()

    def compacted(self) -> NativeEngine:
        engine = NativeEngine()
        engine._core = self._core.compacted()
        engine._beyond_core = self._beyond_core.compacted()
        return engine

    def save(self, path: Path) -> None:
        frozen = self._core.compacted()
        beyond = filter_lines(self._beyond_core.items())
        write_index(
            path,
            frozen.lines(encode_name) + beyond,
            {
                _TREE: frozen.frozen_tree(),
                _ARENA: frozen.frozen_arena(),
                _WHERE: frozen.frozen_where(),
                _BEYOND: beyond,
            },
        )

    @property
    def memory_bytes(self) -> int:
        return int(self._core.memory_bytes) + self._beyond_core.memory_bytes

    def bytes_touched(self, event: Predicate) -> int:
        """An upper bound of the memory read and written to match an event, for benchmarks."""
        return int(self._core.bytes_touched(event._attributes))

    def _predicate(self, key: int) -> Predicate:
        attributes = self._core.attributes(key)
        return Predicate.unchecked(
            {name: bounds and Interval(*bounds) for name, bounds in attributes.items()}
        )


def _is_beyond_core(predicate: Predicate) -> bool:
    return len(predicate) > native.attributes_max or any(
        interval is not None and (isinstance(interval[0], Exact) or isinstance(interval[1], Exact))
        for interval in predicate._attributes.values()
    )
