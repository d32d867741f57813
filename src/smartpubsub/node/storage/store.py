"""The storage of a node: keys and values in a SQLite file in the data folder."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence, Sized
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TypeVar
from zlib import crc32

from smartpubsub.node.storage.folder import FolderLock, made_folder
from smartpubsub.node.storage.store_file import FILE, StorageError, damaged, explained, opened

_KEYS_AT_ONCE = 512
_KEYS_STEP = 16
_ROWS_AT_ONCE = 64

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class StorageLimits:
    """Limits, in bytes of keys and values."""

    stored_bytes_max: int = 1 << 30
    entry_bytes_max: int = 16 << 20
    """The size of one key and its value."""


class StorageLimitError(StorageError):
    """A change beyond the limits; nothing of it was stored."""


class SqliteStorage:
    """The storage of one node, which locks the data folder while it is open.

    When `apply` returns, all its changes are on disk; after an error, none is.
    """

    def __init__(self, folder: Path, limits: StorageLimits | None = None) -> None:
        self.path = folder / FILE
        self.limits = limits or StorageLimits()
        self._one_at_a_time = Lock()
        self._folder_lock = FolderLock(made_folder(folder))
        try:
            self._database = opened(self.path)
            self._stored_bytes = self._verified()
        except BaseException:
            self._folder_lock.release()
            raise
        self._is_open = True

    @property
    def stored_bytes(self) -> int:
        """The bytes of all keys and values."""
        return self._stored_bytes

    def apply(self, changes: Sequence[tuple[bytes, bytes | None]]) -> None:
        """Store values, or remove keys whose value is None, in order and in one transaction."""
        for key, value in changes:
            self._limit("an entry", _bytes_of(key, value), self.limits.entry_bytes_max)
        if not changes:
            return
        with self._one_at_a_time:
            try:
                self._stored_bytes = self._applied(changes)
            except sqlite3.Error as error:
                raise explained(self.path, error) from error

    def load(self, prefix: bytes) -> list[tuple[bytes, bytes]]:
        """Read the keys that begin with a prefix, in order, and their values."""
        query, bounds = _query_for(prefix)
        with self._one_at_a_time:
            try:
                rows = self._database.execute(query, bounds).fetchall()
            except sqlite3.Error as error:
                raise explained(self.path, error) from error
        for key, value, checksum in rows:
            self._must_be_as_stored(key, value, checksum)
        return [(key, value) for key, value, _ in rows]

    def close(self) -> None:
        """Close the file, and release the folder."""
        with self._one_at_a_time:
            if self._is_open:
                self._is_open = False
                self._database.close()
                self._folder_lock.release()

    def __enter__(self) -> SqliteStorage:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _applied(self, changes: Sequence[tuple[bytes, bytes | None]]) -> int:
        """Store changes in one transaction; return the bytes stored after it."""
        last = dict(changes)
        kept = [
            (key, value, _checksum(key, value)) for key, value in last.items() if value is not None
        ]
        dropped = [key for key, value in last.items() if value is None]
        added = sum([len(key) + len(value) for key, value, _ in kept])
        database = self._database
        database.execute("BEGIN IMMEDIATE")
        try:
            stored = self._stored_bytes + added - self._bytes_at(dropped)
            # Each row of executemany releases Python's lock, for which this thread then competes.
            for few in _few(dropped):
                database.execute(f"DELETE FROM entries WHERE key IN ({_repeated('?', few)})", few)
            for rows in _few(kept):
                stored -= self._put(rows)
            if stored > self._stored_bytes:  # A change that frees bytes is never refused.
                self._limit("a storage", stored, self.limits.stored_bytes_max)
            database.execute("COMMIT")
        except BaseException:
            if database.in_transaction:  # Some errors have ended the transaction already.
                database.execute("ROLLBACK")
            raise
        return stored

    def _put(self, rows: list[tuple[bytes, bytes, int]]) -> int:
        """Store rows; return the bytes of those that they replace."""
        values = [value for row in rows for value in row]
        places = _repeated("(?,?,?)", rows)
        try:  # Most keys are new, and a lookup before each insert would take a tenth longer.
            self._database.execute(f"INSERT INTO entries VALUES {places}", values)
        except sqlite3.IntegrityError:
            replaced = self._bytes_at([key for key, _, _ in rows])
            self._database.execute(f"REPLACE INTO entries VALUES {places}", values)
            return replaced
        return 0

    def _bytes_at(self, keys: list[bytes]) -> int:
        """The bytes of some keys and their values."""
        found = 0
        for first in range(0, len(keys), _KEYS_AT_ONCE):
            some = keys[first : first + _KEYS_AT_ONCE]
            # Few different statements, because SQLite compiles each of them.
            some += some[:1] * (-len(some) % _KEYS_STEP)
            query = "SELECT total(length(key) + length(value)) FROM entries WHERE key IN"
            [[size]] = self._database.execute(f"{query} ({_repeated('?', some)})", some)
            found += int(size)
        return found

    def _limit(self, what: str, size: int, size_max: int) -> None:
        if size > size_max:
            raise StorageLimitError(
                f"{self.path}: {what} of {size} bytes; at most {size_max} are kept"
            )

    def _verified(self) -> int:
        """Verify all entries before any is used or changed; return their bytes.

        An entry whose key has changed would otherwise be missing, because no prefix finds it.
        """
        query, bounds = _query_for(b"")
        stored = 0
        try:
            for key, value, checksum in self._database.execute(query, bounds):
                self._must_be_as_stored(key, value, checksum)
                stored += len(key) + len(value)
        except sqlite3.Error as error:
            self._database.close()
            raise explained(self.path, error) from error
        except StorageError:
            self._database.close()
            raise
        return stored

    def _must_be_as_stored(self, key: object, value: object, checksum: object) -> None:
        if not _is_as_stored(key, value, checksum):
            raise damaged(self.path, f"what is stored under {key!r} has changed")


def _few(items: list[T]) -> Iterator[list[T]]:
    """Split items into lists of few lengths, because SQLite compiles each different statement."""
    first, length = 0, _ROWS_AT_ONCE
    while first < len(items):
        while length > len(items) - first:
            length //= 2
        yield items[first : first + length]
        first += length


def _repeated(place: str, items: Sized) -> str:
    """The placeholders for items in a statement."""
    return ",".join([place] * len(items))


def _query_for(prefix: bytes) -> tuple[str, tuple[bytes, ...]]:
    query = "SELECT key, value, checksum FROM entries WHERE key >= ?"
    below = prefix.rstrip(b"\xff")
    if not below:
        # No key sorts after this prefix, so all keys from here on have it.
        return f"{query} ORDER BY key", (prefix,)
    following = below[:-1] + bytes([below[-1] + 1])
    return f"{query} AND key < ? ORDER BY key", (prefix, following)


def _bytes_of(key: bytes, value: bytes | None) -> int:
    return 0 if value is None else len(key) + len(value)


def _checksum(key: bytes, value: bytes) -> int:
    return crc32(value, crc32(key))


def _is_as_stored(key: object, value: object, checksum: object) -> bool:
    """Verify the checksum of an entry."""
    return isinstance(key, bytes) and isinstance(value, bytes) and checksum == _checksum(key, value)
