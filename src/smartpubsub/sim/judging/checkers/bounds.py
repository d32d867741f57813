"""8. Memory is bounded, and a limit refuses before the acknowledgement, never after."""

from __future__ import annotations

from smartpubsub.sim.judging.checkers.facts import Facts
from smartpubsub.sim.judging.checkers.judgement import Judgement
from smartpubsub.sim.judging.checkers.violation import Violation

INVARIANT = 8


def check_bounds(facts: Facts) -> Judgement:
    """Check that no inspected node exceeded a limit.

    A case is one limit of one inspected node.
    """
    judgement = Judgement()
    found: dict[tuple[int, str], Violation] = {}
    for at, node, inspection in facts.inspections:
        judgement.judged += len(inspection.bounds)
        for bound in inspection.bounds:
            if bound.held > bound.held_max:
                what = f"node {node} keeps {bound.held:,} {bound.what}, {bound.held_max:,} at most"
                found.setdefault((node, bound.what), Violation(INVARIANT, at, node, what))
    judgement.violations += found.values()
    return judgement


def check_refusals(facts: Facts) -> Judgement:
    """Check that no acknowledged event was refused as well; a case is an acknowledged event."""
    judgement = Judgement()
    for event in facts.journal.events.values():
        if event.acknowledged_us is None:
            continue
        judgement.judged += 1
        if event.refused is not None:
            what = (
                f"event {event.id} of node {event.node} was acknowledged,"
                f" and refused: {event.refused}"
            )
            violation = Violation(INVARIANT, event.acknowledged_us, event.node, what)
            judgement.violations.append(violation)
    return judgement
