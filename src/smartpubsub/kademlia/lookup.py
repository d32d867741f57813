"""The iterative lookup: who lies closest to a key, found by asking whoever lies closer.

A state machine of its own. `next` says whom to ask now, `on_answer` and `on_failure` take what came
of it, and it is finished when the k closest that did not fail have all answered. Each candidate
goes through the states of `TRANSITIONS`.

With more than one path (S/Kademlia) every path asks its own peers and none asks another's, so that
a liar leads only its own path astray; the closest of all paths are found together at the end.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from smartpubsub.kademlia.keys import Contact, Key


class State(Enum):
    """What is known of a candidate."""

    HEARD_OF = "heard of"
    ASKED = "asked"
    SLOW = "slow"
    ANSWERED = "answered"
    FAILED = "failed"


TRANSITIONS: dict[tuple[State, str], State] = {
    (State.HEARD_OF, "ask"): State.ASKED,
    (State.ASKED, "no answer yet"): State.SLOW,
    (State.ASKED, "answer"): State.ANSWERED,
    (State.ASKED, "failure"): State.FAILED,
    (State.SLOW, "answer"): State.ANSWERED,
    (State.SLOW, "failure"): State.FAILED,
}


@dataclass(slots=True)
class Candidate:
    """A peer that may be among the closest, and how many steps it took to hear of it."""

    distance: int
    contact: Contact
    hops: int
    path: int
    state: State = State.HEARD_OF

    def __lt__(self, other: Candidate) -> bool:
        return self.distance < other.distance


class Lookup:
    """One search for the k peers closest to a key."""

    def __init__(
        self, target: Key, seeds: Iterable[Contact], *, k: int, alpha: int, paths: int = 1
    ) -> None:
        self.target = target
        self._k = k
        self._alpha = alpha
        self._paths = paths
        self._by_peer: dict[bytes, Candidate] = {}
        self._ordered: list[list[Candidate]] = [[] for _ in range(paths)]
        self._asked_counts = [0] * paths
        self.finished = False
        """Whether, when `next` was last called, nothing open could change the result."""
        for number, seed in enumerate(seeds):
            self._hear_of(seed, hops=1, path=number % paths)

    def next(self) -> list[Contact]:
        """Whom to ask now; they count as asked from here on."""
        asking: list[Contact] = []
        self.finished = True
        for path in range(self._paths):
            alive = 0
            for candidate in self._ordered[path]:
                if candidate.state is State.FAILED:
                    continue
                if candidate.state is not State.ANSWERED:
                    self.finished = False
                    if self._asked_counts[path] >= self._alpha:
                        break
                    if candidate.state is State.HEARD_OF:
                        self._move(candidate, "ask")
                        asking.append(candidate.contact)
                alive += 1
                if alive == self._k:
                    break
        return asking

    def on_answer(self, peer: bytes, closer: Iterable[Contact]) -> None:
        """A peer has answered, and told of others."""
        candidate = self._by_peer.get(peer)
        if candidate is None or candidate.state not in (State.ASKED, State.SLOW):
            return
        self._move(candidate, "answer")
        for contact in closer:
            self._hear_of(contact, candidate.hops + 1, candidate.path)

    def on_slow(self, peer: bytes) -> None:
        """A peer takes long: it may still answer, but no longer keeps others from being asked."""
        candidate = self._by_peer.get(peer)
        if candidate is not None and candidate.state is State.ASKED:
            self._move(candidate, "no answer yet")

    def on_failure(self, peer: bytes) -> None:
        """A peer will not answer."""
        candidate = self._by_peer.get(peer)
        if candidate is not None and candidate.state in (State.ASKED, State.SLOW):
            self._move(candidate, "failure")

    def closest(self) -> list[Candidate]:
        """The closest that have answered, at most k of them, the closest first."""
        answered = [c for c in self._by_peer.values() if c.state is State.ANSWERED]
        return sorted(answered)[: self._k]

    def _hear_of(self, contact: Contact, hops: int, path: int) -> None:
        if contact.peer not in self._by_peer:
            candidate = Candidate(contact.key ^ self.target, contact, hops, path)
            self._by_peer[contact.peer] = candidate
            insort(self._ordered[path], candidate)

    def _move(self, candidate: Candidate, happening: str) -> None:
        was_asked = candidate.state is State.ASKED
        candidate.state = TRANSITIONS[candidate.state, happening]
        is_asked = candidate.state is State.ASKED
        self._asked_counts[candidate.path] += is_asked - was_asked
