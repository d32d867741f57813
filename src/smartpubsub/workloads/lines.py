"""Files of JSON lines, plain or compressed, read one object at a time."""

from __future__ import annotations

import codecs
import gzip
import json
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, NoReturn

from smartpubsub.protocols.publication import PAYLOAD_BYTES_MAX, too_long
from smartpubsub.workloads.errors import WorkloadError

LINES_MAX = 10_000_000
LINE_BYTES_MAX = 64 * 1024 * 1024
NODE_BYTES_MAX = 1024

_GZIP_MAGIC = b"\x1f\x8b"
_SHOWN_CHARACTERS_MAX = 40


class Line(NamedTuple):
    """A line that holds a JSON object, and its place."""

    path: Path
    number: int
    fields: dict[str, object]

    def fail(self, problem: str) -> NoReturn:
        """Raise an error about this line."""
        raise WorkloadError(problem, path=self.path, line=self.number)

    def text(self, key: str) -> str:
        """A required text field."""
        value = self.fields.get(key)
        if not isinstance(value, str):
            self.fail(f"{key} is a text in quotes, {found(self.fields, key)}")
        return self.encodable(key, value)

    def node(self) -> str:
        """The name of the line's node."""
        name = self.text("node")
        if not 1 <= len(name.encode()) <= NODE_BYTES_MAX:
            self.fail(f"the name of a node has 1 to {NODE_BYTES_MAX} bytes; choose another")
        return name

    def payload(self, key: str, text: str) -> bytes:
        """The payload of an event, in the size that nodes accept."""
        payload = self.encodable(key, text).encode()
        if len(payload) > PAYLOAD_BYTES_MAX:
            self.fail(f"{key} has {len(payload):,} bytes, and {too_long()}")
        return payload

    def encodable(self, key: str, value: str) -> str:
        """Return a text if it can be encoded as UTF-8."""
        try:
            value.encode()
        except UnicodeEncodeError:
            self.fail(f"{key} contains half of a surrogate pair; write the whole character")
        return value


def found(fields: dict[str, object], key: str) -> str:
    """Describe what was found instead, for an error message.

    >>> found({"node": 5}, "node"), found({}, "node")
    ('found 5', 'and it is missing')
    """
    return f"found {_shown(fields[key])}" if key in fields else "and it is missing"


def _shown(value: object) -> str:
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    text = json.dumps(value)
    cut = len(text) > _SHOWN_CHARACTERS_MAX
    return f"{text[:_SHOWN_CHARACTERS_MAX]}{'...' if cut else ''}"


def read_lines(path: Path) -> Iterator[Line]:
    """The objects in a file; blank lines are ignored."""
    for number, content in _numbered(path):
        if content.strip():
            yield Line(path, number, _object(path, number, content))


def _numbered(path: Path) -> Iterator[tuple[int, bytes]]:
    try:
        with path.open("rb") as raw:
            # Detected by content, because a pipe has no name.
            is_compressed = raw.peek(len(_GZIP_MAGIC)).startswith(_GZIP_MAGIC)
            file = gzip.GzipFile(fileobj=raw) if is_compressed else raw
            number = 0
            while content := file.readline(LINE_BYTES_MAX + 1):
                number += 1
                if number == 1:
                    # Some editors write a byte order mark first.
                    content = content.removeprefix(codecs.BOM_UTF8)
                if len(content) > LINE_BYTES_MAX:
                    raise WorkloadError(
                        f"a line has at most {LINE_BYTES_MAX} bytes; divide it",
                        path=path,
                        line=number,
                    )
                if number > LINES_MAX:
                    raise WorkloadError(
                        f"more than {LINES_MAX} lines; divide the workload into several files",
                        path=path,
                    )
                yield number, content
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise WorkloadError(
            f"the compressed file is damaged ({error}); make it again", path=path
        ) from None
    except OSError as error:
        raise WorkloadError(f"{error.strerror}; check the file's name", path=path) from None


class _RefusedError(ValueError):
    """Content that Python's JSON reader accepts and a workload must not have."""


def _object(path: Path, number: int, content: bytes) -> dict[str, object]:
    def fail(problem: str) -> NoReturn:
        raise WorkloadError(problem, path=path, line=number) from None

    try:
        value = json.loads(
            content.decode().rstrip(),
            object_pairs_hook=_without_repetition,
            parse_constant=_no_such_number,
        )
    except UnicodeDecodeError as error:
        fail(f"byte {error.start + 1} of the line is not UTF-8; save the file as UTF-8")
    except json.JSONDecodeError as error:
        fail(f"not JSON: {error.msg}, column {error.colno}; write one JSON object on each line")
    except RecursionError:
        fail("not a workload: too many brackets within brackets; write one flat object")
    except _RefusedError as error:
        fail(f"{error}")
    except ValueError:  # A number is too long. Python's text names a Python function as the remedy.
        fail(f"a number has more than {sys.get_int_max_str_digits()} digits; write a shorter one")
    if not isinstance(value, dict):
        fail(
            f'expected an object such as {{"node": "n1", "subscribe": "surf"}},'
            f" found {_shown(value)}; write one on each line"
        )
    return value


def _without_repetition(pairs: list[tuple[str, object]]) -> dict[str, object]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _RefusedError(f"{key!r} is repeated in one object; write it once")
            seen.add(key)
    return fields


def _no_such_number(name: str) -> NoReturn:
    raise _RefusedError(f"{name} is not a number in JSON; write a finite number")
