"""6. A summarised set of filters matches on point events exactly what its members match.

On events with intervals it matches no less. The checker decides both exactly, without sampling. A
filter, read as an event, is the least specific event that it matches: so the summary loses nothing
exactly when each member, read as an event, matches some shown filter. The point event that a shown
filter matches and a member is least likely to match has that filter's names only, with bare topics:
so the summary gains nothing exactly when the members' ranges cover the shown filter's ranges.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TypeAlias

from smartpubsub.predicates import Interval, Predicate
from smartpubsub.predicates.numbers import Number, format_number
from smartpubsub.protocols.pubsub import Summary
from smartpubsub.sim.judging.checkers.facts import Facts
from smartpubsub.sim.judging.checkers.judgement import Judgement
from smartpubsub.sim.judging.checkers.violation import Violation
from smartpubsub.sim.judging.oracle import wants

INVARIANT = 6
_INFINITE = (float("-inf"), float("inf"))

_Box: TypeAlias = tuple[Interval | None, ...]
"""What a member wants of each range of a shown filter; None where any number matches."""


def check_summaries(facts: Facts) -> Judgement:
    """Check that no inspected summary lets through less than its members want, or more.

    A case is one summary of one node.
    """
    problems: dict[Summary, list[str]] = {}
    reported: dict[tuple[int, Summary], None] = {}
    judgement = Judgement()
    for at, node, inspection in facts.inspections:
        for summary in inspection.summaries:
            if (node, summary) in reported:
                continue
            reported[node, summary] = None
            if summary not in problems:
                problems[summary] = list(_problems(summary))
            judgement.judged += 1
            judgement.violations += [
                Violation(INVARIANT, at, node, f"node {node} shows {problem}")
                for problem in problems[summary]
            ]
    return judgement


def _problems(summary: Summary) -> Iterator[str]:
    members = dict.fromkeys(summary.members)
    shown = dict.fromkeys(summary.shown)
    for member in members:
        if member not in shown and not any(wants(one, member) for one in shown):
            yield f"filters that do not let through all that {member} wants, which it keeps"
    for one in shown:
        free = None if one in members else free_place(one, members)
        if free is not None:
            yield f"the filter {one}, and keeps none that wants {free}"


def free_place(shown: Predicate, members: Iterable[Predicate]) -> str | None:
    """A point event that a shown filter wants and no member does, in words, if there is one."""
    ranges = {name: wanted for name, wanted in shown.attributes.items() if wanted is not None}
    boxes = [
        tuple(member.attributes.get(name) for name in ranges)
        for member in members
        if _may_want(member, shown)
    ]
    place = _free_place(list(ranges.values()), boxes)
    if place is None:
        return None
    topics = [name for name in shown.attributes if name not in ranges]
    return " and ".join([*topics, *map(_said, ranges, place)])


def _may_want(member: Predicate, shown: Predicate) -> bool:
    """Whether a member wants some event that has the names of a shown filter, its topics bare."""
    names = shown.attributes
    return all(
        name in names and (wanted is None or names[name] is not None)
        for name, wanted in member.attributes.items()
    )


def _free_place(ranges: Sequence[Interval], boxes: Sequence[_Box]) -> list[Interval] | None:
    """A place in the ranges that is in none of the boxes, as far as these go into the ranges."""
    depth = len(boxes[0]) - len(ranges) if boxes else 0
    if any(_fills(box[depth:], ranges) for box in boxes):
        return None
    if not boxes:
        return [next(_places(one, ())) for one in ranges]
    if not ranges:
        return None
    looked_into: dict[tuple[int, ...], None] = {}
    for place in _places(ranges[0], (box[depth] for box in boxes)):
        around = tuple(n for n, box in enumerate(boxes) if _contains(box[depth], place))
        if around in looked_into:
            continue
        looked_into[around] = None
        rest = _free_place(ranges[1:], [boxes[number] for number in around])
        if rest is not None:
            return [place, *rest]
    return None


def _fills(box: _Box, ranges: Sequence[Interval]) -> bool:
    return all(map(_contains, box, ranges))


def _contains(wanted: Interval | None, place: Interval) -> bool:
    return wanted is None or (wanted.lo <= place.lo and place.hi <= wanted.hi)


def _places(within: Interval, others: Iterable[Interval | None]) -> Iterator[Interval]:
    """The numbers that bound intervals within a range, and the open gaps between them."""
    bounds: dict[Number, None] = dict.fromkeys(within)
    for other in others:
        for bound in other or ():
            if within.lo <= bound <= within.hi:
                bounds[bound] = None
    borders = sorted(bounds)
    for border in borders:
        if border not in _INFINITE:
            yield Interval(border, border)
    for lower, upper in pairwise(borders):
        yield Interval(lower, upper)


def _said(name: str, place: Interval) -> str:
    lower, upper = place
    if lower == upper:
        return f"{name}={format_number(lower)}"
    if lower in _INFINITE and upper in _INFINITE:
        return f"{name} at any number"
    if lower in _INFINITE:
        return f"{name} below {format_number(upper)}"
    if upper in _INFINITE:
        return f"{name} above {format_number(lower)}"
    return f"{name} between {format_number(lower)} and {format_number(upper)}"
