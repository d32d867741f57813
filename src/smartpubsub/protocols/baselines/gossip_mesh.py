"""The mesh: the few peers to which a node forwards events at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from statistics import median

from smartpubsub.protocols.baselines.gossip_scores import Scores
from smartpubsub.protocols.baselines.gossip_settings import GossipSettings
from smartpubsub.protocols.baselines.peers import Peers
from smartpubsub.seam import Peer


class Mesh:
    """The mesh members, and the peers that may not rejoin yet."""

    def __init__(self, settings: GossipSettings, peers: Peers, scores: Scores, rng: Random) -> None:
        self.members: dict[Peer, None] = {}
        self.backoffs: dict[Peer, int] = {}
        """Until when each peer may not rejoin; the oldest back-off first."""
        self._settings = settings
        self._peers = peers
        self._scores = scores
        self._rng = rng
        self._changes_seen = 0

    # --- messages of peers ---

    def on_graft(self, peer: Peer, now: int) -> bool:
        """Add a peer that has grafted this node to the mesh; False if refused.

        libp2p accepts peers that it connected to itself even if the mesh is full. Here these are
        nearly all peers, so that exception would remove the limit.
        """
        settings = self._settings
        if peer in self.members:
            return True
        until = self.backoffs.get(peer, now)
        if now < until:
            self._scores.misbehaved(peer, now)
            if now < until - settings.backoff_us + settings.graft_flood_us:
                self._scores.misbehaved(peer, now)
        elif len(self.members) < settings.d_high and self._is_acceptable(peer, now):
            self._enter(peer, now)
            return True
        self._back_off(peer, now + settings.backoff_us)
        return False

    def on_prune(self, peer: Peer, backoff_us: int, now: int) -> None:
        """Drop a peer that has pruned this node, and leave it alone for the back-off."""
        self.drop(peer, now)
        self._back_off(peer, now + min(backoff_us, self._settings.backoff_us_max))

    def drop(self, peer: Peer, now: int) -> None:
        """Remove a peer from the mesh."""
        if peer in self.members:
            del self.members[peer]
            self._scores.left_mesh(peer, now)

    # --- maintenance ---

    def maintain(self, now: int, *, thoroughly: bool) -> tuple[list[Peer], list[Peer]]:
        """Correct the size and quality of the mesh; return the grafted and the pruned peers.

        Without `thoroughly` this does nothing if the size is right and no score may have dropped.
        """
        settings = self._settings
        is_size_right = settings.d_low <= len(self.members) <= settings.d_high
        if is_size_right and not thoroughly and self._scores.changes == self._changes_seen:
            return [], []
        self._changes_seen = self._scores.changes
        before = dict(self.members)
        self._prune([peer for peer in before if not self._is_acceptable(peer, now)], now)
        if len(self.members) < settings.d_low:
            self._graft(self._candidates(now), settings.d - len(self.members), now)
        if thoroughly:
            self._maintain_thoroughly(now)
        if len(self.members) > settings.d_high:
            self._prune(self._surplus(now), now)
        grafted = [peer for peer in self.members if peer not in before]
        return grafted, [peer for peer in before if peer not in self.members]

    def _maintain_thoroughly(self, now: int) -> None:
        rested = now - self._settings.backoff_slack_us
        self.backoffs = {peer: until for peer, until in self.backoffs.items() if until > rested}
        for peer in [peer for peer in self.members if peer not in self._peers]:
            self.drop(peer, now)
        self._graft_outbound(now)
        self._graft_better(now)

    def _surplus(self, now: int) -> list[Peer]:
        """Return the members to prune: all but D, of which the best and some outbound ones stay."""
        settings = self._settings
        members = list(self.members)
        self._rng.shuffle(members)
        members.sort(key=lambda peer: -self._scores.score(peer, now))
        best, rest = members[: settings.d_score], members[settings.d_score :]
        missing = settings.d_out - sum(map(self._peers.is_outbound, best))
        chosen = list(filter(self._peers.is_outbound, rest))[: max(0, missing)]
        self._rng.shuffle(rest)
        rest.sort(key=lambda peer: peer not in chosen)
        return rest[settings.d - settings.d_score :]

    def _graft_outbound(self, now: int) -> None:
        missing = self._settings.d_out - sum(map(self._peers.is_outbound, self.members))
        if missing > 0:
            self._graft(self._candidates(now, self._peers.is_outbound), missing, now)

    def _graft_better(self, now: int) -> None:
        """Opportunistic grafting: if the median score is low, add peers that are above it."""
        if len(self.members) < 2:
            return
        middle = median(self._scores.score(peer, now) for peer in self.members)
        if middle < self._settings.scores.opportunistic_threshold:
            better = self._candidates(now, lambda peer: self._scores.score(peer, now) > middle)
            self._graft(better, self._settings.opportunistic_count, now)

    def _candidates(
        self, now: int, is_wanted: Callable[[Peer], bool] = lambda _: True
    ) -> list[Peer]:
        rested = now - self._settings.backoff_slack_us
        return [
            peer
            for peer in self._peers
            if peer not in self.members
            and self.backoffs.get(peer, rested) <= rested
            and self._is_acceptable(peer, now)
            and is_wanted(peer)
        ]

    def _is_acceptable(self, peer: Peer, now: int) -> bool:
        return self._scores.is_above(0.0, peer, now)

    def _graft(self, candidates: Sequence[Peer], count: int, now: int) -> None:
        for peer in self._rng.sample(candidates, min(count, len(candidates))):
            self._enter(peer, now)

    def _enter(self, peer: Peer, now: int) -> None:
        self.members[peer] = None
        self._scores.entered_mesh(peer, now)

    def _prune(self, peers: Sequence[Peer], now: int) -> None:
        for peer in peers:
            self.drop(peer, now)
            self._back_off(peer, now + self._settings.backoff_us)

    def _back_off(self, peer: Peer, until: int) -> None:
        self.backoffs[peer] = max(until, self.backoffs.pop(peer, 0))
        if len(self.backoffs) > self._settings.peer_count_max:
            del self.backoffs[next(iter(self.backoffs))]
