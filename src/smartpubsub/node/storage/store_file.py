"""The SQLite file of a node's storage: creation, checks and migration.

A damaged file, or one of another program or a newer version, is not changed.
"""

from __future__ import annotations

import base64
import json
import os
import sqlite3
import struct
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from zlib import crc32

import base58

from smartpubsub.errors import SmartPubSubError
from smartpubsub.node.storage.folder import sync_folder
from smartpubsub.node.storage.kept import head_of
from smartpubsub.node.storage.log_check import has_lost_commits
from smartpubsub.protocols.blocks import encode

FILE = "node.sqlite"
APPLICATION_ID = int.from_bytes(b"SmPS", "big")
"""Distinguishes the file from SQLite files of other programs."""

_MAGIC = b"SQLite format 3\0"
_HEADER_BYTES = 100
_APPLICATION_ID_PLACE = slice(68, 72)
_NUMBERS = struct.Struct(">QQ")


class StorageError(SmartPubSubError):
    """Storage that cannot be opened or changed."""


class DamagedStorageError(StorageError):
    """A file that is damaged."""


class ForeignStorageError(StorageError):
    """A file of another program, or of a newer version of this one."""


class DiskFullError(StorageError):
    """The disk had no room for a change; what was stored before is intact."""


def _create_entries(database: sqlite3.Connection) -> None:
    database.execute(
        "CREATE TABLE entries ("
        " key BLOB NOT NULL PRIMARY KEY, value BLOB NOT NULL, checksum INTEGER NOT NULL"
        ") WITHOUT ROWID"
    )


def _keep_subscriptions(database: sqlite3.Connection) -> None:
    """Version 2 has queues on disk for kept subscriptions; version 1 kept all that it stored."""
    prefix = b"node/subscription/"
    keys = database.execute(
        "SELECT key FROM entries WHERE substr(key, 1, ?) = ?", (len(prefix), prefix)
    ).fetchall()
    for [key] in keys:
        new_key, value = head_of(int.from_bytes(key[len(prefix) :], "big"))
        _put(database, new_key, value or b"")


def _number_publications(database: sqlite3.Connection) -> None:
    """Version 3 has records of published events by number; version 2 had them by key."""
    prefix = b"published/"
    rows = database.execute(
        "SELECT key, value FROM entries WHERE substr(key, 1, ?) = ?", (len(prefix), prefix)
    ).fetchall()
    for key, value in rows:
        old = json.loads(value)
        new = {
            "created": old["created_us"],
            "key": key[len(prefix) :].decode(),
            "destination": ["", "", None, False],
            "digest": bytes.fromhex(old["digest"]),
            "wants_all": False,
            "state": old["state"],
            "held": [
                [
                    held["attribute"],
                    base58.b58decode(held["peer"]),
                    base64.b64decode(held["signature"]),
                ]
                for held in old["held"]
            ],
            "reason": old["reason"],
            "predicate": None,
            "payload": None,
        }
        database.execute("DELETE FROM entries WHERE key = ?", (key,))
        _put(database, prefix + _NUMBERS.pack(old["incarnation"], old["number"]), encode(new))


def _mark_together(_: sqlite3.Connection) -> None:
    """Version 4 has one entry for the marks of many completed events; it reads single ones too."""


def _share_signatures(_: sqlite3.Connection) -> None:
    """Version 5 has events that share a signature with others."""


def _put(database: sqlite3.Connection, key: bytes, value: bytes) -> None:
    row = (key, value, crc32(value, crc32(key)))
    database.execute("REPLACE INTO entries VALUES (?, ?, ?)", row)


MIGRATIONS: list[Callable[[sqlite3.Connection], None]] = [
    _create_entries,
    _keep_subscriptions,
    _number_publications,
    _mark_together,
    _share_signatures,
]
"""Each converts a file from the version that is its index in the list to the next version."""


def opened(path: Path) -> sqlite3.Connection:
    """Open the database of a file, or create it, in the current version."""
    try:
        if path.exists():
            _check(path)
        else:
            _create(path)
        return _connected(path)
    except sqlite3.Error as error:
        raise explained(path, error) from error
    except OSError as error:
        raise StorageError(
            f"{path}: {error.strerror}; make the file and its folder readable and writable"
        ) from None


