"""The mesh: the few peers with whom a node exchanges events as they come."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from statistics import median

from smartpubsub.protocols.baselines.gossip_scores import Scores
from smartpubsub.protocols.baselines.gossip_settings import GossipSettings
from smartpubsub.protocols.peers import Peers
from smartpubsub.seam import Peer


class Mesh:
    """Who is in it, and who may not come back yet."""

    def __init__(self, settings: GossipSettings, peers: Peers, scores: Scores, rng: Random) -> None:
        self.members: dict[Peer, None] = {}
        self.backoffs: dict[Peer, int] = {}
        """Until when peers may not come, those told longest ago first."""
        self._settings = settings
        self._peers = peers
        self._scores = scores
        self._rng = rng
        self._changes_judged = 0

    # --- what others want ---

    def on_graft(self, peer: Peer, now: int) -> bool:
        """A peer has taken this node into its mesh; whether it is taken into this one too.

        libp2p takes those that it connected to itself even if there are too many. Here these are
        nearly all, and a limit for the rest would be none.
        """
        settings = self._settings
        if peer in self.members:
            return True
        until = self.backoffs.get(peer, now)
        if now < until:
            self._scores.misbehaved(peer, now)
            if now < until - settings.backoff_us + settings.graft_flood_us:
                self._scores.misbehaved(peer, now)
        elif len(self.members) < settings.d_high and self._is_welcome(peer, now):
            self._enter(peer, now)
            return True
        self._back_off(peer, now + settings.backoff_us)
        return False

    def on_prune(self, peer: Peer, backoff_us: int, now: int) -> None:
        """A peer has put this node out of its mesh, for so long at least."""
        self.drop(peer, now)
        self._back_off(peer, now + min(backoff_us, self._settings.backoff_us_max))

    def drop(self, peer: Peer, now: int) -> None:
        """A peer is gone."""
        if peer in self.members:
            del self.members[peer]
            self._scores.left_mesh(peer, now)

    # --- what this node wants ---

    def maintain(self, now: int, *, thoroughly: bool) -> tuple[list[Peer], list[Peer]]:
        """See that the mesh has as many members as it should, and good ones: who came, who went.

        Most of the time nothing has happened, and then it is not looked into unless thoroughly.
        """
        settings = self._settings
        is_size_right = settings.d_low <= len(self.members) <= settings.d_high
        if is_size_right and not thoroughly and self._scores.changes == self._changes_judged:
            return [], []
        self._changes_judged = self._scores.changes
        before = dict(self.members)
        self._prune([peer for peer in before if not self._is_welcome(peer, now)], now)
        if len(self.members) < settings.d_low:
            self._graft(self._candidates(now), settings.d - len(self.members), now)
        if thoroughly:
            self._look_around(now)
        if len(self.members) > settings.d_high:
            self._prune(self._surplus(now), now)
        grafted = [peer for peer in self.members if peer not in before]
        return grafted, [peer for peer in before if peer not in self.members]

    def _look_around(self, now: int) -> None:
        rested = now - self._settings.backoff_slack_us
        self.backoffs = {peer: until for peer, until in self.backoffs.items() if until > rested}
        for peer in [peer for peer in self.members if peer not in self._peers]:
            self.drop(peer, now)
        self._graft_outbound(now)
        self._graft_better(now)

    def _surplus(self, now: int) -> list[Peer]:
        """All but D: the best stay, and enough of those that this node chose itself."""
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
        """If the mesh is poor take in some who are better than half of it."""
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
            and self._is_welcome(peer, now)
            and is_wanted(peer)
        ]

    def _is_welcome(self, peer: Peer, now: int) -> bool:
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
