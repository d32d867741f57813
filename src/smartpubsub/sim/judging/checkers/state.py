"""11. After every input a node's state meets the protocol's own invariants."""

from __future__ import annotations

from smartpubsub.sim.judging.checkers.facts import Facts
from smartpubsub.sim.judging.checkers.judgement import Judgement


def check_state(facts: Facts) -> Judgement:
    """Report the violations that checks during the run found; without checks, nothing is judged."""
    return Judgement(judged=facts.state_check_count, violations=list(facts.state_violations))
