"""7. An unsubscribe takes effect within a bound, and a lapsed subscription within two refreshes."""

from __future__ import annotations

from smartpubsub.kademlia.settings import SECOND
from smartpubsub.sim.judging.checkers.facts import Facts
from smartpubsub.sim.judging.checkers.judgement import Judgement
from smartpubsub.sim.judging.checkers.violation import Violation
from smartpubsub.sim.judging.journal import SubscriptionRecord

INVARIANT = 7

LAST_WORDS_US = 10 * SECOND
"""How long after a crash a message that the node had sent may still renew its subscriptions."""


def check_unsubscribes(facts: Facts) -> Judgement:
    """Check that unsubscribes were acknowledged in time, and that nothing was delivered after them.

    A case is one call of unsubscribe. Its acknowledgement is excused if the node crashed or the run
    ended before the deadline; a delivery after the call is never excused.
    """
    judgement = Judgement()
    for record in facts.journal.subscriptions.values():
        if record.unsubscribe_called_us is not None:
            _judge_acknowledgement(facts, record, record.unsubscribe_called_us, judgement)
    judgement.violations += _deliveries_after(facts)
    return judgement


def check_lapses(facts: Facts) -> Judgement:
    """Check that no node keeps filters for a node that has long been down.

    A case is one peer that an inspected node keeps filters for. A node that starts again does not
    know how long it was down, so it keeps stored filters for as long after its start.
    """
    judgement = Judgement()
    longest_us = 2 * facts.refresh_us + LAST_WORDS_US
    found: dict[tuple[int, int, int], Violation] = {}
    for at, node, inspection in facts.inspections:
        for peer in inspection.served:
            served = facts.nodes_by_peer.get(peer)
            if served is None:
                continue  # The peer is an attacker, which is no node of the experiment.
            down_us = _down_since(facts, served, at)
            if down_us is not None and at - down_us <= longest_us:
                judgement.excuse("down_recently")
                continue
            if down_us is not None and at - _up_since(facts, node, at) <= longest_us:
                judgement.excuse("restart")
                continue
            judgement.judged += 1
            if down_us is None:
                continue
            what = (
                f"node {node} keeps filters for node {served},"
                f" which has been down since {down_us / 1000} ms"
            )
            found.setdefault((node, served, down_us), Violation(INVARIANT, at, node, what))
    judgement.violations += found.values()
    return judgement


def _judge_acknowledgement(
    facts: Facts, record: SubscriptionRecord, called_us: int, judgement: Judgement
) -> None:
    acknowledged_us = record.unsubscribe_acknowledged_us
    deadline_us = _deadline_us(facts, record.node, called_us)
    if acknowledged_us is not None and acknowledged_us <= deadline_us:
        judgement.judged += 1
    elif _crashed_between(facts, record.node, called_us, deadline_us):
        judgement.excuse("crash")
    elif acknowledged_us is None and facts.journal.ended_us <= deadline_us:
        judgement.excuse("run_ended")
    else:
        judgement.judged += 1
        why = "was never told" if acknowledged_us is None else "was told too late"
        what = f"node {record.node} {why} that {_unsubscribe(record)} had taken effect"
        judgement.violations.append(Violation(INVARIANT, deadline_us, record.node, what))


def _deliveries_after(facts: Facts) -> list[Violation]:
    found = []
    for delivery in facts.journal.deliveries:
        for number in delivery.subscriptions:
            record = facts.journal.subscriptions.get((delivery.node, number))
            called_us = None if record is None else record.unsubscribe_called_us
            if record is not None and called_us is not None and delivery.at_us > called_us:
                what = f"node {record.node} got event {delivery.id} after {_unsubscribe(record)}"
                found.append(Violation(INVARIANT, delivery.at_us, record.node, what))
    return found


def _deadline_us(facts: Facts, node: int, called_us: int) -> int:
    """The deadline by which a node knows that its unsubscribe has taken effect.

    It is later if there is a split, or a pause of the node, which pauses its application too.
    """
    deadline_us = called_us + facts.unsubscribe_us_max
    hindrances = [(split.start_us, split.end_us) for split in facts.journal.splits]
    hindrances += [
        (disturbance.start_us, disturbance.end_us)
        for disturbance in facts.journal.disturbances
        if disturbance.kind == "pause" and node in disturbance.nodes
    ]
    for start_us, end_us in sorted(hindrances):
        if start_us <= deadline_us and called_us < end_us:
            deadline_us = max(deadline_us, end_us + facts.unsubscribe_us_max)
    return deadline_us


def _crashed_between(facts: Facts, node: int, since_us: int, until_us: int) -> bool:
    spans = facts.journal.downs.get(node, [])
    return any(since_us <= span.start_us <= until_us for span in spans)


def _down_since(facts: Facts, node: int, at: int) -> int | None:
    spans = facts.journal.downs.get(node, [])
    return next((span.start_us for span in spans if span.holds(at)), None)


def _up_since(facts: Facts, node: int, at: int) -> int:
    """When a node that is up started last; 0 if it never was down."""
    ends = [span.end_us for span in facts.journal.downs.get(node, []) if span.end_us is not None]
    return max((end_us for end_us in ends if end_us <= at), default=0)


def _unsubscribe(record: SubscriptionRecord) -> str:
    called_us = record.unsubscribe_called_us or 0
    return f"the unsubscribe of its subscription {record.number} at {called_us / 1000} ms"
