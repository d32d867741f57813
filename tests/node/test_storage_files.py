"""A file or folder that cannot be used is named, with what to do, and stays as it is."""

import os
import re
import resource
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random
from zlib import crc32

import pytest

from smartpubsub.node.storage import store_file as storage_file
from smartpubsub.node.storage.folder import FolderError, FolderInUseError
from smartpubsub.node.storage.kept import PREFIX, KeptLimits, KeptQueues
from smartpubsub.node.storage.store import SqliteStorage
from smartpubsub.node.storage.store_file import (
    FILE,
    DamagedStorageError,
    DiskFullError,
    ForeignStorageError,
    StorageError,
)
from tests.node import writer
from tests.node.ordinary_user import as_ordinary_user, read_only_folder

NEWEST = len(storage_file.MIGRATIONS)

ENTRIES = {b"key/%d" % number: Random(number).randbytes(100) for number in range(100)}

VERSION_1 = """
    PRAGMA application_id = 0x536d5053;
    CREATE TABLE entries (
        key BLOB NOT NULL PRIMARY KEY, value BLOB NOT NULL, checksum INTEGER NOT NULL
    ) WITHOUT ROWID;
    INSERT INTO entries VALUES (CAST('node/last' AS BLOB), x'07', 2289278290);
    PRAGMA user_version = 1;
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The file of a storage with entries, which was closed."""
    with SqliteStorage(tmp_path) as storage:
        storage.apply(list(ENTRIES.items()))
    return tmp_path / FILE


def run_sql(path: Path, script: str) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.executescript(script)


def contents(folder: Path) -> dict[str, bytes]:
    """All files but the lock, and SQLite's index of the log, which holds nothing of its own."""
    return {
        path.name: path.read_bytes()
        for path in folder.iterdir()
        if path.name != "lock" and not path.name.endswith("-shm")
    }


def refused(folder: Path, kind: type[StorageError]) -> str:
    """What is said about a storage that cannot be opened, and that nothing was changed."""
    before = contents(folder)
    with pytest.raises(kind) as caught:
        SqliteStorage(folder)
    assert contents(folder) == before
    return str(caught.value)


# --- damaged ---


