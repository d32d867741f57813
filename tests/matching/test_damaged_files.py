"""A file that is no whole index is refused, and never believed."""

import json
from pathlib import Path
from random import Random

import pytest

from smartpubsub.errors import SmartPubSubError
from smartpubsub.matching import Index, IndexFileError
from smartpubsub.matching.index import EngineName
from smartpubsub.predicates import Predicate
from tests.matching.crowds import event, many_topics
from tests.matching.engines import INSTALLED
from tests.matching.oracle import Oracle, check, filled

ORACLE = Oracle((key, many_topics(Random(key))) for key in range(250))
ORACLE[1000] = Predicate.parse("r0[0.1000000000000000000001,]")
QUESTIONS = [event(Random(number)) for number in range(3)]


@pytest.fixture(scope="module", params=INSTALLED)
def saved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("saved") / "index"
    filled(ORACLE, request.param).save(path)
    return path.read_bytes()


def refuses(path: Path, content: bytes, engine: EngineName) -> None:
    path.write_bytes(content)
    with pytest.raises(IndexFileError, match=path.name):
        Index.load(path, engine)


def header_of(content: bytes) -> dict[str, object]:
    header: dict[str, object] = json.loads(content.split(b"\n", 1)[0])
    return header


def with_header(content: bytes, header: object) -> bytes:
    return (json.dumps(header).encode() + b"\n").ljust(4096, b"\0") + content[4096:]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        b"surf\n",
        b"{}",
        b"[]\n",
        b"null\n",
        b'"smartpubsub-index"\n',
        b"\0" * 5000,
        b"\xff\xfe" * 2000,
        b"[" * 5000,
        b'{"a":' * 1000,
        b"9" * 5000,
        b'{"format": "smartpubsub-index"}\n',
        b'{"format": "smartpubsub-index", "version": 1}\n',
        b'{"format": ["smartpubsub-index"], "version": 1}\n',
        b"PAR1" + b"\0" * 100,
    ],
    ids=lambda content: repr(content[:24]),
)
def test_foreign_files(content: bytes, engine: EngineName, tmp_path: Path) -> None:
    refuses(tmp_path / "foreign", content, engine)


def test_missing_files_and_folders(engine: EngineName, tmp_path: Path) -> None:
    for path in (tmp_path / "missing", tmp_path, tmp_path / ("x" * 300)):
        with pytest.raises(IndexFileError, match=path.name):
            Index.load(path, engine)


def test_truncated_files(saved: bytes, engine: EngineName, tmp_path: Path) -> None:
    lengths = {1, 10, 100, 4095, 4096, 4097, len(saved) // 2, len(saved) - 4096, len(saved) - 1}
    for length in sorted(lengths):
        refuses(tmp_path / "truncated", saved[:length], engine)


def test_files_with_something_after_them(saved: bytes, engine: EngineName, tmp_path: Path) -> None:
    refuses(tmp_path / "longer", saved + b"\0", engine)
    refuses(tmp_path / "longer", saved + saved, engine)


def test_versions_to_come(saved: bytes, engine: EngineName, tmp_path: Path) -> None:
    (tmp_path / "index").write_bytes(with_header(saved, header_of(saved) | {"version": 2}))

    with pytest.raises(IndexFileError, match="has version 2 of the format"):
        Index.load(tmp_path / "index", engine)


@pytest.mark.parametrize(
    "sections",
    [
        None,
        [],
        {},
        {"filters": None},
        {"filters": 4096},
        {"filters": [4096]},
        {"filters": [4096, 10, 0, 0]},
        {"filters": [4096, 10, "0"]},
        {"filters": ["4096", 10, 0]},
        {"filters": [4096.5, 10, 0]},
        {"filters": [-1, 10, 1]},
        {"filters": [10**30, 10, 1]},
        {"filters": [4096, 10**30, 1]},
    ],
    ids=json.dumps,
)
def test_sections_that_lie_nowhere(
    sections: object, saved: bytes, engine: EngineName, tmp_path: Path
) -> None:
    header = header_of(saved) | {"sections": sections}
    refuses(tmp_path / "index", with_header(saved, header), engine)


def test_missing_sections(saved: bytes, tmp_path: Path) -> None:
    header = header_of(saved)
    sections = header["sections"]
    assert isinstance(sections, dict)
    for name in sections:
        left = {other: place for other, place in sections.items() if other != name}
        believed_never_wrong(tmp_path / name, with_header(saved, header | {"sections": left}))


def test_a_changed_byte_in_any_section(saved: bytes, engine: EngineName, tmp_path: Path) -> None:
    sections = header_of(saved)["sections"]
    assert isinstance(sections, dict)
    own = [name for name in sections if name.startswith(f"{engine}-")]
    for name in own or ["filters"]:
        start, size, _ = sections[name]
        for at in {start, start + size // 3, start + size - 1}:
            content = bytearray(saved)
            content[at] ^= 0x10
            refuses(tmp_path / "changed", bytes(content), engine)


@pytest.mark.parametrize("seed", range(3))
def test_changed_bytes_anywhere(seed: int, saved: bytes, tmp_path: Path) -> None:
    rng = Random(seed)
    header_end = saved.index(b"\n")
    for _ in range(60):
        content = bytearray(saved)
        at = rng.randrange(rng.choice([header_end, len(saved)]))
        content[at] ^= 1 << rng.randrange(8)
        believed_never_wrong(tmp_path / "changed", bytes(content))


def believed_never_wrong(path: Path, content: bytes) -> None:
    """A change that goes unnoticed is one that no answer depends on."""
    path.write_bytes(content)
    for engine in INSTALLED:
        try:
            index = Index.load(path, engine)
        except IndexFileError:
            continue
        check(index, ORACLE, QUESTIONS)


def test_the_error_is_one_of_the_package() -> None:
    assert issubclass(IndexFileError, SmartPubSubError)
