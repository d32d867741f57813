"""The written form of predicates: parse both notations, print the current one."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import NoReturn

from smartpubsub.predicates.attributes import Attributes, Interval, checked_interval
from smartpubsub.predicates.errors import PredicateError, shown
from smartpubsub.predicates.names import check_name, decode_name, encode_name, written_length
from smartpubsub.predicates.numbers import Number, format_number, parse_number

_TOKEN = re.compile(r"[^ ]+")


def parse_attributes(text: str, attributes_max: int) -> Attributes:
    """Parse `surf/price[10,20]`, or `surf T/price R 10 20`, the notation of the first
    implementation."""
    attributes: Attributes = {}
    start = 0
    for segment in text.split("/"):
        name, interval = _Segment(text, start, start + len(segment)).attribute()
        if name in attributes:
            raise PredicateError(
                f"the name {encode_name(name)!r} is repeated; write each attribute once",
                text=text,
                column=start + 1,
            )
        if len(attributes) >= attributes_max:
            raise PredicateError(
                f"too many attributes; at most {attributes_max} are allowed",
                text=text,
                column=start + 1,
            )
        attributes[name] = interval
        start += len(segment) + 1
    return attributes


def format_attributes(attributes: Mapping[str, Interval | None]) -> str:
    """Print attributes so that parsing them gives the same attributes."""
    return "/".join(format_attribute(name, interval) for name, interval in attributes.items())


def format_attribute(name: str, interval: Interval | None) -> str:
    """Print one attribute: `surf`, `price=15`, `price[10,20]`, `price[10,]`."""
    written = encode_name(name)
    if interval is None:
        return written
    if interval.lo == interval.hi:
        return f"{written}={format_number(interval.lo)}"
    lo = "" if interval.lo == -math.inf else format_number(interval.lo)
    hi = "" if interval.hi == math.inf else format_number(interval.hi)
    return f"{written}[{lo},{hi}]"


class _Segment:
    """One attribute of a text, with its columns for error messages."""

    def __init__(self, text: str, start: int, end: int) -> None:
        self._text = text
        self._start = start
        self._end = end

    def attribute(self) -> tuple[str, Interval | None]:
        name_end = self._start + written_length(self._text, self._start)
        if self._text.startswith("%", name_end):
            self._expected("two hexadecimal digits after '%'", name_end, name_end + 3)
        if name_end == self._start:
            self._expected("an attribute name", self._start)
        name = self._name(name_end)
        rest = self._text[name_end : self._end]
        if not rest:
            return name, None
        if rest[0] == "=":
            return name, self._point(name_end + 1, self._end)
        if rest[0] == "[":
            return name, self._range(name_end)
        if rest[0] == " ":
            return name, self._first_notation(name_end)
        return self._expected("'/', '=', '[' or the end after a name", name_end)

    def _name(self, end: int) -> str:
        try:
            name = decode_name(self._text[self._start : end])
            check_name(name)
        except ValueError as error:
            self._fail(str(error), self._start)
        return name

    def _range(self, opening: int) -> Interval:
        if self._text[self._end - 1] != "]":
            closing = self._text.find("]", opening, self._end)
            if closing >= 0:
                self._expected("'/' or the end after ']'", closing + 1)
            self._expected("']' after the bounds", self._end)
        start, end = opening + 1, self._end - 1
        commas = [at for at in range(start, end) if self._text[at] == ","]
        if not commas:
            return self._point(*self._trimmed(start, end))
        if len(commas) > 1:
            self._expected("']' after the upper bound", commas[1])
        lo = self._bound(*self._trimmed(start, commas[0]), missing=-math.inf)
        hi = self._bound(*self._trimmed(commas[0] + 1, end), missing=math.inf)
        return self._interval(lo, hi, start)

    def _first_notation(self, name_end: int) -> Interval | None:
        tokens = list(_TOKEN.finditer(self._text, name_end, self._end))
        if not tokens or tokens[0][0] not in ("T", "R"):
            self._fail("a space is not allowed here; in a name, write it as %20", name_end)
        wanted = 1 if tokens[0][0] == "T" else 3
        if len(tokens) > wanted:
            self._expected("'/' or the end", tokens[wanted].start())
        if len(tokens) < wanted:
            self._expected("two numbers after 'R'", self._end)
        if wanted == 1:
            return None
        lo, hi = (self._bound(token.start(), token.end(), missing=None) for token in tokens[1:])
        return self._interval(lo, hi, tokens[1].start())

    def _point(self, start: int, end: int) -> Interval:
        number = self._bound(start, end, missing=None)
        return Interval(number, number)

    def _bound(self, start: int, end: int, *, missing: float | None) -> Number:
        if start == end and missing is not None:
            return missing
        try:
            return parse_number(self._text[start:end])
        except ValueError as error:
            problem = str(error)
            if not problem.startswith("expected"):
                self._fail(problem, start)
            self._expected(problem.removeprefix("expected "), start, end)

    def _interval(self, lo: Number, hi: Number, column: int) -> Interval:
        try:
            return checked_interval(lo, hi)
        except ValueError as error:
            self._fail(str(error), column)

    def _trimmed(self, start: int, end: int) -> tuple[int, int]:
        while start < end and self._text[start] == " ":
            start += 1
        while start < end and self._text[end - 1] == " ":
            end -= 1
        return start, end

    def _expected(self, what: str, at: int, end: int = 0) -> NoReturn:
        found = self._text[at:end] or self._text[at : at + 1]
        self._fail(f"expected {what}, found {shown(found)}", at)

    def _fail(self, problem: str, at: int) -> NoReturn:
        raise PredicateError(problem, text=self._text, column=at + 1)
