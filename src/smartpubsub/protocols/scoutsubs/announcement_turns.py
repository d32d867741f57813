"""How much work the announcements of one peer may cause at a time, and per second.

An announcement causes work beyond its own handling: a lookup for a new tree, questions to
neighbours, copies for replicas, an announcement to the parent. Other peers answer all of that, and
their messages of other kinds wait behind the answers. So a node puts only a few announcements of a
peer in force at a time, and limits their number per second. The others wait here until that peer's
turn.

A long announcement enters its table a few filters at a time, because ten thousand filters would
hold up everything else on the node for half a second. Until the last of them is in the table, the
child is `ENTERING`: if the rest never comes, a later announcement has to be whole.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.settings import SECOND
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.runtime.pace import Pace, Rate
from smartpubsub.protocols.scoutsubs.attestation import ScoutOutbox
from smartpubsub.protocols.scoutsubs.filter_table import FilterTable, ScoutChild
from smartpubsub.protocols.scoutsubs.messages import Announce
from smartpubsub.seam import Peer

TIMER = "announcements"
AT_ONCE_MAX = 16
"""How many announcements of one peer a node puts in force at a time."""
AT_ONCE_MIN = 2
QUICK_US = SECOND // 4
"""If putting one in force usually takes longer, other nodes are busy, and fewer go at a time."""
RATE = Rate(per_second=50, burst=32)
"""How many announcements of one peer a node handles."""
BATCH_US = SECOND // 4
"""The interval at which a node handles the announcements of a peer beyond its rate. It handles them
together: the copies and announcements that follow from several cost little more than from one."""
CHANGES_AS_ONE = 32
"""Every this many filters that an announcement adds or removes cost as much as one more."""
FILTERS_AS_ONE = 128
"""Every this many filters of the child cost one more: it is stored and replicated whole."""
UNDER_WAY_US_MAX = 10 * SECOND
"""After this time another one may begin: nodes that do not answer must not stop the peer."""
HELD_FILTERS_MAX = 20_000
"""How many filters may wait in announcements of one peer; each announcement counts for one more."""
STEP = 256
"""How many filters of a long announcement enter the table at a time: some milliseconds of work."""


@dataclass(slots=True, eq=False)
class LongAnnouncement:
    """An announcement of a child that is on its way into a table."""

    contact: Contact
    part: Announce
    child: ScoutChild
    removed: list[Predicate]
    done: int = 0
    """How many of the filters were added or removed."""

    @property
    def is_done(self) -> bool:
        """Whether all filters are in the table."""
        return self.done >= len(self.part.added) + len(self.removed)

    def step(self, table: FilterTable) -> None:
        """Add the next filters; after the last of them, remove the next."""
        added = self.part.added[self.done : self.done + STEP]
        first = max(0, self.done - len(self.part.added))
        removed = [] if added else self.removed[first : first + STEP]
        table.change_child(self.child, added, removed)
        self.done += len(added) + len(removed)


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

    `filter_count` returns how many filters a peer has in a tree.
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
            self._set_timer(contact.peer, work)
        return False

    def begin(self, peer: Peer, attribute: str) -> None:
        """Note that an announcement was handled, and is not in force yet."""
        work = self._work_of(peer)
        work.under_way.pop(attribute, None)
        work.under_way[attribute] = self._outbox.now

    def end(self, peer: Peer, attribute: str) -> None:
        """Note that an announcement is in force."""
        work = self._work.get(peer)
        began_us = None if work is None else work.under_way.pop(attribute, None)
        if work is None or began_us is None:
            return
        self._sample(began_us)
        if work.held and not work.is_called:
            self._set_timer(peer, work)

    def set_busy(self, peer: Peer, *, is_busy: bool) -> None:
        """Make other announcements of a peer wait while a long one is handled."""
        self._work_of(peer).is_busy = is_busy

    def is_busy(self, peer: Peer) -> bool:
        """Whether a long announcement of a peer is being handled."""
        work = self._work.get(peer)
        return work is not None and work.is_busy

    def go_on(self, peer: Peer) -> None:
        """Continue the peer's work in its next turn."""
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
            self._set_timer(peer, work)
            return None
        contact, part = work.held[attribute]
        self._drop(work, attribute)
        self._charge(work, part, peer)
        return contact, part

    def tick(self) -> None:
        """Forget peers without waiting announcements that have not used up their rate."""
        for peer, work in list(self._work.items()):
            self._has_room(work)
            is_idle = not work.under_way and not work.held and not work.is_busy
            if is_idle and work.pace.is_idle(self._outbox.now):
                del self._work[peer]

    def forget(self, peer: Peer) -> None:
        """Drop the announcements of a peer that has disconnected; it repeats them if it returns."""
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

    def _set_timer(self, peer: Peer, work: _Work) -> None:
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
