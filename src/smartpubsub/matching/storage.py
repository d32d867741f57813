"""Saved indexes: one file that any engine can read and that many processes can share.

A file begins with a line of JSON that gives the positions of its sections. The section `filters`
holds every filter as text, so any engine can read the index. An engine may add sections of its own;
they lie on page boundaries so that they can be mapped.

An engine that maps memory trusts the offsets in it. So a file has a seal, a digest with a key that
only this user has, and an engine maps only files that this user has saved.
"""

from __future__ import annotations

import json
import mmap
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from hashlib import blake2b
from hmac import compare_digest
from pathlib import Path

from smartpubsub.errors import SmartPubSubError
from smartpubsub.predicates import Predicate, PredicateError

_FORMAT = "smartpubsub-index"
_VERSION = 1
_HEADER_BYTES = 4096
FILTERS = "filters"

SECRET_VARIABLE = "INDEX_SECRET_OF_SMARTPUBSUB"
"""The environment variable with the key, in hex, for machines that share saved indexes."""
_KEY_FILE = "smartpubsub/index.key"
_KEY_BYTES = 32


class IndexFileError(SmartPubSubError):
    """A file that is not a saved index, or is damaged."""


class IndexFile:
    """A saved index, mapped; sections are views that live as long as they are used."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with path.open("rb") as file:
                self._bytes = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        except OSError as error:
            raise IndexFileError(f"{path}: {error.strerror}") from None
        except ValueError:
            raise IndexFileError(f"{path} is empty, not a saved index") from None
        self._sections = self._read_header()

    def _read_header(self) -> dict[str, list[int]]:
        try:
            header = json.loads(bytes(self._bytes[:_HEADER_BYTES]).split(b"\n", 1)[0])
            known = header["format"] == _FORMAT
        except (ValueError, TypeError, KeyError, RecursionError):
            known = False
        if not known:
            raise IndexFileError(f"{self.path} is not a saved index")
        version, size, sections = (header.get(name) for name in ("version", "bytes", "sections"))
        if version != _VERSION:
            raise IndexFileError(
                f"{self.path} has version {version} of the format, this package reads"
                f" version {_VERSION}; save the index again"
            )
        if size != len(self._bytes):
            raise IndexFileError(
                f"{self.path} is damaged: {len(self._bytes)} bytes instead of {size};"
                " save the index again"
            )
        if not isinstance(sections, dict) or not all(map(_is_place, sections.values())):
            raise IndexFileError(f"{self.path} is damaged in its first line; save the index again")
        self._seal = header.get("seal")
        return sections

    def __contains__(self, section: str) -> bool:
        return section in self._sections

    def section(self, name: str) -> memoryview:
        """The bytes of a section, after its checksum was verified."""
        start, size, checksum = self._sections.get(name, (0, 0, None))
        content = self._bytes[start : start + size]
        if zlib.crc32(content) != checksum:
            raise IndexFileError(f"{self.path} is damaged in its section {name!r}; save it again")
        return content

    @property
    def is_sealed(self) -> bool:
        """Whether this user has saved the file, on this machine or on one with the same key."""
        contents = {name: self._content(name) for name in self._sections}
        key = seal_key()
        return key is not None and compare_digest(_seal(contents, key), str(self._seal))

    def _content(self, name: str) -> memoryview:
        start, size, _ = self._sections[name]
        return self._bytes[max(0, start) : max(0, start + size)]

    def filters(self, section: str = FILTERS) -> Iterator[tuple[int, Predicate]]:
        """Parse every filter of a section."""
        try:
            lines = str(self.section(section), "utf-8").splitlines()
        except UnicodeDecodeError:
            raise IndexFileError(f"{self.path}: the filters are no text in UTF-8") from None
        for number, line in enumerate(lines, 1):
            key, _, text = line.partition(" ")
            try:
                yield int(key), Predicate.parse(text, attributes_max=len(text))
            except (PredicateError, ValueError) as error:
                raise IndexFileError(f"{self.path}: filter {number}: {error}") from None


def _is_place(place: object) -> bool:
    """Whether this is the offset, the length and the checksum of a section."""
    return isinstance(place, list) and [type(number) for number in place] == [int, int, int]


def seal_key() -> bytes | None:
    """The key of this user, which the first call creates; None if it cannot be stored."""
    try:
        if secret := os.environ.get(SECRET_VARIABLE):
            key = bytes.fromhex(secret)
        else:
            data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
            key = _kept_key(Path(data) / _KEY_FILE)
    except (OSError, RuntimeError, ValueError):
        return None
    return key if len(key) == _KEY_BYTES else None


def _kept_key(path: Path) -> bytes:
    if not path.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = path.with_name(f"{path.name}.{os.urandom(6).hex()}.partial")
        try:
            temporary.touch(mode=0o600, exist_ok=False)
            temporary.write_bytes(os.urandom(_KEY_BYTES))
            with suppress(FileExistsError):  # Another process was faster.
                path.hardlink_to(temporary)
        finally:
            temporary.unlink(missing_ok=True)
    return path.read_bytes()


def _seal(contents: Mapping[str, bytes | memoryview], key: bytes) -> str:
    digest = blake2b(key=key, digest_size=_KEY_BYTES)
    for name, content in contents.items():
        digest.update(f"{name} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


def filter_lines(filters: Iterable[tuple[int, Predicate]]) -> bytes:
    """Encode filters for the section `filters`."""
    return "".join(f"{key} {predicate}\n" for key, predicate in filters).encode()


def write_index(
    path: Path,
    filters: Iterable[tuple[int, Predicate]] | bytes,
    sections: Mapping[str, bytes | memoryview] | None = None,
) -> None:
    """Write a file whole or not at all; processes that have the old file mapped keep it."""
    text = filters if isinstance(filters, bytes) else filter_lines(filters)
    contents: dict[str, bytes | memoryview] = {FILTERS: text, **(sections or {})}
    places: dict[str, tuple[int, int, int]] = {}
    end = _HEADER_BYTES
    for name, content in contents.items():
        places[name] = (end, len(content), zlib.crc32(content))
        end += -(-len(content) // mmap.PAGESIZE) * mmap.PAGESIZE
    key = seal_key()
    seal = None if key is None else _seal(contents, key)
    header = {
        "format": _FORMAT,
        "version": _VERSION,
        "bytes": end,
        "sections": places,
        "seal": seal,
    }
    temporary = path.with_name(f"{path.name}.{os.urandom(6).hex()}.partial")
    try:
        with temporary.open("wb") as file:
            file.write(json.dumps(header).encode() + b"\n")
            for name, content in contents.items():
                file.seek(places[name][0])
                file.write(content)
            file.truncate(end)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise IndexFileError(f"{path}: cannot be written: {error.strerror}") from None
    finally:
        with suppress(OSError):
            temporary.unlink()
