"""The order of events and timers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from smartpubsub.node.transport.inbox import Inbox
from smartpubsub.node.transport.timers import Timers
from smartpubsub.seam import Peer


class Turns:
    """Puts the events that wait when a timer is first seen to be due before that timer.

    A timer charged to a peer waits for that peer's turn, and longer if the peer has used its share.
    """

    def __init__(
        self,
        inbox: Inbox[Any],
        timers: Timers,
        delay_us: Callable[[Peer], int] = lambda _peer: 0,
    ) -> None:
        self._inbox = inbox
        self._timers = timers
        self._delay_us = delay_us
        self._ahead = 0
        """The number of waiting events that go before the due timers."""
        self._seen_until: int | None = None
        """The time up to which timers were due when these events were counted; None if no timer is
        due."""

    def next(self, now: int) -> Any:
        """The next event or timer, if there is one."""
        while (due_at := self._timers.next_at) is not None and due_at <= now:
            if self._seen_until is None or due_at > self._seen_until:
                self._ahead, self._seen_until = len(self._inbox), now
            if self._ahead and (item := self._inbox.take()) is not None:
                self._ahead -= 1
                return item
            fired = self._timers.take_due(now)
            if fired is None or not fired.peer:
                return fired
            delay_us = self._delay_us(fired.peer)
            if delay_us:
                self._timers.set(fired.timer, now + delay_us, peer=fired.peer)
            else:
                self._inbox.put(fired)  # The timer waits for its peer's turn.
        self._seen_until = None
        return self._inbox.take()
