"""10. The same seed gives the same trace, byte for byte, in any process."""

from __future__ import annotations

from smartpubsub.sim.judging.checkers.violation import Violation

INVARIANT = 10


def check_same_trace(one: str, other: str) -> list[Violation]:
    """Check that two runs of one experiment have traces with the same digest."""
    if one == other:
        return []
    what = f"the same seed gave two traces, one with the digest {one}, the other with {other}"
    return [Violation(INVARIANT, 0, -1, what)]
