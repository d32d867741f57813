"""The order of events and timers."""

from __future__ import annotations

from typing import Generic, TypeVar

from smartpubsub.node.transport.inbox import Inbox
from smartpubsub.node.transport.timers import Timers
from smartpubsub.seam import TimerFired

T = TypeVar("T")


class Turns(Generic[T]):
    """Handles the events that came before a timer was due first: the timer may wait for them."""

    def __init__(self, inbox: Inbox[T], timers: Timers) -> None:
        self._inbox = inbox
        self._timers = timers
        self._ahead: int | None = None
        """The number of events that came before the timers that are due; None if none is."""

    def next(self, now: int) -> T | TimerFired | None:
        """The next event or timer, if there is one."""
        if not self._timers.is_due(now):
            self._ahead = None
            return self._inbox.take()
        if self._ahead is None:
            self._ahead = len(self._inbox)
        if self._ahead and (item := self._inbox.take()) is not None:
            self._ahead -= 1
            return item
        return TimerFired(self._timers.take_due(now))
