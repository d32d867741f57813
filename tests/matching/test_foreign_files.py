"""A file that another user has made cannot make the native engine read anywhere."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from random import Random

import pytest

from smartpubsub import Predicate
from smartpubsub.matching import Index
from smartpubsub.matching.storage import SECRET_VARIABLE, IndexFile, seal_key

FILTERS = [Predicate.parse(f"surf/price[{number},{number + 5}]") for number in range(50)]
EVENT = Predicate.parse("surf/price=20")
EXPECTED = list(range(15, 21))


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    index = Index(engine="native")
    for key, predicate in enumerate(FILTERS):
        index.add(key, predicate)
    index.save(tmp_path / "index")
    return tmp_path / "index"


def crafted(path: Path, rng: Random) -> None:
    """Change numbers in the native engine's memory, with checksums that are right."""
    content = bytearray(path.read_bytes())
    header = json.loads(content[: content.index(b"\n")])
    for name, place in header["sections"].items():
        start, size, _ = place
        if name != "filters" and size:
            for _ in range(4):
                at = start + rng.randrange(size)
                content[at : at + 4] = rng.randbytes(4)
            del content[header["bytes"] :]
            place[2] = zlib.crc32(content[start : start + size])
    line = json.dumps(header).encode() + b"\n"
    content[: len(line)] = line
    path.write_bytes(content)


@pytest.mark.parametrize("seed", range(20))
def test_a_crafted_file_is_read_as_text(saved: Path, seed: int) -> None:
    crafted(saved, Random(seed))

    assert not IndexFile(saved).is_sealed
    loaded = Index.load(saved, engine="native")
    assert sorted(loaded.match(EVENT)) == EXPECTED
    loaded.remove(20)
    assert sorted(loaded.match(EVENT)) == EXPECTED[:-1]


def test_a_file_of_another_user_is_read_as_text(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert IndexFile(saved).is_sealed
    monkeypatch.setenv(SECRET_VARIABLE, "ab" * 32)
    assert not IndexFile(saved).is_sealed
    assert sorted(Index.load(saved, engine="native").match(EVENT)) == EXPECTED


def test_machines_with_the_same_key_map_each_others_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SECRET_VARIABLE, "cd" * 32)
    index = Index(engine="native")
    index.add(1, EVENT)
    index.save(tmp_path / "index")
    assert IndexFile(tmp_path / "index").is_sealed


def test_the_key_is_the_users_own_and_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.delenv(SECRET_VARIABLE, raising=False)
    key = seal_key()
    assert key is not None
    assert seal_key() == key
    (kept,) = (tmp_path / "smartpubsub").iterdir()
    assert kept.stat().st_mode & 0o777 == 0o600


def test_without_a_place_for_the_key_files_are_read_as_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "file"))
    index = Index(engine="native")
    index.add(1, EVENT)
    index.save(tmp_path / "index")
    assert Index.load(tmp_path / "index", engine="native").match(EVENT) == [1]
