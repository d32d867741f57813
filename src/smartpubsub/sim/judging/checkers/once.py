"""3. To the application exactly once; across a restart at least once, and under the same id."""

from __future__ import annotations

from collections.abc import Iterator

from smartpubsub.protocols.publication import EventId
from smartpubsub.sim.judging.checkers.facts import Facts
from smartpubsub.sim.judging.checkers.judgement import Judgement
from smartpubsub.sim.judging.checkers.violation import Violation
from smartpubsub.sim.judging.journal import DeliveryRecord

INVARIANT = 3


def check_once(facts: Facts) -> Judgement:
    """Check that no subscription got an event twice between restarts, or under an unknown id.

    A case is one delivery to one subscription. A delivery that is repeated after a restart of the
    node is excused. In a protocol that may lose events, so is any other repetition if more nodes
    lie than it withstands: a liar can repeat an event when others have forgotten its id.
    """
    judgement = Judgement()
    repeated = [*repetitions(facts)]
    if facts.has_too_many_liars and not facts.is_reliable:
        judgement.excuse("too_many_liars", len(repeated))
        repeated = []
    judgement.violations += [
        Violation(
            INVARIANT,
            delivery.at_us,
            delivery.node,
            f"node {delivery.node} got event {delivery.id} again for its subscription {number}",
        )
        for delivery, number in repeated
    ]
    judgement.violations += [
        Violation(
            INVARIANT,
            delivery.at_us,
            delivery.node,
            f"node {delivery.node} got event {delivery.id}, an id that nothing was published under",
        )
        for delivery in facts.journal.deliveries
        if delivery.id not in facts.journal.events
    ]
    after_restart = _repeated_after_restart(facts)
    deliveries = sum(len(delivery.subscriptions) for delivery in facts.journal.deliveries)
    judgement.judged = deliveries - after_restart - judgement.excused["too_many_liars"]
    judgement.excuse("restart", after_restart)
    return judgement


def repetitions(facts: Facts) -> Iterator[tuple[DeliveryRecord, int]]:
    """Deliveries to subscriptions that had got the event since their node last started."""
    delivered: dict[tuple[EventId, int, int], dict[int, None]] = {}
    for delivery in facts.journal.deliveries:
        first = facts.first_deliveries[delivery.id][delivery.node]
        if first is delivery:
            known: dict[int, None] = {}
        else:
            known = delivered.setdefault((delivery.id, delivery.node, delivery.incarnation), {})
            if first.incarnation == delivery.incarnation:
                known |= dict.fromkeys(first.subscriptions)
        for number in delivery.subscriptions:
            if number in known:
                yield delivery, number
            known[number] = None


def _repeated_after_restart(facts: Facts) -> int:
    return sum(
        sum(number in first.subscriptions for number in delivery.subscriptions)
        for delivery in facts.journal.deliveries
        if (first := facts.first_deliveries[delivery.id][delivery.node]) is not delivery
        and first.incarnation != delivery.incarnation
    )