def explained(path: Path, error: sqlite3.Error) -> StorageError:
    """Convert an error of SQLite to one that names the remedy."""
    # The low byte is the kind of error; errors of the Python module have no code.
    match getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF:
        case sqlite3.SQLITE_FULL:
            return DiskFullError(f"{path}: the disk is full; make room on it")
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return damaged(path, str(error))
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return StorageError(f"{path} is open in another program; close that first")
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
            return StorageError(
                f"{path}: {error}; make the file and its folder readable and writable"
            )
        case sqlite3.SQLITE_IOERR:
            return StorageError(f"{path}: {error}; look whether the disk is full or failing")
        case _:
            return StorageError(f"{path}: {error}")


def damaged(path: Path, what: str) -> DamagedStorageError:
    """Make the error that says how a file is damaged; what SQLite finds has several lines."""
    return DamagedStorageError(
        f"{path} is damaged ({' '.join(what.split())});"
        " put a backup in its place, or move it away to start empty"
    )


# --- a new file ---


def _create(path: Path) -> None:
    """Create the file under another name first, so that it appears whole or not at all."""
    log = _log_of(path)
    if log.exists():
        raise DamagedStorageError(
            f"{path} is missing and its log {log.name} is there;"
            " put it back, or move the log away to start empty"
        )
    unfinished = path.with_suffix(".new")
    unfinished.unlink(missing_ok=True)
    try:
        # SQLite gives its other files the same permissions.
        os.close(os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        with closing(sqlite3.connect(unfinished, isolation_level=None)) as database:
            database.execute("PRAGMA synchronous = FULL")
            database.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            _migrate(database)
            database.execute("PRAGMA journal_mode = WAL")
        unfinished.replace(path)
        sync_folder(path.parent)
    finally:
        unfinished.unlink(missing_ok=True)


# --- an existing file ---


def _check(path: Path) -> None:
    """Check a file without changing it or the files beside it."""
    with path.open("rb") as file:
        header = file.read(_HEADER_BYTES)
    if len(header) < _HEADER_BYTES or not header.startswith(_MAGIC):
        raise damaged(path, "it does not begin as a SQLite file does")
    if header[_APPLICATION_ID_PLACE] != APPLICATION_ID.to_bytes(4, "big"):
        raise ForeignStorageError(
            f"{path} was written by another program; choose another data folder"
        )
    # A log that was left behind is read too; without one, only the file is opened.
    log = _log_of(path)
    mode = "mode=ro" if log.exists() else "immutable=1"
    if log.exists() and has_lost_commits(log):
        raise DamagedStorageError(
            f"{log} is damaged, and SQLite would lose the transactions after the damage; put"
            f" backups of it and of {path.name} in their places, or move it away to start without"
            " its transactions"
        )
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?{mode}", uri=True)) as database:
        version = _version(database)
        if version > len(MIGRATIONS):
            raise ForeignStorageError(
                f"{path} has version {version} and this program knows versions up to"
                f" {len(MIGRATIONS)}; update smartpubsub or choose another data folder"
            )
        [[finding], *_] = database.execute("PRAGMA quick_check(1)")
        if finding != "ok" or version < 1:
            raise damaged(path, finding if finding != "ok" else f"it has version {version}")


def _connected(path: Path) -> sqlite3.Connection:
    # The host stores in worker threads; the storage's lock admits one at a time.
    database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        database.text_factory = bytes
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        _migrate(database)
        # What a power cut has left of a transaction must not look like damage after the next one.
        with suppress(sqlite3.OperationalError):  # The disk may be full, for example.
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except BaseException:
        database.close()
        raise
    return database


def _migrate(database: sqlite3.Connection) -> None:
    version = _version(database)
    if version == len(MIGRATIONS):
        return
    database.execute("BEGIN IMMEDIATE")
    for migration in MIGRATIONS[version:]:
        migration(database)
    database.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
    database.execute("COMMIT")


def _version(database: sqlite3.Connection) -> int:
    [version] = database.execute("PRAGMA user_version").fetchone()
    return int(version)


def _log_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")
