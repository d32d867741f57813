"""The search for descriptors: the peer that mentioned one sends it, or a lookup finds it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, TypeAlias

from smartpubsub.kademlia.ledger import NO_USER, Account
from smartpubsub.kademlia.queries import Got
from smartpubsub.kademlia.settings import SECOND
from smartpubsub.protocols.blocks import Cid
from smartpubsub.protocols.pulsarcast.component import Component
from smartpubsub.protocols.pulsarcast.fields import RefusalError
from smartpubsub.protocols.pulsarcast.messages import Described, WantBlocks
from smartpubsub.protocols.pulsarcast.topics import Topic, read_topic
from smartpubsub.seam import Peer

RETRY_US = 3 * SECOND
SEARCHES_MAX = 10
"""How often to search the overlay for a descriptor before it counts as not found."""
QUESTION_SEARCHES_MAX = 3
"""The same for a question of this node's user, who waits for the answer."""
WANTED_MAX = 10_000
SEARCHES_OF_PEER_MAX = 4
"""For how many descriptors that one peer has mentioned and not sent to search the overlay at a
time: a search makes many nodes work."""
WAITING_BYTES_MAX = 64 << 20
"""The size of all messages that wait for descriptors; one peer may have an eighth."""
WAITING_BYTES = 4 << 10
"""The size that each waiting message counts for, besides the events in it."""
ANSWERED_MAX = 50
"""How many descriptors to send in answer to one message."""


Then: TypeAlias = Callable[[Topic | None], None]
"""Called with a descriptor, or with None if it cannot be found."""


class _Waiting(NamedTuple):
    then: Then
    user: Peer
    """The peer whose message waits; empty for the node itself."""
    size: int
    searches_max: int


@dataclass(slots=True, eq=False)
class _Search:
    """A descriptor that this node wants."""

    peer: Peer
    """The peer that has mentioned it; empty if the node itself wants it."""
    waiting: list[_Waiting] = field(default_factory=list)
    tries: int = 0
    """How often the overlay was searched for it."""


