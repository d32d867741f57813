"""2. No application ever gets an event that its predicate does not match."""

from __future__ import annotations

from collections.abc import Iterator

from smartpubsub.sim.judging.checkers.facts import Facts
from smartpubsub.sim.judging.checkers.judgement import Judgement
from smartpubsub.sim.judging.checkers.violation import Violation
from smartpubsub.sim.judging.journal import DeliveryRecord, EventRecord
from smartpubsub.sim.judging.oracle import wants

INVARIANT = 2


def check_wanted(facts: Facts) -> Judgement:
    """Check that every subscription that got an event exists and matches it.

    A case is one delivery. Deliveries of events that were never published break invariant 3.
    """
    judgement = Judgement()
    for delivery in facts.journal.deliveries:
        event = facts.journal.events.get(delivery.id)
        if event is None:
            judgement.excuse("never_published")
            continue
        judgement.judged += 1
        judgement.violations += [
            Violation(INVARIANT, delivery.at_us, delivery.node, f"node {delivery.node} {problem}")
            for problem in _problems(facts, delivery, event)
        ]
    return judgement


def _problems(facts: Facts, delivery: DeliveryRecord, event: EventRecord) -> Iterator[str]:
    if not delivery.subscriptions:
        yield f"got event {event.id} for none of its subscriptions"
    for number in delivery.subscriptions:
        record = facts.journal.subscriptions.get((delivery.node, number))
        if record is None or record.called_us > delivery.at_us:
            yield f"got event {event.id} for subscription {number}, which it does not have"
        elif not wants(record.predicate, event.predicate):
            yield (
                f"got event {event.id}, {event.predicate}, for its subscription {number},"
                f" {record.predicate}, which does not want it"
            )
