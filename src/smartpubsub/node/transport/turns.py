"""Whose turn it is: what has come, or a timer whose time has come."""

from __future__ import annotations

from typing import Generic, TypeVar

from smartpubsub.node.transport.inbox import Inbox
from smartpubsub.node.transport.timers import Timers
from smartpubsub.seam import TimerFired

T = TypeVar("T")


class Turns(Generic[T]):
    """Lets a timer wait for what had come before its time: it may be just what the timer is for."""

    def __init__(self, inbox: Inbox[T], timers: Timers) -> None:
        self._inbox = inbox
        self._timers = timers
        self._ahead: int | None = None
        """How much has come before the timers that are due, if any is."""

    def next(self, now: int) -> T | TimerFired | None:
        """What is to be handled next, if there is anything."""
        if not self._timers.is_due(now):
            self._ahead = None
            return self._inbox.take()
        if self._ahead is None:
            self._ahead = len(self._inbox)
        if self._ahead and (item := self._inbox.take()) is not None:
            self._ahead -= 1
            return item
        return TimerFired(self._timers.take_due(now))