@dataclass(eq=False)
class DescriptorSearch(Component):
    """Finds descriptors, for this node and for peers that ask for them.

    `known` returns a descriptor that this node has. Messages that wait for descriptors are charged
    to the peers that have sent them.
    """

    _known: Callable[[Cid], Topic | None]
    _waiting: Account
    _wanted: dict[Cid, _Search] = field(init=False, default_factory=dict)
    _searches_of: Counter[Peer] = field(init=False, default_factory=Counter)
    """By peer: how many descriptors that it has mentioned are being searched in the overlay."""
    _found: dict[Cid, Topic] = field(init=False, default_factory=dict)
    """Descriptors that were found, while the callbacks that wait for them run."""

    def find(
        self,
        cid: Cid,
        then: Then,
        peer: Peer | None = None,
        size: int = 0,
        searches_max: int = SEARCHES_MAX,
    ) -> None:
        """Find a descriptor: ask a peer that should have it, then search the overlay."""
        known = self._known(cid) or self._found.get(cid)
        if known is not None:
            then(known)
            return
        search, user = self._wanted.get(cid), peer or NO_USER
        is_full = search is None and len(self._wanted) >= WANTED_MAX
        if is_full or not self._may_wait(user, size):
            self._outbox.reject("too many searches")
            then(None)
            return
        if search is not None:
            self._wait(search, then, user, size, searches_max)
            if peer is None:
                self._make_own(search)
            return
        self._wanted[cid] = search = _Search(user)
        self._wait(search, then, user, size, searches_max)
        if peer is not None:
            self._outbox.queue(peer, WantBlocks((cid,)))
            self._outbox.set_timer(("find", cid), RETRY_US)
        else:
            self._search(cid, search)

    def _may_wait(self, user: Peer, size: int) -> bool:
        """Whether a message of a peer may wait for a descriptor; own calls always may."""
        if not user or self._waiting.fits(user, size + WAITING_BYTES):
            return True
        self._waiting.refuse()
        return False

    def _wait(
        self,
        search: _Search,
        then: Then,
        user: Peer,
        size: int,
        searches_max: int = SEARCHES_MAX,
    ) -> None:
        search.waiting.append(_Waiting(then, user, size + WAITING_BYTES, searches_max))
        self._waiting.change(user, size + WAITING_BYTES)

    def _make_own(self, search: _Search) -> None:
        """Note that this node itself wants a descriptor that a peer has mentioned."""
        if search.peer and search.tries:
            self._leave_search(search)
        search.peer = NO_USER

    def _search(self, cid: Cid, search: _Search) -> None:
        if not self._overlay.is_ready:
            self._outbox.set_timer(("find", cid), RETRY_US)
            return
        if search.peer and not search.tries:
            if self._searches_of[search.peer] >= SEARCHES_OF_PEER_MAX:
                self._outbox.reject("too many searches")
                self._settle(cid, None)
                return
            self._searches_of[search.peer] += 1
        search.tries += 1
        self._overlay.get(cid, self._on_got)

    def _leave_search(self, search: _Search) -> None:
        self._searches_of[search.peer] -= 1
        if not self._searches_of[search.peer]:
            del self._searches_of[search.peer]

    def _on_got(self, got: Got) -> None:
        if got.value is not None:
            self._on_block(got.value)
        search = self._wanted.get(got.name)
        if search is None:
            return
        late = [waiting for waiting in search.waiting if search.tries >= waiting.searches_max]
        if len(late) == len(search.waiting):
            self._settle(got.name, None)
            return
        search.waiting = [waiting for waiting in search.waiting if waiting not in late]
        self._outbox.set_timer(("find", got.name), RETRY_US)
        self._end_waiting(late, None)

    def on_timer(self, cid: Cid) -> None:
        """Search the overlay for a descriptor that no peer has sent."""
        search = self._wanted.get(cid)
        if search is not None:
            self._search(cid, search)

    def on_want(self, peer: Peer, message: WantBlocks) -> None:
        """Send a peer the descriptors that it asks for, now or when they are found."""
        for cid in message.cids[:ANSWERED_MAX]:
            known = self._known(cid)
            if known is not None:
                self._describe(peer, known)
            elif cid in self._wanted and self._may_wait(peer, 0):
                self._wait(self._wanted[cid], partial(self._describe, peer), peer, 0)

    def _describe(self, peer: Peer, topic: Topic | None) -> None:
        if topic is not None:
            self._outbox.queue(peer, Described((topic.block,)))

    def on_described(self, blocks: Iterable[bytes]) -> None:
        """Take descriptors that this node asked for."""
        for block in blocks:
            self._on_block(block)

    def _on_block(self, block: bytes) -> None:
        try:
            topic = read_topic(block)
            if topic.cid not in self._wanted:
                return
            self._permissions.check_topic(topic)
        except RefusalError as error:
            self._permissions.refuse(error)
            return
        self._settle(topic.cid, topic)

    def _settle(self, cid: Cid, topic: Topic | None) -> None:
        if topic is not None and len(self._found) < WANTED_MAX:
            self._found[cid] = topic
        search = self._wanted.pop(cid)
        if search.peer and search.tries:
            self._leave_search(search)
        self._outbox.cancel_timer(("find", cid))
        self._end_waiting(search.waiting, topic)
        self._found.pop(cid, None)

    def _end_waiting(self, ended: Sequence[_Waiting], topic: Topic | None) -> None:
        for waiting in ended:
            self._waiting.change(waiting.user, -waiting.size)
        for waiting in ended:
            waiting.then(topic)

    def check(self) -> None:
        """Assert that searches and waiting messages are counted and within their limits."""
        assert len(self._wanted) <= WANTED_MAX
        searches = self._wanted.values()
        assert self._searches_of == Counter(s.peer for s in searches if s.peer and s.tries)
        assert self._waiting.size == sum(w.size for s in searches for w in s.waiting)
