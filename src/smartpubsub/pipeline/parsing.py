"""Lines of JSON and CSV as values of the mapped columns.

The values of CSV are texts. Those of JSON are of any kind, because dumps mix them in one column.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

NOT_UTF8 = "not UTF-8"
NOT_AN_OBJECT = "not a JSON object"

_MARK = "\ufeff".encode()
_BLANKS_OF_JSON = b" \t\r\n"
_BLANKS_OF_CSV = bytes(range(33))


class Parsed(NamedTuple):
    """Rows by column, and the errors of some of them."""

    columns: Mapping[str, Sequence[Any]]
    lines: Sequence[bytes]
    """The line of each row."""
    problems: Mapping[int, str]
    """Why a row could not be read; its values are None."""


Parser: TypeAlias = Callable[[pa.Array], Parsed]


class Number(float):
    """A JSON number that remembers its text."""

    text: str

    def __new__(cls, text: str) -> Number:
        """Read a number."""
        number = super().__new__(cls, text)
        number.text = text
        return number


class JsonParser:
    """Reads some members of JSON objects, one in each line."""

    def __init__(self, names: Sequence[str]) -> None:
        self._fields = {f"f{number}": name for number, name in enumerate(names)}
        # Only these members are decoded, which takes a fraction of the time.
        row = msgspec.defstruct(
            "Row", [(field, Any, None) for field in self._fields], rename=self._fields
        )
        self._row: Callable[..., object] = row
        self._decode = msgspec.json.Decoder(row, float_hook=Number).decode

    def __call__(self, lines: pa.Array) -> Parsed:
        """Parse lines; skip blank ones, and split lists of objects."""
        is_checked = _is_utf8(lines)
        rows: list[object] = []
        own: list[bytes] = []
        problems: dict[int, str] = {}
        decode = self._decode
        for line in lines.to_pylist():
            try:
                if not is_checked:
                    line.decode()
                rows.append(decode(line))
                own.append(line)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                for text, row, problem in self._unusual(line):
                    if problem is not None:
                        problems[len(rows)] = problem
                    rows.append(row)
                    own.append(text)
        columns = {
            name: [getattr(row, field) for row in rows] for field, name in self._fields.items()
        }
        return Parsed(columns, own, problems)

    def _unusual(self, line: bytes) -> Iterator[tuple[bytes, object, str | None]]:
        """The rows of a line that is not simply an object."""
        if not line.strip(_BLANKS_OF_JSON):
            return
        try:
            # Python's parser knows NaN, which some programs write.
            found = json.loads(line.removeprefix(_MARK).decode(), parse_float=Number)
            # Raises an error for text that is no Unicode, and for too deep nesting.
            json.dumps(found, ensure_ascii=False).encode()
        except UnicodeDecodeError:
            yield line, self._row(), NOT_UTF8
        except (ValueError, RecursionError):
            yield line, self._row(), NOT_AN_OBJECT
        else:
            if isinstance(found, dict):
                yield line, self._of(found), None
            elif isinstance(found, list) and all(isinstance(one, dict) for one in found):
                for one in found:
                    yield json.dumps(one, ensure_ascii=False).encode(), self._of(one), None
            else:
                yield line, self._row(), NOT_AN_OBJECT

    def _of(self, members: Mapping[str, object]) -> object:
        return self._row(**{field: members.get(name) for field, name in self._fields.items()})


class CsvParser:
    """Reads some columns of CSV."""

    def __init__(self, names: Sequence[str], header: Sequence[str], separator: str) -> None:
        self._names = names
        self._places = [header.index(name) for name in names]
        self._separator = separator
        self._width = len(header)

    def __call__(self, lines: pa.Array) -> Parsed:
        """Parse lines without the header; skip blank ones."""
        rows: list[Sequence[str | None]] = []
        own: list[bytes] = []
        problems: dict[int, str] = {}
        nothing = [None] * self._width
        for line in lines.to_pylist():
            if not line.strip(_BLANKS_OF_CSV):
                continue
            try:
                row = cells(line, self._separator)
            except UnicodeDecodeError:
                row, problems[len(rows)] = (), NOT_UTF8
            except csv.Error:
                row = ()
            if len(row) != self._width:
                said = f"not a row of the {self._width} columns of the header"
                problems.setdefault(len(rows), said)
            rows.append(row if len(row) == self._width else nothing)
            own.append(line)
        columns = {
            name: [row[place] for row in rows]
            for name, place in zip(self._names, self._places, strict=True)
        }
        return Parsed(columns, own, problems)


def cells(line: bytes, separator: str) -> Sequence[str]:
    """The cells of a line of CSV; raise an error if it is not one.

    >>> cells(b'"a, b",c', ",")
    ['a, b', 'c']
    """
    text = line.removeprefix(_MARK).decode()
    return next(csv.reader([text], delimiter=separator, strict=True), [])


def header_of(lines: Sequence[bytes], separator: str) -> tuple[Sequence[str], int]:
    """The cells of the first line that is not blank, and how many lines to skip for it."""
    for number, line in enumerate(lines):
        if line.strip(_BLANKS_OF_CSV):
            return cells(line, separator), number + 1
    return [], len(lines)


def _is_utf8(lines: pa.Array) -> bool:
    try:
        pc.cast(lines, pa.string())
    except pa.ArrowInvalid:
        return False
    return True
