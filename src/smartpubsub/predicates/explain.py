"""Why an event matches a filter, or does not, attribute by attribute."""

from __future__ import annotations

from typing import NamedTuple

from smartpubsub.predicates.grammar import format_attribute
from smartpubsub.predicates.predicate import Predicate


class Verdict(NamedTuple):
    """One attribute of a filter: what it wants, what the event has, and whether that meets it."""

    name: str
    wanted: str
    got: str | None
    met: bool


def explain(filter: Predicate, event: Predicate) -> list[Verdict]:
    """One verdict for each attribute of the filter; the event matches when all are met.

    >>> explain(Predicate.parse("price[10,20]"), Predicate.parse("price=25"))
    [Verdict(name='price', wanted='price[10,20]', got='price=25', met=False)]
    """
    verdicts = []
    for name, wanted in filter.attributes.items():
        got = None
        if name in event.attributes:
            got = format_attribute(name, event.attributes[name])
        met = Predicate.unchecked({name: wanted}).matches(event)
        verdicts.append(Verdict(name, format_attribute(name, wanted), got, met))
    return verdicts
