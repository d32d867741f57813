"""Events that somebody is owed and never got, each held against the promise that it breaks.

1. After the network is quiet, every live subscriber has every event that it is owed.
4. An event that was acknowledged survives the crash of whoever acknowledged it.
9. After a split heals, delivery is whole again within one refresh cycle.
"""

from __future__ import annotations

from smartpubsub.protocols.publication import EventId
from smartpubsub.sim.judging.checkers.facts import Facts
from smartpubsub.sim.judging.checkers.violation import Violation
from smartpubsub.sim.judging.journal import EventRecord, Split
from smartpubsub.sim.judging.oracle import separates

BAD_LUCK_MAX = 8
"""So many events are not all lost on their way by chance, whatever the network is like."""

COMPLETENESS = 1
SURVIVAL = 4
HEALING = 9


def check_completeness(facts: Facts) -> list[Violation]:
    """Nothing that a reliable protocol owes is missing, be it for another reason than below."""
    return [
        Violation(COMPLETENESS, event.called_us, node, _never_got(event, node))
        for event, node in _losses(facts, COMPLETENESS)
    ]


def check_survival(facts: Facts) -> list[Violation]:
    """Nothing that was acknowledged is missing where somebody crashed after the call."""
    return [
        Violation(
            SURVIVAL,
            event.called_us,
            node,
            f"{_never_got(event, node)}; it was acknowledged, and a node crashed after that",
        )
        for event, node in _losses(facts, SURVIVAL)
    ]


def check_healing(facts: Facts) -> list[Violation]:
    """Nothing is missing between the former sides of a split that healed a refresh cycle before."""
    if not facts.is_reliable:
        return [found for split in facts.journal.splits for found in _silences(facts, split)]
    return [
        Violation(
            HEALING,
            event.called_us,
            node,
            f"{_never_got(event, node)}, a refresh cycle after the split between them had healed",
        )
        for event, node in _losses(facts, HEALING)
    ]


def _losses(facts: Facts, invariant: int) -> list[tuple[EventRecord, int]]:
    if not facts.is_reliable:
        return []
    crashes = [span.start_us for spans in facts.journal.downs.values() for span in spans]
    last_crash_us = max(crashes, default=-1)
    return [
        (event, node)
        for event, node in facts.missing
        if facts.is_promised(event) and _broken(facts, event, node, last_crash_us) == invariant
    ]


def _broken(facts: Facts, event: EventRecord, node: int, last_crash_us: int) -> int:
    """The promise that a loss breaks."""
    for split in facts.journal.splits:
        if _is_later(facts, split, event) and separates(split, event.node, node):
            return HEALING
    if event.acknowledged_us is not None and event.called_us <= last_crash_us:
        return SURVIVAL
    return COMPLETENESS


def _silences(facts: Facts, split: Split) -> list[Violation]:
    """Directions in which nothing at all gets across any more, which no bad luck explains."""
    owed: dict[bool, dict[EventId, EventRecord]] = {True: {}, False: {}}
    crossed: dict[bool, None] = {}
    for id, nodes in facts.expected.items():
        event = facts.journal.events[id]
        if not _is_later(facts, split, event):
            continue
        comes_from_group = event.node in split.group
        for node in nodes:
            if separates(split, event.node, node):
                owed[comes_from_group][id] = event
                if facts.has_got(id, node):
                    crossed[comes_from_group] = None
    return [
        Violation(
            HEALING,
            (event := next(iter(events.values()))).called_us,
            event.node,
            f"event {event.id} of node {event.node} and all later ones from its side reached nobody"
            " on the other side, a refresh cycle after the split between them had healed",
        )
        for comes_from_group, events in owed.items()
        if len(events) >= BAD_LUCK_MAX and comes_from_group not in crossed
    ]


def _is_later(facts: Facts, split: Split, event: EventRecord) -> bool:
    return event.called_us >= split.end_us + facts.refresh_us


def _never_got(event: EventRecord, node: int) -> str:
    at = event.called_us / 1000
    return f"node {node} never got event {event.id}, which node {event.node} published at {at} ms"
