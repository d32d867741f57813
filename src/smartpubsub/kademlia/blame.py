"""Blame: how much this node suspects each peer of lies that it cannot prove.

Whoever drops an event leaves no evidence. So what a node notices itself counts as points, for all
protocols together, and half of them for every hour that passes. The points of a peer also count,
in part, for all peers with its address prefix: an attacker with many ids may have few addresses.

Blame only orders choices: of parents, of helpers, and of the peers that are asked first. It is
never sent to other nodes, because any node could invent it. A peer that nobody else could replace
is chosen all the same, and a node asks blamed peers too, now and then, because liars may bring
others into disrepute.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias, TypeVar

from smartpubsub.kademlia.settings import MINUTE, SECOND

DROPPED = "dropped"
"""A parent or helper has not brought an event, and others had it."""
WITHHELD = "withheld"
"""A keeper has left an event out of an answer, and others had it."""

POINT = 1_000
POINTS_MAX = 64
"""More points would outlast a day."""
HALF_US = 60 * MINUTE
EVERY_US = SECOND
"""A peer gets one point in this time: one short failure may concern many events."""
PREFIX_SHARE = 4
"""One part in this many of the points of a prefix counts for each peer with it."""
AVOIDED_LEVEL = 3
"""A parent or helper with as many points is replaced by a peer that has at most half of them."""
COUNT_MAX = 500

Blamed: TypeAlias = bytes | str
"""A peer id, or an address prefix."""
StoredBlame: TypeAlias = tuple[Blamed, int, int, dict[str, int]]
Item = TypeVar("Item")


class BlameState(NamedTuple):
    """The blame of a peer, or of an address prefix."""

    blamed: Blamed
    points: float
    reasons: dict[str, int]
    """How often it was blamed for what, since it was last without blame."""


@dataclass(slots=True)
class _Score:
    points: int
    """In thousandths, at the time of `at_us`."""
    at_us: int
    reasons: dict[str, int] = field(default_factory=dict)

    def now(self, now: int) -> int:
        """The points that are left."""
        halves, rest_us = divmod(max(0, now - self.at_us), HALF_US)
        return (self.points * (2 * HALF_US - rest_us) // (2 * HALF_US)) >> min(halves, 64)


class Blame:
    """The points of peers and of address prefixes."""

    def __init__(self, prefix_of: Callable[[bytes], str]) -> None:
        self._prefix_of = prefix_of
        self._scores: dict[Blamed, _Score] = {}
        self.has_changed = False
        """Whether there is something to store."""

    def __len__(self) -> int:
        return len(self._scores)

    # --- what a node notices ---

    def put(self, peer: bytes, reason: str, now: int) -> None:
        """Blame a peer for something that it seems to have done."""
        for blamed in self._concerned(peer):
            score = self._scores.get(blamed)
            if score is None or not score.now(now):
                self._make_room(now)
                self._scores[blamed] = _Score(POINT, now, {reason: 1})
            else:
                score.reasons[reason] = score.reasons.get(reason, 0) + 1
                if now - score.at_us >= EVERY_US:
                    score.points = min(score.now(now) + POINT, POINTS_MAX * POINT)
                    score.at_us = now
        self.has_changed = True

    def take_back(self, peer: bytes, now: int) -> None:
        """A peer was blamed for something that it has not done: it has only been slow."""
        for blamed in self._concerned(peer):
            score = self._scores.get(blamed)
            if score is not None:
                score.points, score.at_us = max(0, score.now(now) - POINT), now
                if not score.points:
                    del self._scores[blamed]
                self.has_changed = True

    def _concerned(self, peer: bytes) -> list[Blamed]:
        prefix = self._prefix_of(peer)
        return [peer, prefix] if prefix else [peer]

    def _make_room(self, now: int) -> None:
        """Forget whoever has least, if there are too many."""
        if len(self._scores) >= COUNT_MAX:
            del self._scores[min(self._scores, key=lambda blamed: self._scores[blamed].now(now))]

    # --- choices ---

    def level(self, peer: bytes, now: int) -> int:
        """The points of a peer, or its part of those of its prefix if that is more, rounded."""
        if not self._scores:
            return 0
        points = self._points(peer, now)
        prefix = self._prefix_of(peer)
        if prefix:
            points = max(points, self._points(prefix, now) // PREFIX_SHARE)
        return (points + POINT // 2) // POINT

    def _points(self, blamed: Blamed, now: int) -> int:
        score = self._scores.get(blamed)
        return 0 if score is None else score.now(now)

    def least_first(
        self, items: Iterable[Item], now: int, peer_of: Callable[[Item], bytes]
    ) -> list[Item]:
        """Peers by their blame; those with the same stay in their order."""
        if not self._scores:
            return list(items)
        return sorted(items, key=lambda item: self.level(peer_of(item), now))

    def unblamed(self, peers: Iterable[bytes], now: int) -> list[bytes]:
        """The peers without blame; all of them if there is none."""
        every = list(peers)
        if not self._scores:
            return every
        return [peer for peer in every if not self.level(peer, now)] or every

    def is_avoided(self, peer: bytes, now: int, other: bytes) -> bool:
        """Whether another peer should take the place of one that is blamed."""
        level = self.level(peer, now)
        return level >= AVOIDED_LEVEL and 2 * self.level(other, now) <= level

    # --- for users, and for the storage ---

    def states(self, now: int) -> list[BlameState]:
        """Whoever is blamed now, those with most points first."""
        found = [
            BlameState(blamed, score.now(now) / POINT, dict(score.reasons))
            for blamed, score in self._scores.items()
            if score.now(now)
        ]
        return sorted(found, key=lambda state: -state.points)

    def stored(self, now: int) -> list[StoredBlame]:
        """What to store; later changes are marked anew."""
        for blamed in [blamed for blamed, score in self._scores.items() if not score.now(now)]:
            del self._scores[blamed]
        self.has_changed = False
        return [(b, score.points, score.at_us, score.reasons) for b, score in self._scores.items()]

    def restore(self, stored: Iterable[StoredBlame]) -> None:
        """Take what was stored; what a node has noticed since its start counts instead."""
        for blamed, points, at_us, reasons in stored:
            if len(self._scores) < COUNT_MAX:
                score = _Score(min(points, POINTS_MAX * POINT), at_us, reasons)
                self._scores.setdefault(blamed, score)

    def check(self) -> None:
        """Assert the limits."""
        assert len(self._scores) <= COUNT_MAX
        assert all(0 <= score.points <= POINTS_MAX * POINT for score in self._scores.values())
