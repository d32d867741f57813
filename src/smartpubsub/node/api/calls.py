"""Requests that wait for the core's acknowledgement."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator
from contextlib import contextmanager
from heapq import heapify, heappop, heappush
from math import inf, isnan

import trio

from smartpubsub.node.errors import (
    EventRefusedError,
    NodeClosedError,
    NodeError,
    NotInTimeError,
)
from smartpubsub.node.transport.processor_clock import starved_s

STARVED_S_MAX = 600.0
"""How much longer a patient call waits at most, for time in which it had no processor."""
DEADLINES_KEPT = 1_000
"""After so many calls, the deadlines of ended calls are removed."""
STARVED_EVERY_S = 1.0
"""How often a patient call measures how long it had no processor."""


class Call:
    """A request that waits for an acknowledgement."""

    def __init__(self) -> None:
        self.done = trio.Event()
        self.refusal: str | None = None
        self.refusal_kind: type[NodeError] = EventRefusedError
        self._limit: trio.CancelScope
        self.is_over = False
        """Whether the caller has stopped waiting; a request that has not begun must not begin."""
        self.is_late = False
        """Whether the caller stopped because the time was over (`Calls.end_after`)."""

    @contextmanager
    def limited(
        self, what: str, seconds: float, late: Callable[[], str] = lambda: ""
    ) -> Iterator[None]:
        """Limit the time of a request; raise an error if it is refused or late.

        `late` can return a better text for the error.
        """
        try:
            with trio.CancelScope(deadline=trio.current_time() + seconds) as limit:
                self._limit = limit
                yield
        finally:
            self.is_over = True
        self.is_late = limit.cancelled_caught
        self.check(what, seconds, late)

    def check(self, what: str, seconds: float, late: Callable[[], str] = lambda: "") -> None:
        """Raise an error if a request was refused or is late."""
        if self.refusal is not None:
            raise self.refusal_kind(f"{what} was refused: {self.refusal}")
        if self.is_late:
            problem = f"{what} was not acknowledged within {seconds:g} seconds"
            raise NotInTimeError(late() or problem)

    async def wait_patiently(self) -> None:
        """Wait for the acknowledgement; time without a processor does not count, up to a limit.

        So many nodes of one machine can join at the same time: each takes longer, and none fails.
        """
        latest = self._limit.deadline + STARVED_S_MAX
        while not self.done.is_set():
            starved = starved_s()
            with trio.move_on_after(STARVED_EVERY_S):
                await self.done.wait()
            deadline = self._limit.deadline + starved_s() - starved
            self._limit.deadline = min(latest, deadline)


class Calls:
    """The requests that wait, by the notice of the core that will end them."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[str, Hashable], list[Call]] = {}
        self._deadlines: list[tuple[float, int, Call]] = []
        """A heap; it also has calls that have ended."""
        self._limited_count = 0
        self._has_earlier = trio.Event()

    @property
    def deadline_count(self) -> int:
        """The number of deadlines, including some of calls that have ended."""
        return len(self._deadlines)

    def end_after(self, call: Call, seconds: float) -> None:
        """End a call after a time, unless it has ended; this costs less than a cancel scope."""
        if isnan(seconds):
            raise ValueError("a time limit that is not a number")
        at = trio.current_time() + seconds
        self._limited_count += 1
        if not self._deadlines or at < self._deadlines[0][0]:
            self._has_earlier.set()
        heappush(self._deadlines, (at, self._limited_count, call))
        if self._limited_count % DEADLINES_KEPT == 0:
            self._deadlines = [each for each in self._deadlines if not each[2].is_over]
            heapify(self._deadlines)

    async def end_late(self) -> None:
        """End the calls whose time is over, until cancelled."""
        while True:
            self._has_earlier = trio.Event()
            with trio.move_on_at(self._deadlines[0][0] if self._deadlines else inf):
                await self._has_earlier.wait()
            while self._deadlines and self._deadlines[0][0] <= trio.current_time():
                call = heappop(self._deadlines)[2]
                if not call.is_over and not call.done.is_set():
                    call.is_over = call.is_late = True
                    call.done.set()

    def expect(self, what: str, about: Hashable, call: Call) -> None:
        """Have a call end when the core acknowledges or refuses its request."""
        self._waiting.setdefault((what, about), []).append(call)

    def acknowledge(self, what: str, about: Hashable) -> None:
        """End the calls that wait for this acknowledgement, if any do."""
        for call in self._waiting.pop((what, about), ()):
            call.done.set()

    def refuse(
        self,
        what: str,
        about: Hashable,
        reason: str,
        kind: type[NodeError] = EventRefusedError,
    ) -> None:
        """End the calls that wait for this acknowledgement with an error."""
        for call in self._waiting.get((what, about), ()):
            call.refusal, call.refusal_kind = reason, kind
        self.acknowledge(what, about)

    def interrupt(self, whats: Collection[str]) -> None:
        """End all calls of some kinds with an error: the core that would answer is gone."""
        for what, about in [key for key in self._waiting if key[0] in whats]:
            self.refuse(what, about, "the node had to restart its protocols; try again", NodeError)

    def close(self) -> None:
        """End all calls with an error: the node has stopped, and nothing else would end them."""
        for what, about in [*self._waiting]:
            self.refuse(what, about, "the node has stopped", NodeClosedError)

    def forget(self, what: str, about: Hashable, call: Call | None = None) -> None:
        """Forget a call that has stopped waiting; without a call, all that wait for this."""
        calls = self._waiting.pop((what, about), [])
        left = [] if call is None else [each for each in calls if each is not call]
        if left:
            self._waiting[what, about] = left
