"""Collects the effects that a protocol's components ask for while they handle one input.

All components of a protocol share one outbox. It knows the time of the input, names timers and
stored keys after the protocol, and gathers the messages to each peer into batches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from smartpubsub.seam import CancelTimer, Deliver, Effect, Peer, Send, SetTimer, Store
from smartpubsub.seam.tuples import made

Part = TypeVar("Part")

BATCH_TIMER = "flush"
LATE_TIMER = "late"
LATE_US_MAX = 50_000
"""How long a part that may be late waits for a batch."""


class Outbox(Generic[Part]):
    """The pending effects of one core, in the order in which the host performs them.

    `pack` turns the parts that are queued for a peer into messages. A peer that was sent a batch
    less than `batch_us` ago gets the next one when that time is over; with 0 every input that
    queues parts sends them at once.
    """

    def __init__(
        self,
        name: str,
        pack: Callable[[list[Part]], Iterable[object]],
        batch_us: int = 0,
    ) -> None:
        self.name = name
        self.now = 0
        """The time of the input that is being handled, on the node's own clock."""
        self.rejected: Counter[str] = Counter()
        """The messages and calls that were rejected, by reason."""
        self._pack = pack
        self._batch_us = batch_us
        self._prefix = name.encode() + b"/"
        self._effects: list[Effect] = []
        self._queues: dict[Peer, list[Part]] = {}
        self._late: dict[Peer, list[Part]] = {}
        """By peer: parts that wait for another part to the same peer."""
        self._sent_us: dict[Peer, int] = {}
        """When each peer was last sent a batch; kept only where batches wait."""
        self._flush_is_set = False
        self._is_gathering = False
        self._packed: tuple[list[Part], list[object]] = [], []
        """The last batch, and the messages that it is sent as."""

    # --- messages ---

    def queue(self, peer: Peer, part: Part) -> None:
        """Add a part to the next batch for a peer."""
        queue = self._queues.get(peer)
        if queue is None:
            self._queues[peer] = [*self._late.pop(peer), part] if peer in self._late else [part]
        else:
            queue.append(part)

    def queue_late(self, peer: Peer, part: Part) -> None:
        """Add a part to the next batch for a peer, without causing a batch for it now.

        It waits `LATE_US_MAX` at most; the protocol calls `send_late` at the timer `LATE_TIMER`.
        """
        if peer in self._queues:
            self._queues[peer].append(part)
            return
        if not self._late:
            self.set_timer((LATE_TIMER,), LATE_US_MAX)
        self._late.setdefault(peer, []).append(part)

    def send_late(self) -> None:
        """Send the parts that have waited."""
        self._queues |= self._late  # A peer has none of them while it has a queue.
        self._late = {}

    def send(self, peer: Peer, message: object) -> None:
        """Send a message by itself, ahead of the queued parts."""
        self._effects.append(Send(peer, message))

    def flush(self) -> None:
        """Send every batch; the protocol calls this at the timer `BATCH_TIMER`."""
        self._flush_is_set = False
        self._send_batches(list(self._queues))

    def _send_batches(self, peers: list[Peer]) -> None:
        for peer in peers:
            if self._batch_us:
                self._sent_us[peer] = self.now
            self._send_batch(peer, self._queues.pop(peer))
        self._packed = [], []

    def _send_batch(self, peer: Peer, queued: list[Part]) -> None:
        # Many peers often get the same batch. One object lets a host encode it once.
        if queued != self._packed[0]:
            self._packed = queued, list(self._pack(queued))
        for message in self._packed[1]:
            self._effects.append(made(Send, (peer, message)))

    # --- other effects ---

    def deliver(self, item: object) -> None:
        """Hand something to the application."""
        self._effects.append(made(Deliver, (item,)))

    def set_timer(self, name: tuple[object, ...], after_us: int, peer: Peer = b"") -> None:
        """Set a timer, or move the one of that name.

        A timer for a peer's work fires in that peer's turn.
        """
        self._effects.append(SetTimer((self.name, *name), self.now + after_us, peer=peer))

    def cancel_timer(self, name: tuple[object, ...]) -> None:
        """Forget a timer, if it is set."""
        self._effects.append(CancelTimer((self.name, *name)))

    def store(self, key: bytes, value: bytes | None, *, may_be_late: bool = False) -> None:
        """Keep a value through crashes under a key of this protocol; None removes it."""
        self._effects.append(made(Store, (self._prefix + key, value, may_be_late)))

    def emit(self, effect: Effect) -> None:
        """Add any other effect, such as one of the overlay."""
        self._effects.append(effect)

    def reject(self, reason: str) -> None:
        """Count a message or a call that is rejected."""
        self.rejected[reason] += 1

    # --- for the protocol ---

    def take(self) -> list[Effect]:
        """Return all effects, with the batches that are due at the end."""
        if self._queues and not self._is_gathering:
            self._send_due()
        effects, self._effects = self._effects, []
        return effects

    def gather(self) -> None:
        """Keep batches back until `release`, because more inputs follow at once."""
        self._is_gathering = True

    def release(self) -> list[Effect]:
        """Return every batch."""
        self._is_gathering = False
        if self._queues:
            self._send_batches(list(self._queues))
        return self.take()

    def _send_due(self) -> None:
        due_us = self.now - self._batch_us
        due = [peer for peer in self._queues if self._sent_us.get(peer, due_us) <= due_us]
        if due:
            self._send_batches(due)
        if self._queues and not self._flush_is_set:
            self._flush_is_set = True
            timer = (self.name, BATCH_TIMER)
            # A node with nothing else to do sends at once.
            self._effects.append(SetTimer(timer, self.now + self._batch_us, may_be_early=True))

    def forget_idle_peers(self) -> None:
        """Drop the send times that no longer delay a batch."""
        horizon_us = self.now - self._batch_us
        self._sent_us = {peer: at for peer, at in self._sent_us.items() if at > horizon_us}
