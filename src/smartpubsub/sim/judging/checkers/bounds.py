"""8. Memory is bounded, and a limit refuses before the acknowledgement, never after."""

from __future__ import annotations

from smartpubsub.sim.judging.checkers.facts import Facts
from smartpubsub.sim.judging.checkers.violation import Violation

INVARIANT = 8


def check_bounds(facts: Facts) -> list[Violation]:
    """No node was ever seen to keep more of anything than it may."""
    found: dict[tuple[int, str], Violation] = {}
    for at, node, inspection in facts.inspections:
        for bound in inspection.bounds:
            if bound.held > bound.held_max:
                what = f"node {node} keeps {bound.held:,} {bound.what}, {bound.held_max:,} at most"
                found.setdefault((node, bound.what), Violation(INVARIANT, at, node, what))
    return list(found.values())


def check_refusals(facts: Facts) -> list[Violation]:
    """Nothing that was acknowledged was refused as well."""
    return [
        Violation(
            INVARIANT,
            event.acknowledged_us,
            event.node,
            f"event {event.id} of node {event.node} was acknowledged, and refused: {event.refused}",
        )
        for event in facts.journal.events.values()
        if event.acknowledged_us is not None and event.refused is not None
    ]
