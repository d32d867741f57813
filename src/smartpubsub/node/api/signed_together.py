"""One signature for all events that wait to be published.

Applications call one by one, and the host handles the calls in order. The first call that it
handles numbers and signs the events of all waiting calls; each of these then finds its event made.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import islice

from smartpubsub.node.api.event_records import Content
from smartpubsub.protocols.evidence import STATEMENTS_MAX
from smartpubsub.protocols.node import NodeCore
from smartpubsub.protocols.publication import EventId, Publication


class WaitingContent:
    """The content of an event that waits for its turn."""

    __slots__ = ("content",)

    def __init__(self, content: Content) -> None:
        self.content = content


class SignedTogether:
    """The events that wait for their turn, some of them signed already.

    If the core makes another event in between, that event has a later number and yet goes first.
    The waiting events are then made again, fewer at a time.
    """

    def __init__(self, core: Callable[[], NodeCore]) -> None:
        self._core = core
        self._waiting: dict[WaitingContent, None] = {}
        self._made: deque[tuple[WaitingContent, Publication]] = deque()
        self._last: EventId | None = None
        """The last of the events that were made together."""
        self._count_max = STATEMENTS_MAX

    def add(self, content: Content) -> WaitingContent:
        """Add an event that waits for its turn."""
        waiting = WaitingContent(content)
        self._waiting[waiting] = None
        return waiting

    def forget(self, waiting: WaitingContent | None) -> None:
        """Forget an event whose caller has stopped waiting."""
        if waiting is not None:
            self._waiting.pop(waiting, None)

    def event_of(self, waiting: WaitingContent, now: int) -> Publication:
        """The event whose turn it is."""
        core, made = self._core(), self._made
        self._waiting.pop(waiting, None)
        while made and made[0][0] is not waiting and made[0][0] not in self._waiting:
            made.popleft()  # Its caller has given up.
        is_next = bool(made) and made[0][0] is waiting
        if not is_next or core.last_event != self._last:
            halved = max(1, self._count_max // 2)
            self._count_max = halved if made else min(2 * self._count_max, STATEMENTS_MAX)
            self._make(waiting, now)
        return made.popleft()[1]

    def _make(self, first: WaitingContent, now: int) -> None:
        together = [first, *islice(self._waiting, self._count_max - 1)]
        contents = [(each.content.predicate, each.content.payload) for each in together]
        core = self._core()
        self._made.clear()
        self._made.extend(zip(together, core.new_events(contents, now), strict=True))
        self._last = core.last_event
