"""5. A publisher's events come to a subscription in the publisher's order while nothing fails.

In a chained topic they do so always.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise

from smartpubsub.protocols.publication import EventId
from smartpubsub.sim.judging.checkers.facts import Facts
from smartpubsub.sim.judging.checkers.violation import Violation

INVARIANT = 5


def check_order(facts: Facts) -> list[Violation]:
    """No subscription gets two events of a publisher in the other order."""
    if not facts.promises_order or (facts.has_faults and not facts.chained):
        return []
    return [
        Violation(
            INVARIANT,
            later.at_us,
            node,
            f"node {node} got event {later.id} for its subscription {subscription}"
            f" after event {earlier.id}, which is a later one",
        )
        for (_, node, subscription), arrivals in facts.arrivals.items()
        for earlier, later in pairwise(arrivals)
        if later.id < earlier.id
    ]


def inversions(sequence: Sequence[EventId]) -> int:
    """How many pairs stand in the other order than theirs."""
    return _sorted_and_inversions(sequence)[1]


def _sorted_and_inversions(part: Sequence[EventId]) -> tuple[Sequence[EventId], int]:
    if all(one <= next_one for one, next_one in pairwise(part)):
        return part, 0
    middle = len(part) // 2
    left, left_count = _sorted_and_inversions(part[:middle])
    right, right_count = _sorted_and_inversions(part[middle:])
    between = sum(len(left) - bisect_right(left, item) for item in right)
    return sorted([*left, *right]), left_count + right_count + between
