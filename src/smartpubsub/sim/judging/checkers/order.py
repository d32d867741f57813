"""5. A publisher's events come to a subscription in the publisher's order while nothing fails.

In a chained topic they do so always.

A case is one event that came to a subscription which got several events of its publisher. It is a
violation if an event that was published later had come to the subscription before. The time that
counts is from the call of publish to the delivery: what made the event late, or let another one
overtake it, happened in that time or follows from an earlier fault. So a case is excused if

- a crash, restart, join, pause or clog lies in that time, or ended less than a repair time before;
- a split lies in that time, or ended less than a refresh cycle before;
- a message was lost in that time: the copy that is sent again may come after its successors;
- the links of the network do not keep the order of messages, as TCP connections do.

Duplicated messages, slow links and wrong clocks excuse nothing.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise

from smartpubsub.protocols.publication import EventId
from smartpubsub.sim.judging.checkers.facts import Facts
from smartpubsub.sim.judging.checkers.judgement import Judgement
from smartpubsub.sim.judging.checkers.violation import Violation
from smartpubsub.sim.judging.journal import DeliveryRecord

INVARIANT = 5


def check_order(facts: Facts) -> Judgement:
    """Check that no subscription got an event after a later one of the same publisher."""
    judgement = Judgement()
    excuses = OrderExcuses(facts)
    for (_, node, subscription), arrivals in facts.arrivals.items():
        if len(arrivals) < 2:
            continue
        for arrival, overtaker in _with_overtakers(arrivals):
            reason = excuses.reason(arrival)
            if reason is not None:
                judgement.excuse(reason)
                continue
            judgement.judged += 1
            if overtaker is not None:
                what = (
                    f"node {node} got event {arrival.id} for its subscription {subscription}"
                    f" after event {overtaker.id}, which is a later one"
                )
                judgement.violations.append(Violation(INVARIANT, arrival.at_us, node, what))
    return judgement


def _with_overtakers(
    arrivals: Sequence[DeliveryRecord],
) -> Iterator[tuple[DeliveryRecord, DeliveryRecord | None]]:
    """Each arrival, with an earlier arrival of a later event if there is one."""
    latest: DeliveryRecord | None = None
    for arrival in arrivals:
        if latest is None or latest.id < arrival.id:
            yield arrival, None
            latest = arrival
        else:
            yield arrival, latest


class OrderExcuses:
    """The times of faults, and for each delivery the reason why it may be out of order."""

    def __init__(self, facts: Facts) -> None:
        self._events = facts.journal.events
        self._general = None if facts.promises_order else "not_promised"
        if facts.network_reorders and not facts.chained:
            self._general = self._general or "network_reorders"
        faults: list[tuple[int, int, str]] = []
        self._lost_us: list[int] = []
        if not facts.chained:
            faults += (
                (d.start_us, d.end_us + facts.repair_us, d.kind) for d in facts.journal.disturbances
            )
            faults += (
                (s.start_us, s.end_us + facts.refresh_us, "split") for s in facts.journal.splits
            )
            self._lost_us += sorted(facts.journal.lost_us)
        faults.sort()
        self._starts = [start for start, _, _ in faults]
        self._ends = list(accumulate(((end, kind) for _, end, kind in faults), max))
        """The latest end of a fault and of all that began before it, and the kind of that fault."""

    def reason(self, arrival: DeliveryRecord) -> str | None:
        """Why an event may come after a later one; None if it must not."""
        if self._general is not None:
            return self._general
        if not self._starts and not self._lost_us:
            return None
        event = self._events.get(arrival.id)
        if event is None:
            return "never_published"
        begun = bisect_right(self._starts, arrival.at_us)
        if begun and self._ends[begun - 1][0] >= event.called_us:
            return self._ends[begun - 1][1]
        next_lost = bisect_left(self._lost_us, event.called_us)
        if next_lost < len(self._lost_us) and self._lost_us[next_lost] <= arrival.at_us:
            return "message_lost"
        return None


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
