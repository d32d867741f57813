"""Blame: how much this node suspects each peer of lies that it cannot prove.

A peer that drops an event leaves no evidence. So a node gives points to the peers that it suspects,
for all protocols together; every hour, half of the points expire. The points of a peer also count,
in part, for all peers with its address prefix: an attacker with many ids may have few addresses.

Blame only orders choices: of parents, of helpers, and of the peers that a node asks first. A node
never sends it to other nodes, because any node could invent it. A node still chooses a blamed peer
that no other peer can replace, and asks blamed peers now and then, because liars may bring honest
peers into disrepute.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias, TypeVar

from smartpubsub.kademlia.settings import MINUTE, SECOND

DROPPED = "dropped"
"""A parent or helper has not delivered an event that other peers had."""
WITHHELD = "withheld"
"""A keeper has left an event out of an answer, and other keepers had it."""
UNCONFIRMED = "unconfirmed"
"""A keeper that was up has not confirmed that it stores an event."""
MISLED = "misled"
"""A parent has sent a node on to another one, again and again."""

POINT = 1_000
POINTS_MAX = 64
"""More points would outlast a day."""
HALF_US = 60 * MINUTE
EVERY_US = SECOND
"""A peer gets at most one point in this time: one short failure may concern many events."""
PREFIX_SHARE = 4
"""The points of an address prefix, divided by this, count for each peer that has it."""
AVOIDED_LEVEL = 3
"""A node replaces a parent or helper with this many points by a peer with at most half as many."""
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
    """How often it was blamed for each reason, since it was last without blame."""


@dataclass(slots=True)
class _Score:
    points: int
    """In thousandths, at the time of `at_us`."""
    at_us: int
    reasons: dict[str, int] = field(default_factory=dict)

    def points_left(self, now: int) -> int:
        """The points that have not expired, in thousandths; those of the future are of now."""
        self.at_us = min(self.at_us, now)  # The clock was ahead, and has been set.
        halves, rest_us = divmod(now - self.at_us, HALF_US)
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

    # --- observations ---

    def put(self, peer: bytes, reason: str, now: int) -> None:
        """Blame a peer for something that it has probably done."""
        for blamed in self._concerned(peer):
            score = self._scores.get(blamed)
            if score is None or not score.points_left(now):
                self._make_room(now)
                self._scores[blamed] = _Score(POINT, now, {reason: 1})
            else:
                score.reasons[reason] = score.reasons.get(reason, 0) + 1
                if now - score.at_us >= EVERY_US:
                    score.points = min(score.points_left(now) + POINT, POINTS_MAX * POINT)
                    score.at_us = now
        self.has_changed = True

    def take_back(self, peer: bytes, now: int) -> None:
        """Take a point back from a peer that was only slow."""
        for blamed in self._concerned(peer):
            score = self._scores.get(blamed)
            if score is not None:
                score.points, score.at_us = max(0, score.points_left(now) - POINT), now
                if not score.points:
                    del self._scores[blamed]
                self.has_changed = True

    def _concerned(self, peer: bytes) -> list[Blamed]:
        prefix = self._prefix_of(peer)
        return [peer, prefix] if prefix else [peer]

    def _make_room(self, now: int) -> None:
        """Forget the peer or prefix with the fewest points, if there are too many."""
        if len(self._scores) >= COUNT_MAX:
            del self._scores[min(self._scores, key=lambda blamed: self._points(blamed, now))]

    # --- choices ---

    def level(self, peer: bytes, now: int) -> int:
        """The points of a peer, or its share of its prefix's points if that is more, rounded."""
        if not self._scores:
            return 0
        points = self._points(peer, now)
        prefix = self._prefix_of(peer)
        if prefix:
            points = max(points, self._points(prefix, now) // PREFIX_SHARE)
        return (points + POINT // 2) // POINT

    def _points(self, blamed: Blamed, now: int) -> int:
        score = self._scores.get(blamed)
        return 0 if score is None else score.points_left(now)

    def least_first(
        self, items: Iterable[Item], now: int, peer_of: Callable[[Item], bytes]
    ) -> list[Item]:
        """Sort items by the blame of their peers; equally blamed ones keep their order."""
        if not self._scores:
            return list(items)
        return sorted(items, key=lambda item: self.level(peer_of(item), now))

    def unblamed(self, peers: Iterable[bytes], now: int) -> list[bytes]:
        """The peers without blame; all peers if each of them is blamed."""
        every = list(peers)
        if not self._scores:
            return every
        return [peer for peer in every if not self.level(peer, now)] or every

    def is_avoided(self, peer: bytes, now: int, other: bytes) -> bool:
        """Whether another peer should replace a blamed one."""
        level = self.level(peer, now)
        return level >= AVOIDED_LEVEL and 2 * self.level(other, now) <= level

    # --- for users, and for the storage ---

    def states(self, now: int) -> list[BlameState]:
        """The peers and prefixes that are blamed now, those with most points first."""
        found = [
            BlameState(blamed, score.points_left(now) / POINT, dict(score.reasons))
            for blamed, score in self._scores.items()
            if score.points_left(now)
        ]
        return sorted(found, key=lambda state: -state.points)

    def stored(self, now: int) -> list[StoredBlame]:
        """The scores to store; resets `has_changed`."""
        for blamed in [blamed for blamed in self._scores if not self._points(blamed, now)]:
            del self._scores[blamed]
        self.has_changed = False
        return [(b, score.points, score.at_us, score.reasons) for b, score in self._scores.items()]

    def restore(self, stored: Iterable[StoredBlame]) -> None:
        """Take stored scores, except of peers that this node has blamed since its start."""
        for blamed, points, at_us, reasons in stored:
            if len(self._scores) < COUNT_MAX:
                score = _Score(min(points, POINTS_MAX * POINT), at_us, reasons)
                self._scores.setdefault(blamed, score)

    def check(self) -> None:
        """Assert the limits."""
        assert len(self._scores) <= COUNT_MAX
        assert all(0 <= score.points <= POINTS_MAX * POINT for score in self._scores.values())
