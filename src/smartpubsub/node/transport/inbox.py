"""The events that the core has not handled yet: a queue for each peer, served in fair turns.

An event costs a fixed amount, its bytes, and the processor time of handling it. The peer that has
cost least is next (fair queueing by virtual time). So a peer with much or expensive work waits, and
delays no other peer. Events without a peer, such as calls of the application, have a queue of their
own. All peers outside of the routing table (strangers) together get the share of one peer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Generic, NamedTuple, TypeVar

import trio

from smartpubsub.seam import Peer, Received

T = TypeVar("T")

ENOUGH_COUNT = 64
ENOUGH_BYTES = 32 << 10
"""With so many messages or calls, or so many bytes, the reader stops waiting for more."""

TOKEN_S = 20e-6
"""The fixed cost of an event, in seconds."""
BYTES_PER_S = 100e6
OWN: Peer = b""
"""In place of a peer for events that no peer has caused."""
RECENT_S = 1.0
"""How long shares apply after an event has waited for too long."""
WAITED_S_MAX = 0.01
"""If an event that is alone in its queue waits for longer, other peers take too long."""


class Several(NamedTuple):
    """Messages of a peer that have come together, for handling them together."""

    peer: Peer
    events: list[Received]


class _Waiting(NamedTuple, Generic[T]):
    item: T
    size: int
    messages: int
    came_at: float


@dataclass(slots=True, eq=False)
class _Queue(Generic[T]):
    items: deque[_Waiting[T]] = field(default_factory=deque)
    size: int = 0
    count: int = 0
    """The number of messages in all items."""
    cost_s: float = 0.0
    """The virtual time up to which the peer has had its share."""
    has_room: trio.Event = field(default_factory=trio.Event)
    waiting: int = 0
    """Tasks that wait for room."""
    is_in_turn: bool = False
    is_strangers: bool = False
    """Whether the peer was not in the routing table when the queue got its turn."""


class Inbox(Generic[T]):
    """Bounded queues with one reader; a task that adds a message waits while its queue is full."""

    def __init__(
        self,
        count_max: int,
        bytes_max: int = 1 << 20,
        peer_count_max: int = 4_096,
        is_member: Callable[[Peer], bool] = lambda _peer: True,
    ) -> None:
        self._count_max = count_max
        self._bytes_max = bytes_max
        self._peer_count_max = peer_count_max
        self._is_member = is_member
        self._strangers = 0
        """The number of queues of strangers that are not empty."""
        self._queues: dict[Peer, _Queue[T]] = {}
        self._turns: list[tuple[float, int, Peer]] = []
        """A heap of the non-empty queues by virtual time; an entry with an old time is moved."""
        self._turn_number = 0
        self._served_s = 0.0
        """The virtual time of the last event taken."""
        self._count = 0
        self._messages = 0
        self._bytes = 0
        self.delayed_at = -1.0
        """When an event last had waited for too long behind events of other peers."""
        self._has_items = trio.Event()
        self._enough = trio.Event()

    def __len__(self) -> int:
        return self._count

    @property
    def source_count(self) -> int:
        """The number of peers with items; the node itself counts as one."""
        return len(self._turns)

    def put(self, item: T, size: int = 0, count: int = 1) -> None:
        """Add an item without waiting; another component bounds it. It may be several messages."""
        now = trio.current_time()
        peer: Peer = getattr(item, "peer", OWN)
        queue = self._queue(peer)
        queue.items.append(_Waiting(item, size, count, now))
        queue.size += size
        queue.count += count
        self._bytes += size
        self._messages += count
        self._count += 1
        if not queue.is_in_turn:
            queue.cost_s = max(queue.cost_s, self._served_s)
            self._have_turn(peer, queue)
        self._has_items.set()
        if self._has_enough:
            self._enough.set()

    async def put_when_there_is_room(self, peer: Peer, item: T, size: int, count: int = 1) -> None:
        """Add an item of a peer; wait while the peer's queue is full."""
        while (queue := self._queue(peer)).items and (
            queue.count >= self._count_max or queue.size + size > self._bytes_max
        ):
            queue.waiting += 1
            try:
                await queue.has_room.wait()
            finally:
                queue.waiting -= 1
        self.put(item, size, count)

    @property
    def delays_others(self) -> bool:
        """Whether an event has recently waited for too long behind events of other peers."""
        return trio.current_time() - self.delayed_at < RECENT_S

    def charge(self, peer: Peer, cost_s: float) -> None:
        """Count processor time that a peer has cost."""
        if peer in self._queues:
            self._add_cost(self._queues[peer], cost_s)

    async def wait(self, deadline: float, gather_s: float = 0.0) -> None:
        """Wait for an item, or until a time on trio's clock.

        With `gather_s`, wait so much longer for more items: handling them together costs less.
        """
        if self._count:
            # Lets other tasks run, however long the queue is.
            await trio.lowlevel.checkpoint()
        else:
            self._has_items = trio.Event()
            with trio.CancelScope(deadline=deadline):
                await self._has_items.wait()
        if gather_s and self._count and not self._has_enough:
            self._enough = trio.Event()
            with trio.move_on_after(gather_s):
                await self._enough.wait()

    @property
    def _has_enough(self) -> bool:
        return self._messages >= ENOUGH_COUNT or self._bytes >= ENOUGH_BYTES

    def take(self) -> T | None:
        """Remove the item whose turn it is, if there is one."""
        while self._turns:
            at_s, _, peer = heappop(self._turns)
            queue = self._queues[peer]
            self._end_turn(queue)
            if not queue.items:
                continue
            if queue.cost_s > at_s:
                self._have_turn(peer, queue)
                continue
            self._served_s = at_s
            return self._next(peer, queue)
        return None

    def keep(self, is_kept: Callable[[T], bool]) -> None:
        """Remove all other items."""
        for queue in self._queues.values():
            self._count -= len(queue.items)
            self._messages -= queue.count
            self._bytes -= queue.size
            queue.items = deque(waiting for waiting in queue.items if is_kept(waiting.item))
            queue.size = sum(waiting.size for waiting in queue.items)
            queue.count = sum(waiting.messages for waiting in queue.items)
            self._count += len(queue.items)
            self._messages += queue.count
            self._bytes += queue.size
            self._wake_sender(queue)

    def _next(self, peer: Peer, queue: _Queue[T]) -> T:
        waiting = queue.items.popleft()
        self._count -= 1
        self._messages -= waiting.messages
        self._bytes -= waiting.size
        queue.size -= waiting.size
        queue.count -= waiting.messages
        self._add_cost(queue, TOKEN_S + waiting.size / BYTES_PER_S)
        if queue.items:
            self._have_turn(peer, queue)
        elif trio.current_time() - waiting.came_at > WAITED_S_MAX:
            # It was alone in its queue, so it has waited for other peers.
            self.delayed_at = trio.current_time()
        self._wake_sender(queue)
        return waiting.item

    def _queue(self, peer: Peer) -> _Queue[T]:
        queue = self._queues.get(peer)
        if queue is None:
            if len(self._queues) >= self._peer_count_max:
                self._forget_idle()
            queue = self._queues[peer] = _Queue()
        return queue

    def _forget_idle(self) -> None:
        """Forget the peers without items, except those that have cost more than others."""
        for peer, queue in list(self._queues.items()):
            if not queue.is_in_turn and queue.cost_s <= self._served_s:
                del self._queues[peer]

    def _have_turn(self, peer: Peer, queue: _Queue[T]) -> None:
        self._turn_number += 1
        queue.is_in_turn = True
        queue.is_strangers = peer != OWN and not self._is_member(peer)
        self._strangers += queue.is_strangers
        heappush(self._turns, (queue.cost_s, self._turn_number, peer))

    def _end_turn(self, queue: _Queue[T]) -> None:
        queue.is_in_turn = False
        self._strangers -= queue.is_strangers

    def _add_cost(self, queue: _Queue[T], cost_s: float) -> None:
        if queue.is_strangers:
            cost_s *= self._strangers + (not queue.is_in_turn)
        queue.cost_s += cost_s

    def _wake_sender(self, queue: _Queue[T]) -> None:
        if queue.waiting:
            queue.has_room.set()
            queue.has_room = trio.Event()
