"""An SQL-like front end: `portugal and temp between 20 and 30`.

It accepts what a predicate can express: names and closed comparisons, joined by AND. Other SQL is
refused, with the reason and what to write instead.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple, NoReturn

from smartpubsub.predicates.attributes import Attributes, Interval, checked_interval
from smartpubsub.predicates.errors import PredicateError, shown
from smartpubsub.predicates.names import check_name, is_name_character
from smartpubsub.predicates.numbers import Number, parse_number

_TOKEN = re.compile(
    r"""(?P<space>\s+)
      | (?P<value>'[^']*'|[+-]?\.?[0-9][0-9A-Za-z.:+-]*)
      | (?P<quoted>"(?:[^"]|"")*")
      | (?P<operator><=|>=|<>|!=|[=<>(),*])
      | (?P<word>[^\s'"<>=!(),*+-][^\s'"<>=!(),*]*)
      | (?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
_KEYWORDS = frozenset(["and", "between", "or", "not", "in", "is", "like", "null"])
_BOUNDED = {">=": (True, False), "<=": (False, True), "=": (True, True)}
_UNSAYABLE = {
    "<": "predicates have closed ranges, without '<'; write '<='",
    ">": "predicates have closed ranges, without '>'; write '>='",
    "<>": "a predicate cannot exclude a value; leave it out and check at the receiver",
    "!=": "a predicate cannot exclude a value; leave it out and check at the receiver",
    "in": "a predicate has no alternatives; subscribe once for each value",
    "like": "a predicate has no patterns; use a topic for each word",
    "is": "a predicate has no NULL; the bare name asks for an attribute of any value",
    "or": "a predicate has no alternatives; subscribe once for each side of OR",
    "not": "a predicate cannot exclude anything; leave it out and check at the receiver",
    "(": "a predicate is a flat list joined by AND; leave the parentheses out",
}
_FOR_WORDS = " (words are not compared; use a topic for each)"


class _Token(NamedTuple):
    kind: str
    text: str
    column: int

    @property
    def lowered(self) -> str:
        return self.text.lower() if self.kind in ("word", "operator") else ""


def parse_where(text: str, attributes_max: int) -> Attributes:
    """Parse a condition; raise PredicateError with the column of what cannot be expressed."""
    return _Where(text, attributes_max).parse()


class _Where:
    def __init__(self, text: str, attributes_max: int) -> None:
        self._text = text
        self._attributes_max = attributes_max
        self._tokens = [
            _Token(match.lastgroup or "", match[0], match.start() + 1)
            for match in _TOKEN.finditer(text)
            if match.lastgroup != "space"
        ]
        self._tokens.append(_Token("end", "", len(text) + 1))
        self._at = 0

    def parse(self) -> Attributes:
        attributes: Attributes = {}
        while True:
            start = self._peek()
            name = self._name()
            interval = self._comparison()
            if name in attributes:
                interval = self._intersection(attributes[name], interval, start)
            elif len(attributes) >= self._attributes_max:
                self._fail(
                    f"too many attributes; at most {self._attributes_max} are allowed", start
                )
            attributes[name] = interval
            joint = self._next()
            if joint.kind == "end":
                return attributes
            if joint.lowered != "and":
                self._expected("AND or the end", joint)

    def _name(self) -> str:
        token = self._next()
        if token.kind == "quoted":
            name = token.text[1:-1].replace('""', '"')
        elif token.kind == "word" and token.lowered not in _KEYWORDS:
            name = token.text
            for offset, character in enumerate(name):
                if not is_name_character(character):
                    self._fail(
                        f"{character!r} cannot be in a bare name; put the name in double quotes",
                        token._replace(column=token.column + offset),
                    )
        else:
            self._expected("an attribute name", token)
        try:
            check_name(name)
        except ValueError as error:
            self._fail(str(error), token)
        return name

    def _comparison(self) -> Interval | None:
        token = self._peek()
        if token.lowered == "between":
            self._next()
            lo = self._number()
            joint = self._next()
            if joint.lowered != "and":
                self._expected("AND between the bounds", joint)
            return self._interval(lo, self._number(), token)
        if token.lowered in _BOUNDED:
            self._next()
            below, above = _BOUNDED[token.lowered]
            number = self._number()
            return Interval(number if below else -math.inf, number if above else math.inf)
        if token.lowered in _UNSAYABLE and token.lowered != "(":
            self._fail(_UNSAYABLE[token.lowered], token)
        return None

    def _number(self) -> Number:
        token = self._next()
        if token.kind != "value":
            self._expected(f"a number or a date{_FOR_WORDS}", token)
        try:
            return parse_number(token.text.strip("'"))
        except ValueError as error:
            remedy = _FOR_WORDS if str(error).startswith("expected") else ""
            self._fail(f"{error}{remedy}, found {shown(token.text)}", token)

    def _intersection(
        self, earlier: Interval | None, later: Interval | None, at: _Token
    ) -> Interval | None:
        if earlier is None or later is None:
            return earlier or later
        return self._interval(max(earlier.lo, later.lo), min(earlier.hi, later.hi), at)

    def _interval(self, lo: Number, hi: Number, at: _Token) -> Interval:
        try:
            return checked_interval(lo, hi)
        except ValueError as error:
            self._fail(str(error), at)

    def _peek(self) -> _Token:
        return self._tokens[self._at]

    def _next(self) -> _Token:
        token = self._tokens[self._at]
        self._at = min(self._at + 1, len(self._tokens) - 1)
        return token

    def _expected(self, what: str, token: _Token) -> NoReturn:
        if token.lowered in _UNSAYABLE:
            self._fail(_UNSAYABLE[token.lowered], token)
        self._fail(f"expected {what}, found {shown(token.text)}", token)

    def _fail(self, problem: str, token: _Token) -> NoReturn:
        raise PredicateError(problem, text=self._text, column=token.column)
