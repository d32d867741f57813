"""What is stored is there again, all of a group or nothing of it, within the limits."""

import sqlite3
import tempfile
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from threading import Thread

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from smartpubsub.node.storage.store import SqliteStorage, StorageLimitError, StorageLimits
from smartpubsub.node.storage.store_file import FILE, StorageError

REPEATABLE = settings(deadline=None, database=None, derandomize=True)

keys = st.lists(st.sampled_from([b"a", b"b", b"/", b"\0", b"\xff"]), max_size=4).map(b"".join)
values = st.binary(max_size=50)
changes = st.lists(st.tuples(keys, st.none() | values), max_size=6)

SMALL = StorageLimits(stored_bytes_max=200, entry_bytes_max=40)


def bytes_in(entries: dict[bytes, bytes]) -> int:
    return sum(len(key) + len(value) for key, value in entries.items())


class Storages(RuleBasedStateMachine):
    """A storage with small limits and a dictionary, told the same."""

    @initialize()
    def begin(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.storage = SqliteStorage(Path(self.folder.name), SMALL)
        self.expected: dict[bytes, bytes] = {}

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self.storage.close()
            self.folder.cleanup()

    @rule(changes=changes)
    def apply(self, changes: list[tuple[bytes, bytes | None]]) -> None:
        after = dict(self.expected)
        for key, value in changes:
            after.pop(key, None)
            after |= {key: value} if value is not None else {}
        grows = bytes_in(after) > bytes_in(self.expected)
        if any(v is not None and len(k) + len(v) > SMALL.entry_bytes_max for k, v in changes) or (
            grows and bytes_in(after) > SMALL.stored_bytes_max
        ):
            with pytest.raises(StorageLimitError):
                self.storage.apply(changes)
        else:
            self.storage.apply(changes)
            self.expected = after

    @rule()
    def reopen(self) -> None:
        self.storage.close()
        self.storage = SqliteStorage(Path(self.folder.name), SMALL)

    @rule(prefix=keys)
    def load(self, prefix: bytes) -> None:
        expected = sorted(item for item in self.expected.items() if item[0].startswith(prefix))
        assert self.storage.load(prefix) == expected

    @invariant()
    def all_is_there(self) -> None:
        if hasattr(self, "storage"):
            assert dict(self.storage.load(b"")) == self.expected
            assert self.storage.stored_bytes == bytes_in(self.expected)


TestStorages = Storages.TestCase
TestStorages.settings = settings(REPEATABLE, max_examples=25, stateful_step_count=25)


def test_keys_come_in_order(tmp_path: Path) -> None:
    with SqliteStorage(tmp_path) as storage:
        storage.apply([(bytes([number * 7 % 256]), b"") for number in range(256)])

        loaded = [key for key, _ in storage.load(b"")]

    assert len(loaded) == 256
    assert all(one < other for one, other in pairwise(loaded))


@settings(REPEATABLE, max_examples=40)
@given(st.sets(st.binary(max_size=3)), st.binary(max_size=2))
@example({b"\xff", b"\xff\xff\x01", b"\xfe", b""}, b"\xff\xff")
@example({b"a\xff\xff", b"b", b"a", b"a\xff"}, b"a\xff")
def test_a_prefix_finds_the_keys_that_begin_with_it(stored: set[bytes], prefix: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder, SqliteStorage(Path(folder)) as storage:
        storage.apply([(key, key) for key in stored])

        loaded = [key for key, _ in storage.load(prefix)]

    assert loaded == sorted(key for key in stored if key.startswith(prefix))


def test_a_commit_is_on_the_disk_before_it_returns(tmp_path: Path) -> None:
    with SqliteStorage(tmp_path) as storage:
        pragmas = {
            name: storage._database.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("journal_mode", "synchronous")
        }

    assert pragmas == {"journal_mode": b"wal", "synchronous": 2}


def test_the_last_of_several_changes_to_a_key_counts(tmp_path: Path) -> None:
    with SqliteStorage(tmp_path) as storage:
        storage.apply([(b"a", b"1"), (b"a", None), (b"a", b"two"), (b"b", b"3"), (b"b", None)])

        assert storage.load(b"") == [(b"a", b"two")]
        assert storage.stored_bytes == 4


def test_a_group_beyond_a_limit_leaves_no_trace(tmp_path: Path) -> None:
    with SqliteStorage(tmp_path, SMALL) as storage:
        storage.apply([(b"kept", b"1")])

        with pytest.raises(StorageLimitError, match=r"an entry of 41 bytes; at most 40 are kept"):
            storage.apply([(b"kept", None), (b"a", b"x" * 40)])
        with pytest.raises(StorageLimitError, match=r"a storage of 205 bytes; at most 200 are"):
            storage.apply([(b"%d" % number, b"x" * 39) for number in range(5)])

        assert storage.load(b"") == [(b"kept", b"1")]


def test_what_makes_room_is_taken_beyond_the_limit(tmp_path: Path) -> None:
    with SqliteStorage(tmp_path) as storage:
        storage.apply([(b"%d" % number, b"x" * 39) for number in range(9)])

    with SqliteStorage(tmp_path, SMALL) as storage:
        storage.apply([(b"0", None)])
        storage.apply([(b"1", b"less")])

        assert storage.stored_bytes == 7 * 40 + 5


def test_threads_take_turns(tmp_path: Path) -> None:
    def write(name: int) -> None:
        for number in range(20):
            storage.apply([(b"%d/%d" % (name, number), b""), (b"%d" % name, b"%d" % number)])

    with SqliteStorage(tmp_path) as storage:
        threads = [Thread(target=write, args=(name,)) for name in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert len(storage.load(b"")) == 3 * 21


def test_only_its_user_can_read_it(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"

    with SqliteStorage(folder) as storage:
        storage.apply([(b"a", b"1")])
        modes = {path.name: oct(path.stat().st_mode & 0o777) for path in folder.iterdir()}

    assert folder.stat().st_mode & 0o777 == 0o700
    assert modes == dict.fromkeys(["lock", FILE, f"{FILE}-wal", f"{FILE}-shm"], "0o600")


def test_a_closed_storage_says_so_and_can_be_closed_again(tmp_path: Path) -> None:
    storage = SqliteStorage(tmp_path)
    storage.close()
    storage.close()

    with pytest.raises(StorageError, match="closed"):
        storage.apply([(b"a", b"1")])
    with pytest.raises(StorageError, match="closed"):
        storage.load(b"")


def test_nothing_to_do_writes_nothing(tmp_path: Path) -> None:
    with SqliteStorage(tmp_path) as storage:
        storage.apply([])

        with closing(sqlite3.connect(tmp_path / FILE)) as database:
            assert database.execute("SELECT count(*) FROM entries").fetchone() == (0,)
        assert (tmp_path / f"{FILE}-wal").stat().st_size == 0
