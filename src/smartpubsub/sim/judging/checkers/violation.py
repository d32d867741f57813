"""What a checker finds."""

from __future__ import annotations

from typing import NamedTuple


class Violation(NamedTuple):
    """Something that must never happen, and did."""

    invariant: int
    """The number of the broken invariant, as `smartpubsub.sim.judging.checkers` lists them."""
    at_us: int
    node: int
    """The node that it happened to, or -1."""
    what: str

    def document(self) -> dict[str, object]:
        """The violation as JSON has it."""
        return {
            "invariant": self.invariant,
            "at_ms": self.at_us / 1000,
            "node": self.node,
            "what": self.what,
        }
