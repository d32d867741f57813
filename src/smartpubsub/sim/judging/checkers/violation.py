"""Violations of invariants."""

from __future__ import annotations

from typing import NamedTuple


class Violation(NamedTuple):
    """One breach of an invariant."""

    invariant: int
    """The number of the broken invariant, as `smartpubsub.sim.judging.checkers` lists them."""
    at_us: int
    node: int
    """The node that it concerns, or -1."""
    what: str

    def document(self) -> dict[str, object]:
        """The violation as a JSON document."""
        return {
            "invariant": self.invariant,
            "at_ms": self.at_us / 1000,
            "node": self.node,
            "what": self.what,
        }
