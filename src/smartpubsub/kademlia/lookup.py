"""The iterative lookup: who lies closest to a key, found by asking whoever lies closer.

A state machine of its own. `next` says whom to ask now, `on_answer` and `on_failure` take what came
of it, and it is finished when the k closest that did not fail have all answered. Each candidate
goes through the states of `TRANSITIONS`.

With more than one path (S/Kademlia) every path asks its own peers and none asks another's, so that
a liar leads only its own path astray; the closest of all paths are found together at the end.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from smartpubsub.kademlia.keys import Contact, Key


class State(StrEnum):
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
    path: Path
    state: State = State.HEARD_OF


@dataclass(slots=True)
class Path:
    """One of the disjoint ways that a lookup goes, and whom it met there.

    Those who may still answer and those who have are kept apart, each in the order of distance, so
    that nothing has to be gone through again with every answer.
    """

    open: list[Candidate] = field(default_factory=list)
    open_distances: list[int] = field(default_factory=list)
    answered_distances: list[int] = field(default_factory=list)
    asked_count: int = 0

    def add(self, candidate: Candidate) -> None:
        """Somebody has been heard of."""
        place = bisect_left(self.open_distances, candidate.distance)
        self.open_distances.insert(place, candidate.distance)
        self.open.insert(place, candidate)

    def close(self, candidate: Candidate) -> None:
        """Somebody has answered or failed."""
        place = bisect_left(self.open_distances, candidate.distance)
        del self.open_distances[place], self.open[place]
        if candidate.state is State.ANSWERED:
            insort(self.answered_distances, candidate.distance)


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
    ) -> None:
        self.target = target
        self._k = k
        self._alpha = alpha
        self._paths = [Path() for _ in range(paths)]
        self._by_peer: dict[bytes | None, Candidate | None] = {own: None}
        """Everybody heard of; whoever looks is no candidate."""
        self.finished = False
        """Whether, when `next` was last called, nothing open could change the result."""
        for number, seed in enumerate(seeds):
            self._hear_of((seed,), hops=1, path=self._paths[number % paths])

    def next(self) -> list[Contact]:
        """Whom to ask now; they count as asked from here on."""
        asking: list[Contact] = []
        self.finished = True
        for path in self._paths:
            for place, candidate in enumerate(path.open):
                if place + bisect_left(path.answered_distances, candidate.distance) >= self._k:
                    break
                self.finished = False
                if path.asked_count >= self._alpha:
                    break
                if candidate.state is State.HEARD_OF:
                    self._move(candidate, "ask")
                    asking.append(candidate.contact)
        return asking

    def on_answer(self, peer: bytes, closer: Iterable[Contact]) -> None:
        """A peer has answered, and told of others."""
        candidate = self._open_candidate(peer)
        if candidate is not None:
            self._move(candidate, "answer")
            candidate.path.close(candidate)
            if not self.finished:  # Whoever answers after that changes nothing any more.
                self._hear_of(closer, candidate.hops + 1, candidate.path)

    def on_slow(self, peer: bytes) -> None:
        """A peer takes long: it may still answer, but no longer keeps others from being asked."""
        candidate = self._open_candidate(peer)
        if candidate is not None and candidate.state is State.ASKED:
            self._move(candidate, "no answer yet")

    def on_failure(self, peer: bytes) -> None:
        """A peer will not answer."""
        candidate = self._open_candidate(peer)
        if candidate is not None:
            self._move(candidate, "failure")
            candidate.path.close(candidate)

    def closest(self) -> list[Candidate]:
        """The closest that have answered, at most k of them, the closest first."""
        everybody = self._by_peer.values()
        answered = [c for c in everybody if c is not None and c.state is State.ANSWERED]
        return sorted(answered, key=lambda candidate: candidate.distance)[: self._k]

    def _open_candidate(self, peer: bytes) -> Candidate | None:
        """Somebody who was asked and may still answer."""
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

    def _move(self, candidate: Candidate, happening: str) -> None:
        was_asked = candidate.state is State.ASKED
        candidate.state = TRANSITIONS[candidate.state, happening]
        is_asked = candidate.state is State.ASKED
        candidate.path.asked_count += is_asked - was_asked
