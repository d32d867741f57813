"""How much work the announcements of one peer may cause at a time.

An announcement causes work beyond its own handling: a lookup for a new tree, questions to
neighbours, copies for replicas, an announcement to the parent. Other peers answer all of that, and
their messages of other kinds wait behind the answers. So a node puts only a few announcements of a
peer in force at a time. The others wait here, and are handled later in that peer's turn.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.settings import SECOND
from smartpubsub.protocols.scoutsubs.attestation import ScoutOutbox
from smartpubsub.protocols.scoutsubs.messages import Announce
from smartpubsub.seam import Peer

TIMER = "announcements"
AT_ONCE_MAX = 32
"""Announcements of one peer that are being put in force."""
UNDER_WAY_US_MAX = 10 * SECOND
"""After this time another one may begin: nodes that do not answer must not stop the peer."""
HELD_FILTERS_MAX = 20_000
"""Filters in the announcements of one peer that wait, each with one more for its attribute."""


@dataclass(slots=True)
class _Work:
    under_way: dict[str, int] = field(default_factory=dict)
    """The trees whose announcements are being put in force, and since when; the oldest first."""
    held: dict[str, tuple[Contact, Announce]] = field(default_factory=dict)
    held_filters: int = 0
    is_called: bool = False
    """Whether a timer is set to go on at once."""


def _filters_in(part: Announce) -> int:
    return 1 + len(part.added) + len(part.removed)


class AnnouncementTurns:
    """The announcements of each peer that are being put in force, and those that wait."""

    def __init__(self, outbox: ScoutOutbox) -> None:
        self._outbox = outbox
        self._work: dict[Peer, _Work] = {}

    def admit(self, contact: Contact, part: Announce) -> bool:
        """Whether an announcement may be handled now; if not, it waits."""
        work = self._work.get(contact.peer)
        if work is None:
            return True
        self._drop(work, part.attribute)
        if part.attribute in work.under_way or self._has_room(work):
            return True
        if work.held_filters + _filters_in(part) > HELD_FILTERS_MAX:
            self._outbox.reject("announcements at once")
            return False
        if not work.held:
            self._go_on_when_there_is_room(contact.peer, work)
        work.held[part.attribute] = (contact, part)
        work.held_filters += _filters_in(part)
        return False

    def begin(self, peer: Peer, attribute: str) -> None:
        """An announcement is handled, and not in force yet."""
        work = self._work.setdefault(peer, _Work())
        work.under_way.pop(attribute, None)
        work.under_way[attribute] = self._outbox.now

    def end(self, peer: Peer, attribute: str) -> None:
        """An announcement is in force."""
        work = self._work.get(peer)
        if work is None or work.under_way.pop(attribute, None) is None:
            return
        if work.held and not work.is_called:
            work.is_called = True
            self._outbox.set_timer((TIMER, peer), 0, peer)
        self._forget_if_idle(peer, work)

    def take(self, peer: Peer) -> tuple[Contact, Announce] | None:
        """An announcement that has waited and may be handled now, if there is one."""
        work = self._work.get(peer)
        if work is None:
            return None
        work.is_called = False
        if not work.held:
            self._forget_if_idle(peer, work)
            return None
        if not self._has_room(work):
            self._go_on_when_there_is_room(peer, work)
            return None
        contact, part = work.held[next(iter(work.held))]
        self._drop(work, part.attribute)
        return contact, part

    def tick(self) -> None:
        """Forget the peers of which nothing waits."""
        for peer, work in list(self._work.items()):
            self._has_room(work)
            self._forget_if_idle(peer, work)

    def forget(self, peer: Peer) -> None:
        """Drop what waits: the peer has disconnected, and announces it again if it comes back."""
        self._work.pop(peer, None)

    def _drop(self, work: _Work, attribute: str) -> None:
        held = work.held.pop(attribute, None)
        if held is not None:
            work.held_filters -= _filters_in(held[1])

    def _has_room(self, work: _Work) -> bool:
        oldest_us = self._outbox.now - UNDER_WAY_US_MAX
        while work.under_way and next(iter(work.under_way.values())) <= oldest_us:
            del work.under_way[next(iter(work.under_way))]
        return len(work.under_way) < AT_ONCE_MAX

    def _go_on_when_there_is_room(self, peer: Peer, work: _Work) -> None:
        work.is_called = False
        room_us = next(iter(work.under_way.values())) + UNDER_WAY_US_MAX
        self._outbox.set_timer((TIMER, peer), room_us - self._outbox.now, peer)

    def _forget_if_idle(self, peer: Peer, work: _Work) -> None:
        if not work.under_way and not work.held:
            del self._work[peer]

    def check(self) -> None:
        """Assert the invariants: the limits hold, and what waits has a timer."""
        for work in self._work.values():
            assert len(work.under_way) <= AT_ONCE_MAX
            assert work.held_filters == sum(_filters_in(part) for _, part in work.held.values())
            assert work.held_filters <= HELD_FILTERS_MAX
            assert not any(attribute in work.held for attribute in work.under_way)
