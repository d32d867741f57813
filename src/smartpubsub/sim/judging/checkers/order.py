"""5. A publisher's events come to a subscription in the publisher's order while nothing fails.

In a chained topic they do so always, and all subscriptions get the events of all its authors in one
order: the checker compares each subscription with the one that got most of them. A case is then one
event that came to both. Adversaries excuse it, because a publisher that lies can fork the chain.

Otherwise a case is one event that came to a subscription which got several events of its publisher.
It is a violation if an event that was published later had come to the subscription before. The time
that counts is from the call of publish to the delivery: the cause of the delay, or of the
overtaking, lies in that time or follows from an earlier fault. So a case is excused if

- a crash, departure, restart, pause or clog is in that time, or less than a repair time before;
- a split lies in that time, or ended less than a refresh cycle before;
- a message was lost in that time: the copy that is sent again may come after its successors;
- the links of the network do not keep the order of messages, as TCP connections do;
- some nodes are adversaries: an event that one of them has withheld comes after its successors.

A fault off the path excuses nothing: the node handled no event of the publisher in the whole run,
and an event of the publisher had come to the subscription before the fault, so that there was a
path without the node.

Duplicated messages, slow links, wrong clocks and nodes that join excuse nothing.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise

from smartpubsub.protocols.publication import EventId
from smartpubsub.seam import Peer
from smartpubsub.sim.judging.checkers.facts import Facts
from smartpubsub.sim.judging.checkers.judgement import Judgement
from smartpubsub.sim.judging.checkers.violation import Violation
from smartpubsub.sim.judging.journal import DeliveryRecord

INVARIANT = 5


def check_order(facts: Facts) -> Judgement:
    """Check that no subscription got an event after a later one of the same publisher."""
    judgement = Judgement()
    excuses = OrderExcuses(facts)
    for listener, arrivals in facts.arrivals.items():
        if len(arrivals) < 2:
            continue
        _, node, subscription = listener
        for arrival, overtaker in _with_overtakers(arrivals):
            reason = excuses.reason(arrival, arrivals[0].at_us)
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
    for chain in facts.chains.values():
        _judge_chain(facts, chain, judgement)
    return judgement


def _judge_chain(
    facts: Facts, chain: Mapping[tuple[int, int], Sequence[DeliveryRecord]], judgement: Judgement
) -> None:
    """Judge whether the subscriptions of a chained topic got its events in one order."""
    longest = max(chain.values(), key=len)
    places = {arrival.id: place for place, arrival in enumerate(longest)}
    for (node, subscription), arrivals in chain.items():
        if arrivals is longest:
            continue
        common = [arrival for arrival in arrivals if arrival.id in places]
        if facts.has_adversaries:
            judgement.excuse("adversaries", len(common))
            continue
        judgement.judged += len(common)
        for before, arrival in pairwise(common):
            if places[before.id] > places[arrival.id]:
                what = (
                    f"node {node} got event {arrival.id} for its subscription {subscription} after"
                    f" event {before.id} of the same topic, and node {longest[0].node} before it"
                )
                judgement.violations.append(Violation(INVARIANT, arrival.at_us, node, what))


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


class _Faults:
    """The times of some faults, with the repair time after each."""

    def __init__(self, times: Iterable[tuple[int, int, str]]) -> None:
        in_order = sorted(times)
        self._starts = [start for start, _, _ in in_order]
        self._ends = list(accumulate(((end, kind) for _, end, kind in in_order), max))
        """For each fault, the latest end among it and those before it, and the kind of that one."""

    def overlapping(self, since_us: int, until_us: int, begun_us: int) -> str | None:
        """The kind of a fault that overlaps a period and had begun by a time, if there is one."""
        begun = bisect_right(self._starts, min(until_us, begun_us))
        if not begun:
            return None
        end_us, kind = self._ends[begun - 1]
        return kind if end_us >= since_us else None


class OrderExcuses:
    """For each delivery the reason why it may be out of order."""

    def __init__(self, facts: Facts) -> None:
        self._journal = facts.journal
        self._repair_us = facts.repair_us
        self._general = None if facts.promises_order else "not_promised"
        if facts.network_reorders and not facts.chained:
            self._general = self._general or "network_reorders"
        if facts.has_adversaries and not facts.chained:
            self._general = self._general or "adversaries"
        self._is_chained = facts.chained
        splits = [(s.start_us, s.end_us + facts.refresh_us, "split") for s in facts.journal.splits]
        self._splits = _Faults(splits)
        self._lost_us = sorted(facts.journal.lost_us)
        self._by_publisher: dict[Peer, tuple[_Faults, _Faults]] = {}

    def reason(self, arrival: DeliveryRecord, known_us: int) -> str | None:
        """Why an event may come after a later one; None if it must not.

        The path of its publisher's events to the subscription is known since `known_us`, when the
        first of them came.
        """
        if self._general is not None or self._is_chained:
            return self._general
        event = self._journal.events.get(arrival.id)
        if event is None:
            return "never_published"
        since_us, until_us = event.called_us, arrival.at_us
        on_path, elsewhere = self._faults_of(arrival.id.publisher)
        return (
            self._splits.overlapping(since_us, until_us, until_us)
            or on_path.overlapping(since_us, until_us, until_us)
            or elsewhere.overlapping(since_us, until_us, known_us)
            or ("message_lost" if self._was_lost(since_us, until_us) else None)
        )

    def _faults_of(self, publisher: Peer) -> tuple[_Faults, _Faults]:
        """The faults of nodes that handle events of a publisher, and those of other nodes."""
        found = self._by_publisher.get(publisher)
        if found is None:
            on_path: list[tuple[int, int, str]] = []
            elsewhere: list[tuple[int, int, str]] = []
            for kind, nodes, start_us, end_us in self._journal.disturbances:
                is_on_path = self._journal.may_handle(publisher, nodes)
                time = start_us, end_us + self._repair_us, kind
                (on_path if is_on_path else elsewhere).append(time)
            found = self._by_publisher[publisher] = _Faults(on_path), _Faults(elsewhere)
        return found

    def _was_lost(self, since_us: int, until_us: int) -> bool:
        place = bisect_left(self._lost_us, since_us)
        return place < len(self._lost_us) and self._lost_us[place] <= until_us


def inversions(sequence: Sequence[EventId]) -> int:
    """The number of pairs in reverse order."""
    return _sorted_and_inversions(sequence)[1]


def _sorted_and_inversions(part: Sequence[EventId]) -> tuple[Sequence[EventId], int]:
    if all(one <= next_one for one, next_one in pairwise(part)):
        return part, 0
    middle = len(part) // 2
    left, left_count = _sorted_and_inversions(part[:middle])
    right, right_count = _sorted_and_inversions(part[middle:])
    between = sum(len(left) - bisect_right(left, item) for item in right)
    return sorted([*left, *right]), left_count + right_count + between
