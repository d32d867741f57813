"""The schedule of faults, determined by the seed.

A fault that other nodes cannot distinguish from a crash is a failure. The protocols promise to lose
nothing while at most `backups` nodes fail within a repair time, so the plan has no more: a soak
with permitted losses would prove nothing. For the same reason there are periods without faults, in
which order is promised.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from enum import Enum
from random import Random
from typing import NamedTuple

from smartpubsub.kademlia.settings import MINUTE, SECOND

GAP_S_MEAN = 8.0
STORMY_S, CALM_S = 300.0, 180.0
"""The length of a period with faults, and of one without; they alternate."""
REPAIR_S = MINUTE / SECOND + 3
"""A repair time, plus the time of stopping a process."""
FAR_S = 3_600.0
"""How far a clock jumps at most, unless the protocol allows less."""


class Kind(Enum):
    """The kinds of faults, by their names on the command line."""

    CHURN = "churn"
    """A node leaves, and returns."""
    KILLS = "kills"
    """A node is killed, and starts again."""
    PAUSES = "pauses"
    """A node's process is stopped and continued, as by SIGSTOP and SIGCONT."""
    DISKS = "disks"
    """A node's disk becomes full."""
    CLOCKS = "clocks"
    """A node's clock jumps."""
    READERS = "readers"
    """The application of a node does not read its kept subscriptions."""
    SUBSCRIPTIONS = "subscriptions"
    """The application of a node ends a subscription, and begins another."""


_FAILURES = frozenset({Kind.KILLS, Kind.PAUSES, Kind.DISKS})
_ENDS = frozenset({Kind.CHURN, Kind.KILLS, Kind.DISKS})
"""The kinds of faults that replace a node's process."""


class Fault(NamedTuple):
    """A fault that begins now."""

    kind: Kind
    node: int
    for_s: float
    """How long it lasts."""
    clock_s: float = 0.0
    """By how much the node's clock is ahead from now on, if it jumps."""


class Plan:
    """The faults of a soak."""

    def __init__(
        self,
        rng: Random,
        nodes: int,
        failures_max: int,
        without: Container[Kind] = (),
        far_s: float = FAR_S,
    ) -> None:
        self._rng = rng
        self._far_s = far_s
        self._nodes = nodes
        self._failures_max = min(failures_max, nodes - 1)
        self._kinds = [kind for kind in Kind if kind not in without]
        self._deck: list[Kind] = []
        self._failing_until_s: list[float] = []
        """When each recent failure no longer counts."""

    @property
    def mortal(self) -> Sequence[int]:
        """The nodes whose processes may end; those of the others last, to measure growth."""
        return range(1, self._nodes, 2)

    def gap_s(self) -> float:
        """How long to wait before the next fault."""
        return min(self._rng.expovariate(1 / GAP_S_MEAN), 3 * GAP_S_MEAN)

    def next(self, at_s: float, left_s: float, is_free: Callable[[int], bool]) -> Fault | None:
        """The fault that begins at a time, if one may; `is_free` tells nodes without a fault."""
        if at_s % (STORMY_S + CALM_S) >= STORMY_S:
            return None
        # Kinds are drawn without replacement, so that each comes equally often.
        if not self._deck:
            self._deck = self._rng.sample(self._kinds, len(self._kinds))
        for kind in self._deck:
            fault = self._made(kind, at_s, left_s, is_free)
            if fault is not None:
                self._deck.remove(kind)
                return fault
        return None

    def _made(
        self, kind: Kind, at_s: float, left_s: float, is_free: Callable[[int], bool]
    ) -> Fault | None:
        may_end = kind in _ENDS
        free = [n for n in (self.mortal if may_end else range(self._nodes)) if is_free(n)]
        struck = self._nodes - sum(map(is_free, range(self._nodes)))
        if not free or (kind in _FAILURES and not self._may_fail(at_s, struck)):
            return None
        for_s = min(self._length_s(kind), max(1.0, left_s))
        if kind in _FAILURES:
            # A node whose disk is full fails when it has to store something.
            begins_s = at_s + for_s if kind is Kind.DISKS else at_s
            self._failing_until_s.append(begins_s + REPAIR_S)
        clock_s = self._jump_s() if kind is Kind.CLOCKS else 0.0
        return Fault(kind, self._rng.choice(free), for_s, clock_s)

    def _may_fail(self, at_s: float, struck: int) -> bool:
        self._failing_until_s = [until_s for until_s in self._failing_until_s if until_s > at_s]
        return max(len(self._failing_until_s), struck) < self._failures_max

    def _length_s(self, kind: Kind) -> float:
        draw = self._rng.uniform
        match kind:
            case Kind.KILLS:
                return draw(0.0, 30.0)
            case Kind.PAUSES:  # Most pauses are shorter than peers tolerate, some last minutes.
                return draw(60.0, 180.0) if self._rng.random() < 0.3 else draw(0.5, 20.0)
            case Kind.DISKS:
                return draw(5.0, 30.0)
            case Kind.READERS:
                return draw(5.0, 90.0)
            case _:
                return draw(2.0, 45.0)

    def _jump_s(self) -> float:
        """By how much a clock is ahead or behind; a third of the jumps correct it."""
        if self._rng.random() < 1 / 3:
            return 0.0
        far_s: float = self._far_s ** self._rng.random()
        return self._rng.choice((-1, 1)) * far_s
