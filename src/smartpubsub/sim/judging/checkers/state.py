"""11. After every input a node's state meets the protocol's own invariants."""

from __future__ import annotations

from smartpubsub.sim.judging.checkers.facts import Facts
from smartpubsub.sim.judging.checkers.judgement import Judgement


def check_state(facts: Facts) -> Judgement:
    """Report what the checks during the run found; without them nothing is judged."""
    return Judgement(judged=facts.state_check_count, violations=list(facts.state_violations))
