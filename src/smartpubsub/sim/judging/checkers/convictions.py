"""12. No honest node is convicted."""

from __future__ import annotations

from smartpubsub.sim.judging.checkers.facts import Facts
from smartpubsub.sim.judging.checkers.judgement import Judgement
from smartpubsub.sim.judging.checkers.violation import Violation

INVARIANT = 12


def check_convictions(facts: Facts) -> Judgement:
    """Check that all nodes that were convicted by the end of the run have lied."""
    judgement = Judgement(judged=facts.convicted_count)
    if facts.convicted_honest_count:
        what = f"{facts.convicted_honest_count:,} honest nodes were convicted"
        judgement.violations.append(Violation(INVARIANT, facts.journal.ended_us, -1, what))
    return judgement
