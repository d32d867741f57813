"""How much work the announcements of one peer may cause at a time, and in a second.

An announcement causes work beyond its own handling: a lookup for a new tree, questions to
neighbours, copies for replicas, an announcement to the parent. Other peers answer all of that, and
their messages of other kinds wait behind the answers. So a node puts only a few announcements of a
peer in force at a time, and only so many in a second. The others wait here, and are handled later
in that peer's turn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.settings import SECOND
from smartpubsub.protocols.runtime.pace import Pace, Rate
from smartpubsub.protocols.scoutsubs.attestation import ScoutOutbox
from smartpubsub.protocols.scoutsubs.messages import Announce
from smartpubsub.seam import Peer

TIMER = "announcements"
AT_ONCE_MAX = 16
"""Announcements of one peer that are being put in force."""
AT_ONCE_MIN = 2
QUICK_US = SECOND // 4
"""Where that usually takes longer, the nodes around are busy, and there are fewer at a time."""
RATE = Rate(per_second=50, burst=32)
"""Of the announcements of one peer that are handled."""
BATCH_US = SECOND // 4
"""A peer that is beyond its rate has its announcements handled together, so often: the copies and
announcements that follow from several cost the nodes around little more than those of one."""
CHANGES_AS_ONE = 32
"""Each so many filters that are added or removed cost one more announcement."""
FILTERS_AS_ONE = 128
"""Each so many filters of the child cost one more: a node stores and replicates a child whole."""
UNDER_WAY_US_MAX = 10 * SECOND
"""After this time another one may begin: nodes that do not answer must not stop the peer."""
HELD_FILTERS_MAX = 20_000
"""Filters in the announcements of one peer that wait, each with one more for its attribute."""


@dataclass(slots=True)
class _Work:
    pace: Pace
    under_way: dict[str, int] = field(default_factory=dict)
    """The trees whose announcements are being put in force, and since when; the oldest first."""
    held: dict[str, tuple[Contact, Announce]] = field(default_factory=dict)
    held_filters: int = 0
    is_called: bool = False
    """Whether a timer is set to go on as soon as the rate allows it."""
    is_busy: bool = False
    """Whether a long announcement is being handled."""


def _filters_in(part: Announce) -> int:
    return 1 + len(part.added) + len(part.removed)


class AnnouncementTurns:
    """The announcements of each peer that are being put in force, and those that wait.

    `filter_count` tells how many filters a peer has in a tree.
    """

    def __init__(self, outbox: ScoutOutbox, filter_count: Callable[[Peer, str], int]) -> None:
        self._outbox = outbox
        self._filter_count = filter_count
        self._work: dict[Peer, _Work] = {}
        self._usual_us = 0
        """How long it takes to put an announcement in force, smoothed over all peers."""

    def admit(self, contact: Contact, part: Announce) -> bool:
        """Whether an announcement may be handled now; if not, it waits."""
        work = self._work_of(contact.peer)
        self._drop(work, part.attribute)
        if not work.held and self._may_begin(work, part.attribute):
            self._charge(work, part, contact.peer)
            return True
        if work.held_filters + _filters_in(part) > HELD_FILTERS_MAX:
            self._outbox.reject("announcements at once")
            return False
        is_first = not work.held
        work.held[part.attribute] = (contact, part)
        work.held_filters += _filters_in(part)
        if is_first:
            self._go_on_when_there_is_room(contact.peer, work)
        return False

    def begin(self, peer: Peer, attribute: str) -> None:
        """An announcement is handled, and not in force yet."""
        work = self._work_of(peer)
        work.under_way.pop(attribute, None)
        work.under_way[attribute] = self._outbox.now

    def end(self, peer: Peer, attribute: str) -> None:
        """An announcement is in force."""
        work = self._work.get(peer)
        began_us = None if work is None else work.under_way.pop(attribute, None)
        if work is None or began_us is None:
            return
        self._sample(began_us)
        if work.held and not work.is_called:
            self._go_on_when_there_is_room(peer, work)

    def set_busy(self, peer: Peer, *, is_busy: bool) -> None:
        """While a long announcement of a peer is handled, its others wait."""
        self._work_of(peer).is_busy = is_busy

    def is_busy(self, peer: Peer) -> bool:
        """Whether a long announcement of a peer is being handled."""
        work = self._work.get(peer)
        return work is not None and work.is_busy

    def go_on(self, peer: Peer) -> None:
        """Go on with the peer's work in its next turn."""
        self._outbox.set_timer((TIMER, peer), 0, peer)

    def take(self, peer: Peer) -> tuple[Contact, Announce] | None:
        """An announcement that has waited and may be handled now, if there is one."""
        work = self._work.get(peer)
        if work is None:
            return None
        work.is_called = False
        if not work.held:
            return None
        attribute = next(iter(work.held))
        if not self._may_begin(work, attribute):
            self._go_on_when_there_is_room(peer, work)
            return None
        contact, part = work.held[attribute]
        self._drop(work, attribute)
        self._charge(work, part, peer)
        return contact, part

    def tick(self) -> None:
        """Forget the peers of which nothing waits and that have not used up their rate."""
        for peer, work in list(self._work.items()):
            self._has_room(work)
            is_idle = not work.under_way and not work.held and not work.is_busy
            if is_idle and work.pace.is_idle(self._outbox.now):
                del self._work[peer]

    def forget(self, peer: Peer) -> None:
        """Drop what waits: the peer has disconnected, and announces it again if it comes back."""
        work = self._work.get(peer)
        if work is not None:
            self._work[peer] = _Work(work.pace)

    def _work_of(self, peer: Peer) -> _Work:
        work = self._work.get(peer)
        if work is None:
            work = self._work[peer] = _Work(Pace(self._outbox.now))
        return work

    def _charge(self, work: _Work, part: Announce, peer: Peer) -> None:
        cost = 1 + _filters_in(part) // CHANGES_AS_ONE
        cost += self._filter_count(peer, part.attribute) // FILTERS_AS_ONE
        work.pace.charge(RATE, self._outbox.now, cost)

    def _drop(self, work: _Work, attribute: str) -> None:
        held = work.held.pop(attribute, None)
        if held is not None:
            work.held_filters -= _filters_in(held[1])

    def _may_begin(self, work: _Work, attribute: str) -> bool:
        has_room = self._has_room(work) or attribute in work.under_way
        return has_room and not work.is_busy and not work.pace.wait_us(RATE, self._outbox.now)

    def _sample(self, began_us: int) -> None:
        self._usual_us += (self._outbox.now - began_us - self._usual_us) // 8

    @property
    def _at_once_max(self) -> int:
        at_once = AT_ONCE_MAX * QUICK_US // max(self._usual_us, QUICK_US)
        return max(AT_ONCE_MIN, at_once)

    def _has_room(self, work: _Work) -> bool:
        oldest_us = self._outbox.now - UNDER_WAY_US_MAX
        while work.under_way and next(iter(work.under_way.values())) <= oldest_us:
            self._sample(work.under_way.pop(next(iter(work.under_way))))
        return len(work.under_way) < self._at_once_max

    def _go_on_when_there_is_room(self, peer: Peer, work: _Work) -> None:
        if work.is_busy:
            return  # The end of the long announcement is the next occasion.
        wait_us = work.pace.wait_us(RATE, self._outbox.now)
        if wait_us:
            wait_us = max(wait_us, BATCH_US)
        work.is_called = len(work.under_way) < self._at_once_max
        if not work.is_called:
            room_us = next(iter(work.under_way.values())) + UNDER_WAY_US_MAX
            wait_us = max(wait_us, room_us - self._outbox.now)
        self._outbox.set_timer((TIMER, peer), wait_us, peer)

    def check(self) -> None:
        """Assert the invariants: the limits hold, and the size of what waits is known."""
        for work in self._work.values():
            assert len(work.under_way) <= AT_ONCE_MAX
            assert work.held_filters == sum(_filters_in(part) for _, part in work.held.values())
            assert work.held_filters <= HELD_FILTERS_MAX
