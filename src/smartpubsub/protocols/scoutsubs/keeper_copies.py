"""The copies of a publisher's events that are on their way to keepers.

A keeper does not acknowledge an event that a rendezvous has acknowledged. Where the network loses
messages, it may lose the copy for the only honest keeper. So unless the network seems to lose
nothing, a probe travels in the bundle with the copies. The bundle arrives or is lost as a whole, so
the answer to the probe shows that the keeper has the copies. Until it comes, the publisher sends
them again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from smartpubsub.protocols.publication import Publication
from smartpubsub.protocols.runtime.deadlines import Deadlines
from smartpubsub.protocols.runtime.failure_detector import FailureDetector
from smartpubsub.protocols.scoutsubs.attestation import ScoutOutbox
from smartpubsub.protocols.scoutsubs.messages import KeepForAudits
from smartpubsub.protocols.scoutsubs.timeouts import ResponseTimes, backed_off
from smartpubsub.seam import Peer

COPIES_TIMER = "copies"
COPIES_MAX = 10_000
COPIES_BYTES_MAX = 64 << 20
"""How many copies a node remembers until they have arrived, and their size; it sends further ones
only once."""
TOGETHER_MAX = 16
TOGETHER_BYTES_MAX = 1 << 16
"""How many copies travel with one probe, and their size, unless there is one: far less than a
bundle has room for."""
PROBES_MAX = 16
"""How many probes of one keeper are unanswered at a time: fewer than the failure detector
remembers."""
TRIES_MAX = 5


@dataclass(slots=True)
class _Copies:
    """Copies that travel together."""

    sent_us: int
    tries: int
    events: list[tuple[Publication, str]] = field(default_factory=list)
    """The events and their trees."""

    @property
    def size(self) -> int:
        """The size of the events."""
        return sum(event.wire_bytes for event, _ in self.events)


@dataclass(eq=False)
class KeeperCopies:
    """Sends events to keepers; where messages get lost, again until they have arrived."""

    _outbox: ScoutOutbox
    _detector: FailureDetector
    _times: ResponseTimes

    def __post_init__(self) -> None:
        self._sent: dict[Peer, dict[int, _Copies]] = {}
        """By keeper and the number of the probe: copies that may not have arrived."""
        self._count = 0
        self.bytes_held = 0
        """The size of all copies that may not have arrived."""
        self._deadlines: Deadlines[tuple[Peer, int]] = Deadlines(self._outbox, COPIES_TIMER)

    def __len__(self) -> int:
        return self._count

    def send(self, peer: Peer, event: Publication, tree: str) -> None:
        """Send an event to a keeper of a tree."""
        self._send(peer, event, tree, 1)

    def _send(self, peer: Peer, event: Publication, tree: str, tries: int) -> None:
        self._outbox.queue(peer, KeepForAudits(event, tree, False))
        if not self._detector.may_lose_messages or not self._may_remember(event):
            return
        sent = self._sent.setdefault(peer, {})
        copies = sent[next(reversed(sent))] if sent else None
        if copies is None or not self._has_room(copies, event, tries):
            if len(sent) >= PROBES_MAX:
                return
            copies = self._begin(peer, sent, tries)
        copies.events.append((event, tree))
        self._count += 1
        self.bytes_held += event.wire_bytes

    def _may_remember(self, event: Publication) -> bool:
        has_room = self.bytes_held + event.wire_bytes <= COPIES_BYTES_MAX
        return has_room and self._count < COPIES_MAX

    def _has_room(self, copies: _Copies, event: Publication, tries: int) -> bool:
        """Whether a further copy can travel with some: they are in the bundle that is next."""
        is_next = copies.sent_us == self._outbox.now and copies.tries == tries
        is_small = copies.size + event.wire_bytes <= TOGETHER_BYTES_MAX
        return is_next and is_small and len(copies.events) < TOGETHER_MAX

    def _begin(self, peer: Peer, sent: dict[int, _Copies], tries: int) -> _Copies:
        number = self._detector.probe_along(peer)
        copies = sent[number] = _Copies(self._outbox.now, tries)
        timeout_us = self._times.timeout_us_for(peer)
        self._deadlines.set((peer, number), backed_off(timeout_us, tries, was_heard=False))
        return copies

    def on_alive(self, peer: Peer, number: int) -> None:
        """Note that a keeper has the copies that have travelled with a probe."""
        if number in self._sent.get(peer, ()):
            self._deadlines.cancel((peer, number))
            self._taken(peer, number)

    def on_timer(self) -> None:
        """Send the copies again whose probe was not answered in time."""
        for peer, number in self._deadlines.due():
            copies = self._taken(peer, number)
            # On full links an answer is late, and more copies would make it later.
            is_slow = self._times.are_slow or self._detector.is_slow(peer)
            if copies.tries < TRIES_MAX and not is_slow and not self._detector.is_down(peer):
                for event, tree in copies.events:
                    self._send(peer, event, tree, copies.tries + 1)

    def _taken(self, peer: Peer, number: int) -> _Copies:
        sent = self._sent[peer]
        copies = sent.pop(number)
        if not sent:
            del self._sent[peer]
        self._count -= len(copies.events)
        self.bytes_held -= copies.size
        return copies

    def check(self) -> None:
        """Assert the invariants: all copies are counted, and have a deadline."""
        every = [copies for sent in self._sent.values() for copies in sent.values()]
        assert all(1 <= len(sent) <= PROBES_MAX for sent in self._sent.values())
        assert all(1 <= len(copies.events) <= TOGETHER_MAX for copies in every)
        assert all(1 <= copies.tries <= TRIES_MAX for copies in every)
        assert all(c.size <= TOGETHER_BYTES_MAX or len(c.events) == 1 for c in every)
        assert self._count == sum(len(copies.events) for copies in every) <= COPIES_MAX
        assert self.bytes_held == sum(copies.size for copies in every) <= COPIES_BYTES_MAX
        assert len(self._deadlines) == len(every)
        self._deadlines.check()
