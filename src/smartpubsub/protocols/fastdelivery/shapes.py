"""Which groups a search finds, and the group that every search for an event finds."""

from __future__ import annotations

import math

from smartpubsub.predicates import Interval, Predicate

_ANY_NUMBER = Interval(-math.inf, math.inf)


def finds(searched: Predicate, group: Predicate) -> bool:
    """Whether a group has every attribute that is searched for, and contains the ranges.

    >>> group = Predicate.parse("portugal/price[0,9]")
    >>> [finds(Predicate.parse(text), group) for text in ("portugal", "price[1,2]", "price[5,15]")]
    [True, True, False]
    """
    offered = group.attributes
    for name, wanted in searched.attributes.items():
        if name not in offered:
            return False
        if wanted is not None:
            got = offered[name]
            if got is None or wanted.lo < got.lo or got.hi < wanted.hi:
                return False
    return True


def shape_of(event: Predicate) -> Predicate:
    """Return the predicate with an event's names in which every number may be any number.

    A subscriber that wants the event searches for some of these names and for ranges within these.
    So every such search finds a group with this predicate.

    >>> str(shape_of(Predicate.parse("surf/trip/price=1300")))
    'surf/trip/price[,]'
    """
    carried = event.attributes.items()
    return Predicate.unchecked(
        {name: None if interval is None else _ANY_NUMBER for name, interval in carried}
    )
