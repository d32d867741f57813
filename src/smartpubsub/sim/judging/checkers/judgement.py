"""The findings of one checker in a run, and the number of cases."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from smartpubsub.sim.judging.checkers.violation import Violation


@dataclass(kw_only=True)
class Judgement:
    """Violations, and how many cases a checker judged and how many it excused.

    What a case is depends on the checker. A judged case would have been a violation if the promise
    had been broken; an excused case was not promised, for a reason that is counted.
    """

    judged: int = 0
    excused: Counter[str] = field(default_factory=Counter)
    """Cases that nothing was promised for, by reason."""
    violations: list[Violation] = field(default_factory=list)

    def excuse(self, reason: str, cases: int = 1) -> None:
        """Count cases that nothing was promised for."""
        if cases:
            self.excused[reason] += cases