@pytest.mark.parametrize(
    "damage",
    [
        lambda _: b"",
        lambda _: b"hello",
        lambda content: content[:60],
        lambda content: content[: len(content) // 2],
        lambda content: b"\0" * len(content),
        lambda content: content[:4096] + b"\x55" * 4096 + content[8192:],
    ],
)
def test_a_damaged_file_is_refused(damage: Callable[[bytes], bytes], file: Path) -> None:
    file.write_bytes(damage(file.read_bytes()))

    told = refused(file.parent, DamagedStorageError)

    assert told.startswith(f"{file} is damaged (")
    assert told.endswith("; put a backup in its place, or move it away to start empty")


def test_no_flipped_bit_changes_what_is_loaded(file: Path) -> None:
    rng = Random(7)
    content = file.read_bytes()
    outcomes = set()
    for _ in range(150):
        flipped = bytearray(content)
        flipped[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        file.write_bytes(flipped)
        try:
            with SqliteStorage(file.parent) as storage:
                assert dict(storage.load(b"")) == ENTRIES
                outcomes.add("harmless")
        except StorageError:
            outcomes.add("noticed")
            assert file.read_bytes() == flipped

    assert outcomes == {"harmless", "noticed"}


def test_an_entry_whose_key_has_changed_is_not_just_missing(file: Path) -> None:
    content = file.read_bytes()
    assert content.count(b"key/77") == 1
    file.write_bytes(content.replace(b"key/77", b"kez/77"))

    assert "what is stored under b'kez/77' has changed" in refused(file.parent, DamagedStorageError)


def with_log(folder: Path) -> Path:
    """Make a folder as a killed node leaves it, with 50 transactions in the log; return the log."""
    made = folder / "made"
    with SqliteStorage(made) as storage:
        for number in range(50):
            storage.apply([(b"logged/%02d" % number, bytes(100))])
        left = folder / "left"
        shutil.copytree(made, left)
    return left / f"{FILE}-wal"


def test_no_flipped_bit_in_a_log_makes_transactions_disappear(tmp_path: Path) -> None:
    log = with_log(tmp_path)
    rng, found, problems = Random(7), set(), set()
    whole = {path.name: path.read_bytes() for path in log.parent.iterdir()}
    for _ in range(100):
        for name, content in whole.items():
            (log.parent / name).write_bytes(content)
        flipped = bytearray(whole[log.name])
        flipped[rng.randrange(len(flipped))] ^= 1 << rng.randrange(8)
        log.write_bytes(flipped)
        try:
            with SqliteStorage(log.parent) as storage:
                found.add(len(storage.load(b"logged/")))
        except StorageError as error:
            problems.add(str(error).partition(",")[0])
            assert log.read_bytes() == flipped

    assert problems == {f"{log} is damaged"}
    assert found <= {49, 50}  # A power cut damages the last transaction, too.


@pytest.mark.parametrize("cut_bytes", [1, 100, 4_000, 30_000])
def test_a_log_that_a_crash_has_cut_off_is_read(cut_bytes: int, tmp_path: Path) -> None:
    log = with_log(tmp_path)
    log.write_bytes(log.read_bytes()[:-cut_bytes])

    with SqliteStorage(log.parent) as storage:
        assert 30 < len(storage.load(b"logged/")) < 50
    with SqliteStorage(log.parent) as again:
        assert 30 < len(again.load(b"logged/")) < 50


def test_what_a_power_cut_has_left_does_not_look_like_damage(tmp_path: Path) -> None:
    """The last transaction is damaged; later ones begin at its place in the log."""
    log = with_log(tmp_path)
    content = bytearray(log.read_bytes())
    content[-10] ^= 1
    log.write_bytes(content)

    for number in range(3):
        with SqliteStorage(log.parent) as storage:
            storage.apply([(b"later/%d" % number, bytes(9_000))])
            left = tmp_path / f"left {number}"
            shutil.copytree(log.parent, left)
        with SqliteStorage(left) as storage:
            assert len(storage.load(b"logged/")) == 49
            assert len(storage.load(b"later/")) == number + 1


def test_a_log_without_its_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / f"{FILE}-wal").write_bytes(b"what was not yet in the file")

    assert "is missing and its log node.sqlite-wal is there; put it back" in refused(
        tmp_path, DamagedStorageError
    )


def test_a_file_that_was_not_finished_is_made_again(tmp_path: Path) -> None:
    (tmp_path / "node.new").write_bytes(b"half of a")

    with SqliteStorage(tmp_path) as storage:
        storage.apply([(b"a", b"1")])

    assert contents(tmp_path).keys() == {FILE}


# --- foreign and newer ---


def test_a_file_of_another_program_is_refused(tmp_path: Path) -> None:
    run_sql(tmp_path / FILE, "CREATE TABLE holidays (day TEXT)")

    assert refused(tmp_path, ForeignStorageError) == (
        f"{tmp_path / FILE} was written by another program; choose another data folder"
    )


def test_a_newer_file_is_refused(file: Path) -> None:
    run_sql(file, "PRAGMA user_version = 7")

    assert (
        f"has version 7 and this program knows versions up to {NEWEST}; update smartpubsub"
        in refused(file.parent, ForeignStorageError)
    )


def test_a_newer_file_is_refused_also_if_only_its_log_says_so(file: Path) -> None:
    newer = "import os, sqlite3, sys; sqlite3.connect(sys.argv[1]).executescript(sys.argv[2])"
    script = f"{newer}; os._exit(0)"
    subprocess.run([sys.executable, "-c", script, file, "PRAGMA user_version = 7"], check=True)

    assert file.with_name(f"{FILE}-wal").stat().st_size > 0
    assert "has version 7" in refused(file.parent, ForeignStorageError)


# --- migration ---


def test_a_file_of_version_1_is_read(tmp_path: Path) -> None:
    run_sql(tmp_path / FILE, VERSION_1)

    with SqliteStorage(tmp_path) as storage:
        assert storage.load(b"") == [(b"node/last", b"\x07")]


def add_notes(database: sqlite3.Connection) -> None:
    database.execute("ALTER TABLE entries RENAME TO moved")
    database.execute(
        "CREATE TABLE entries (key BLOB NOT NULL PRIMARY KEY, value BLOB, checksum INTEGER)"
    )
    database.execute("INSERT INTO entries SELECT * FROM moved")


def fail(database: sqlite3.Connection) -> None:
    database.execute("DROP TABLE entries")
    raise RuntimeError("no further")


def test_the_subscriptions_in_a_file_of_version_1_are_kept(tmp_path: Path) -> None:
    run_sql(tmp_path / FILE, VERSION_1)
    key = b"node/subscription/" + (7).to_bytes(8, "big")
    with closing(sqlite3.connect(tmp_path / FILE)) as database:
        row = (key, b"surf", crc32(b"surf", crc32(key)))
        database.execute("INSERT INTO entries VALUES (?, ?, ?)", row)
        database.commit()

    with SqliteStorage(tmp_path) as storage:
        limits = KeptLimits(event_count_max=1, byte_count_max=1, all_bytes_max=1)
        [queue] = KeptQueues(limits, storage.load(PREFIX))
        assert (queue.number, queue.is_kept, len(queue)) == (7, True, 0)


def test_an_older_file_is_migrated_once(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage_file, "MIGRATIONS", [*storage_file.MIGRATIONS, add_notes])

    for _ in range(2):
        with SqliteStorage(file.parent) as storage:
            assert dict(storage.load(b"")) == ENTRIES
    with closing(sqlite3.connect(file)) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (NEWEST + 1,)


def test_a_migration_that_fails_changes_nothing(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(storage_file, "MIGRATIONS", [*storage_file.MIGRATIONS, add_notes, fail])
        with pytest.raises(RuntimeError, match="no further"):
            SqliteStorage(file.parent)

    with SqliteStorage(file.parent) as storage:
        assert dict(storage.load(b"")) == ENTRIES


# --- folders ---


def test_a_folder_has_one_node(tmp_path: Path) -> None:
    with SqliteStorage(tmp_path), pytest.raises(FolderInUseError) as caught:
        SqliteStorage(tmp_path)

    assert caught.value.process == os.getpid()
    assert str(caught.value) == (
        f"{tmp_path} is in use by the node with process id {os.getpid()};"
        " stop it or choose another data folder"
    )
    SqliteStorage(tmp_path).close()


def test_a_folder_in_use_by_another_process_is_free_when_that_dies(tmp_path: Path) -> None:
    command = [sys.executable, writer.__file__, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        with pytest.raises(FolderInUseError) as caught:
            SqliteStorage(tmp_path)
        process.kill()
    assert caught.value.process == process.pid

    SqliteStorage(tmp_path).close()


def test_an_unknown_process_is_called_another_node(tmp_path: Path) -> None:
    with SqliteStorage(tmp_path):
        (tmp_path / "lock").write_bytes(b"")
        with pytest.raises(FolderInUseError, match=r"is in use by another node; stop it"):
            SqliteStorage(tmp_path)


def test_a_failed_start_leaves_the_folder_free(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"nonsense")
    refused(tmp_path, DamagedStorageError)
    (tmp_path / FILE).unlink()

    SqliteStorage(tmp_path).close()


def test_a_folder_that_cannot_be_written_to_is_named() -> None:
    with read_only_folder() as folder, as_ordinary_user():
        for unusable in (folder, folder / "below"):
            with pytest.raises(
                FolderError, match=f"{re.escape(str(unusable))}: Permission denied; choose a data"
            ):
                SqliteStorage(unusable)


def test_a_folder_in_place_of_the_lock_is_named(tmp_path: Path) -> None:
    (tmp_path / "lock").mkdir()

    with pytest.raises(FolderError, match=r"/lock: Is a directory; move it away"):
        SqliteStorage(tmp_path)


def test_a_file_that_cannot_be_read_is_named() -> None:
    with read_only_folder() as folder:
        with SqliteStorage(folder) as storage:
            storage.apply([(b"a", b"1")])
        (folder / "lock").chmod(0o666)
        (folder / FILE).chmod(0o000)

        with as_ordinary_user(), pytest.raises(StorageError, match="Permission denied; make the f"):
            SqliteStorage(folder)


def test_a_file_in_place_of_a_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"")

    with pytest.raises(FolderError, match=r"data: File exists; choose a data folder"):
        SqliteStorage(tmp_path / "data")


# --- full disks ---


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """Let no file of this process become larger, as on a disk that has no more room."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def fill(storage: SqliteStorage, taken: list[int]) -> None:
    """Store groups of three for as long as there is room."""
    for number in range(1_000):
        storage.apply([(b"%d/%d" % (number, part), b"x" * 3_000) for part in range(3)])
        taken.append(number)


def test_a_disk_without_room_loses_nothing(tmp_path: Path) -> None:
    taken: list[int] = []
    with SqliteStorage(tmp_path) as storage:
        with file_size_limit(300_000), pytest.raises(StorageError, match="disk"):
            fill(storage, taken)
        assert taken
        assert len(storage.load(b"")) == 3 * len(taken)

        storage.apply([(b"there is room again", b"")])
    with SqliteStorage(tmp_path) as storage:
        assert len(storage.load(b"")) == 3 * len(taken) + 1


def test_a_full_disk_is_called_full(file: Path) -> None:
    with SqliteStorage(file.parent) as storage:
        storage._database.execute("PRAGMA max_page_count = 20")

        with pytest.raises(DiskFullError, match="the disk is full; make room on it"):
            storage.apply([(b"a", b"1"), (b"large", b"x" * 100_000)])

        assert dict(storage.load(b"")) == ENTRIES
        storage.apply([(b"a", b"1")])
        assert storage.stored_bytes == sum(map(len, [*ENTRIES, *ENTRIES.values()])) + 2


def test_a_new_storage_on_a_full_disk_is_not_begun(tmp_path: Path) -> None:
    with file_size_limit(2_000), pytest.raises(StorageError, match="disk"):
        SqliteStorage(tmp_path)

    assert contents(tmp_path) == {}
    SqliteStorage(tmp_path).close()
