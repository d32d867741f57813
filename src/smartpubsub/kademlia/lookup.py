"""The iterative lookup: finds the peers closest to a key by querying ever closer ones.

It is a state machine of its own. `next` returns the peers to query now, `on_answer` and
`on_failure` take the outcome, and it is finished when the k closest that did not fail have all
answered. Each candidate goes through the states of `TRANSITIONS`.

With more than one path (S/Kademlia), the paths query disjoint sets of peers, so that a lying peer
misleads only its own path. The result combines the closest of all paths.

The result can be limited to a few peers with the same address prefix. A lookup learns the prefix of
a peer when the peer answers, since other peers may lie about it. So it also asks peers beyond the
limit, and then does not count them.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from smartpubsub.kademlia.keys import Contact, Key


class State(StrEnum):
    """The state of a candidate."""

    HEARD_OF = "heard of"
    ASKED = "asked"
    SLOW = "slow"
    ANSWERED = "answered"
    CROWDED_OUT = "crowded out"
    """It has answered, and closer ones have the same address prefix."""
    FAILED = "failed"


TRANSITIONS: dict[tuple[State, str], State] = {
    (State.HEARD_OF, "ask"): State.ASKED,
    (State.ASKED, "no answer yet"): State.SLOW,
    (State.ASKED, "answer"): State.ANSWERED,
    (State.ASKED, "failure"): State.FAILED,
    (State.SLOW, "answer"): State.ANSWERED,
    (State.SLOW, "failure"): State.FAILED,
    (State.ANSWERED, "closer ones with its prefix"): State.CROWDED_OUT,
}

CROWDED_OUT_MAX = 200
"""Further crowded-out peers count as answered, so that an attacker cannot prolong a lookup."""


@dataclass(slots=True)
class Candidate:
    """A peer that may be among the closest, and the number of steps to it."""

    distance: int
    contact: Contact
    hops: int
    path: Path
    state: State = State.HEARD_OF


@dataclass(slots=True)
class Path:
    """One of the disjoint paths of a lookup, with its candidates.

    Open and answered candidates are kept apart, each sorted by distance, so that an answer does not
    require a scan of all.
    """

    open: list[Candidate] = field(default_factory=list)
    open_distances: list[int] = field(default_factory=list)
    answered_distances: list[int] = field(default_factory=list)
    asked_count: int = 0

    def add(self, candidate: Candidate) -> None:
        """Add a candidate."""
        place = bisect_left(self.open_distances, candidate.distance)
        self.open_distances.insert(place, candidate.distance)
        self.open.insert(place, candidate)

    def close(self, candidate: Candidate) -> None:
        """Settle a candidate that has answered or failed."""
        place = bisect_left(self.open_distances, candidate.distance)
        del self.open_distances[place], self.open[place]
        if candidate.state is State.ANSWERED:
            insort(self.answered_distances, candidate.distance)

    def forget(self, candidate: Candidate) -> None:
        """Stop counting a candidate that has answered."""
        del self.answered_distances[bisect_left(self.answered_distances, candidate.distance)]


class Lookup:
    """One search for the k peers closest to a key."""

    def __init__(
        self,
        target: Key,
        seeds: Iterable[Contact],
        *,
        k: int,
        alpha: int,
        paths: int = 1,
        own: bytes | None = None,
        waits_for_slow: bool = True,
        per_prefix_max: int = 0,
    ) -> None:
        self.target = target
        self._k = k
        self._alpha = alpha
        self.waits_for_slow = waits_for_slow
        self._per_prefix_max = per_prefix_max
        self._of_prefix: dict[str, list[Candidate]] = {}
        """By address prefix: the candidates that have answered and count, the closest first."""
        self._crowded_out = 0
        self._paths = [Path() for _ in range(paths)]
        self._by_peer: dict[bytes | None, Candidate | None] = {own: None}
        """All candidates; the node itself is not one."""
        self.finished = False
        """Whether no open candidate could change the result, as of the last call of `next`."""
        for number, seed in enumerate(seeds):
            self._hear_of((seed,), hops=1, path=self._paths[number % paths])

    def next(self) -> list[Contact]:
        """Return the peers to query now, and mark them as asked."""
        asking: list[Contact] = []
        self.finished = True
        for path in self._paths:
            for place, candidate in enumerate(path.open):
                if place + bisect_left(path.answered_distances, candidate.distance) >= self._k:
                    break
                if candidate.state is State.SLOW and not self.waits_for_slow:
                    continue
                self.finished = False
                if path.asked_count >= self._alpha:
                    break
                if candidate.state is State.HEARD_OF:
                    self._move(candidate, "ask")
                    asking.append(candidate.contact)
        return asking

    def on_answer(self, peer: bytes, closer: Iterable[Contact], prefix: str = "") -> None:
        """Take a peer's answer, and the peers that it names."""
        candidate = self._open_candidate(peer)
        if candidate is not None:
            self._move(candidate, "answer")
            candidate.path.close(candidate)
            if self._per_prefix_max and prefix:
                self._limit(prefix, candidate)
            if not self.finished:  # Later answers change nothing.
                self._hear_of(closer, candidate.hops + 1, candidate.path)

    def on_slow(self, peer: bytes) -> None:
        """Mark a peer as slow: it may still answer, but no longer holds a query slot."""
        candidate = self._open_candidate(peer)
        if candidate is not None and candidate.state is State.ASKED:
            self._move(candidate, "no answer yet")

    def on_failure(self, peer: bytes) -> None:
        """Mark a peer as failed."""
        candidate = self._open_candidate(peer)
        if candidate is not None:
            self._move(candidate, "failure")
            candidate.path.close(candidate)

    def closest(self) -> list[Candidate]:
        """The closest peers that have answered, at most k, the closest first."""
        candidates = self._by_peer.values()
        answered = [c for c in candidates if c is not None and c.state is State.ANSWERED]
        return sorted(answered, key=lambda candidate: candidate.distance)[: self._k]

    def _limit(self, prefix: str, candidate: Candidate) -> None:
        """Let only the closest few with an address prefix count."""
        same = self._of_prefix.setdefault(prefix, [])
        insort(same, candidate, key=lambda one: one.distance)
        if len(same) > self._per_prefix_max:
            farthest = same.pop()
            self._move(farthest, "closer ones with its prefix")
            self._crowded_out += 1
            if self._crowded_out <= CROWDED_OUT_MAX:
                farthest.path.forget(farthest)

    def _open_candidate(self, peer: bytes) -> Candidate | None:
        """A candidate that was asked and may still answer."""
        candidate = self._by_peer.get(peer)
        if candidate is None or candidate.state not in (State.ASKED, State.SLOW):
            return None
        return candidate

    def _hear_of(self, contacts: Iterable[Contact], hops: int, path: Path) -> None:
        by_peer = self._by_peer
        for contact in contacts:
            if contact.peer not in by_peer:
                candidate = Candidate(contact.key ^ self.target, contact, hops, path)
                by_peer[contact.peer] = candidate
                path.add(candidate)

    def _move(self, candidate: Candidate, trigger: str) -> None:
        was_asked = candidate.state is State.ASKED
        candidate.state = TRANSITIONS[candidate.state, trigger]
        is_asked = candidate.state is State.ASKED
        candidate.path.asked_count += is_asked - was_asked
