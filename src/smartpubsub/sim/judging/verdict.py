"""The figures of a run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from math import ceil, inf

from smartpubsub.protocols.publication import EventId
from smartpubsub.sim.judging.checkers.facts import Facts
from smartpubsub.sim.judging.checkers.once import repetitions
from smartpubsub.sim.judging.checkers.order import inversions
from smartpubsub.sim.judging.journal import DeliveryRecord, SubscriptionRecord
from smartpubsub.sim.judging.oracle import wants

_SHARES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p999": 0.999, "max": 1.0}


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Owed and delivered events; most figures count pairs of an event and a node."""

    injected: int
    """Events that were published and not refused."""
    published: int
    """Injected events that were acknowledged."""
    expected: int
    delivered: int
    """The expected pairs that were delivered."""
    missing: int
    unexpected: int
    """Pairs that no subscription of the node matched, or one that was acknowledged as ended."""
    app_duplicates: int
    """Deliveries to a subscription that had the event since its node last started."""
    order_violations: int | None
    """Pairs of a publisher's events that came to a subscription in reverse order."""
    coverage_injected: float
    coverage_published: float
    delivered_within_ms: dict[str, float | None]
    """The time in which such a share of the expected pairs was delivered; None if it never was."""

    def document(self) -> dict[str, object]:
        """The figures as a JSON document."""
        return asdict(self)


def verdict_on(facts: Facts) -> Verdict:
    """Compute the figures of a run."""
    events = facts.journal.events.values()
    injected = [event.id for event in events if event.refused is None]
    published = [id for id in injected if facts.journal.events[id].acknowledged_us is not None]
    expected, missing = _count(facts.expected), len(facts.missing)
    return Verdict(
        injected=len(injected),
        published=len(published),
        expected=expected,
        delivered=expected - missing,
        missing=missing,
        unexpected=_unexpected(facts),
        app_duplicates=sum(1 for _ in repetitions(facts)),
        order_violations=_order_violations(facts) if facts.promises_order else None,
        coverage_injected=_share(expected - missing, expected),
        coverage_published=_coverage(facts, published),
        delivered_within_ms=_delivered_within_ms(facts),
    )


def _delivered_within_ms(facts: Facts) -> dict[str, float | None]:
    waits_us = sorted(expected_waits_us(facts))
    if not waits_us:
        return dict.fromkeys(_SHARES)
    places = {name: ceil(len(waits_us) * share) - 1 for name, share in _SHARES.items()}
    return {
        name: None if waits_us[place] == inf else round(waits_us[place] / 1000, 3)
        for name, place in places.items()
    }


def expected_waits_us(facts: Facts) -> Iterator[float]:
    """How long after the publish call each expected pair was delivered; infinite if never."""
    for id, nodes in facts.expected.items():
        called_us, got = facts.journal.events[id].called_us, facts.first_deliveries.get(id, {})
        for node in nodes:
            yield got[node].at_us - called_us if node in got else inf


def _count(pairs: dict[EventId, dict[int, None]]) -> int:
    return sum(map(len, pairs.values()))


def _coverage(facts: Facts, ids: list[EventId]) -> float:
    expected = {id: facts.expected[id] for id in ids if id in facts.expected}
    delivered = sum(facts.has_got(id, node) for id, nodes in expected.items() for node in nodes)
    return _share(delivered, _count(expected))


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 1.0


def _unexpected(facts: Facts) -> int:
    pairs = {
        (delivery.id, delivery.node): None
        for delivery in facts.journal.deliveries
        if not _was_welcome(facts, delivery)
    }
    return len(pairs)


def _was_welcome(facts: Facts, delivery: DeliveryRecord) -> bool:
    event = facts.journal.events.get(delivery.id)
    return event is not None and any(
        _was_there(record, delivery.at_us) and wants(record.predicate, event.predicate)
        for record in _candidates(facts, delivery)
    )


def _candidates(facts: Facts, delivery: DeliveryRecord) -> Iterator[SubscriptionRecord]:
    """All subscriptions of the node, first those that the delivery names."""
    for number in delivery.subscriptions:
        named = facts.journal.subscriptions.get((delivery.node, number))
        if named is not None:
            yield named
    yield from facts.subscriptions_of.get(delivery.node, ())


def _was_there(record: SubscriptionRecord, at: int) -> bool:
    ended_us = record.unsubscribe_acknowledged_us
    return record.called_us <= at and (ended_us is None or at <= ended_us)


def _order_violations(facts: Facts) -> int:
    return sum(inversions([one.id for one in came]) for came in facts.arrivals.values())
