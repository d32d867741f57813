"""The predicate: what a subscriber wants, and what an event contains."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType

from smartpubsub.predicates.attributes import ATTRIBUTES_MAX, Attributes, Interval
from smartpubsub.predicates.grammar import format_attributes, parse_attributes
from smartpubsub.predicates.mapping import attributes_of
from smartpubsub.predicates.where import parse_where

_CACHED_LENGTH_MAX = 256


class Predicate:
    """A conjunction of attributes: topics (`surf`) and ranges (`price[10,20]`).

    >>> Predicate.parse("surf/price[10,20]").matches("surf/portugal/price=15")
    True

    Predicates are immutable. Two are equal when they have the same attributes, in any order;
    `str` keeps the order in which they were written.
    """

    __slots__ = ("_attributes", "_hash", "_text")

    _attributes: Attributes
    _hash: int | None
    _text: str | None

    def __init__(self) -> None:
        raise TypeError("use Predicate.parse, Predicate.where or Predicate.of to make a predicate")

    @classmethod
    def unchecked(cls, attributes: Attributes) -> Predicate:
        """Make a predicate of attributes that are known to be valid and will not change."""
        predicate = object.__new__(cls)
        predicate._attributes = attributes
        predicate._hash = predicate._text = None
        return predicate

    @classmethod
    def parse(cls, text: str, attributes_max: int = ATTRIBUTES_MAX) -> Predicate:
        """Parse `surf/price[10,20]`; raise PredicateError with the column of the mistake.

        >>> str(Predicate.parse("surf T/price R 1000 1500"))
        'surf/price[1000,1500]'
        """
        if len(text) <= _CACHED_LENGTH_MAX:
            return _parsed(text, attributes_max)
        return cls.unchecked(parse_attributes(text, attributes_max))

    @classmethod
    def where(cls, text: str, attributes_max: int = ATTRIBUTES_MAX) -> Predicate:
        """Parse an SQL-like condition, limited to what a predicate can express.

        >>> str(Predicate.where("portugal and temp between 20 and 30"))
        'portugal/temp[20,30]'
        """
        return cls.unchecked(parse_where(text, attributes_max))

    @classmethod
    def of(
        cls, attributes: Mapping[str, object], attributes_max: int = ATTRIBUTES_MAX
    ) -> Predicate:
        """Make a predicate from a mapping: True for a topic, a number, or a pair of bounds.

        >>> str(Predicate.of({"portugal": True, "temp": (20, None)}))
        'portugal/temp[20,]'
        """
        return cls.unchecked(attributes_of(attributes, attributes_max))

    @property
    def attributes(self) -> Mapping[str, Interval | None]:
        """The interval of each name, None for a topic."""
        return MappingProxyType(self._attributes)

    def matches(self, event: Predicate | str) -> bool:
        """Whether an event has every attribute that this filter wants.

        >>> Predicate.parse("price[10,]").matches("price=9.99")
        False
        """
        carried = as_predicate(event)._attributes
        for name, wanted in self._attributes.items():
            if name not in carried:
                return False
            if wanted is not None:
                got = carried[name]
                if got is None or got[0] < wanted[0] or wanted[1] < got[1]:
                    return False
        return True

    def covers(self, other: Predicate | str) -> bool:
        """Whether this filter matches every event that `other` matches.

        >>> Predicate.parse("price").covers("surf/price[10,20]")
        True
        """
        # A filter, read as an event, states the least that its events state.
        return self.matches(other)

    def merge(self, other: Predicate | str) -> Predicate | None:
        """The single filter that matches exactly the union of both, or None.

        >>> Predicate.parse("surf/price[10,20]").merge("surf/price[20,30]")
        Predicate('surf/price[10,30]')
        >>> Predicate.parse("price[10,20]").merge("price[21,30]") is None
        True
        """
        other = as_predicate(other)
        if self.covers(other):
            return self
        if other.covers(self):
            return other
        if self._attributes.keys() != other._attributes.keys():
            return None
        differing = [n for n, mine in self._attributes.items() if mine != other._attributes[n]]
        if len(differing) != 1:
            return None
        mine, theirs = self._attributes[differing[0]], other._attributes[differing[0]]
        if mine is None or theirs is None or not mine.touches(theirs):
            return None
        return Predicate.unchecked({**self._attributes, differing[0]: mine.hull(theirs)})

    def canonical(self) -> Predicate:
        """The equal predicate with its attributes in the order of their names.

        >>> str(Predicate.parse("surf/price=15.0").canonical())
        'price=15/surf'
        """
        return Predicate.unchecked(
            {name: self._attributes[name] for name in sorted(self._attributes)}
        )

    def __str__(self) -> str:
        if self._text is None:
            self._text = format_attributes(self._attributes)
        return self._text

    def __repr__(self) -> str:
        return f"Predicate({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Predicate) and self._attributes == other._attributes

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self._attributes.items()))
        return self._hash

    def __len__(self) -> int:
        return len(self._attributes)

    def __reduce__(self) -> tuple[Callable[[Attributes], Predicate], tuple[Attributes]]:
        return Predicate.unchecked, (self._attributes,)


@lru_cache(maxsize=1 << 10)
def _parsed(text: str, attributes_max: int) -> Predicate:
    """Parse a text, once for all its later occurrences."""
    return Predicate.unchecked(parse_attributes(text, attributes_max))


def as_predicate(value: Predicate | str, attributes_max: int = ATTRIBUTES_MAX) -> Predicate:
    """Return a predicate, parsing it if it is text."""
    if isinstance(value, Predicate):
        return value
    if isinstance(value, str):
        return Predicate.parse(value, attributes_max)
    raise TypeError(f"expected a Predicate or a text, found {type(value).__name__}")
