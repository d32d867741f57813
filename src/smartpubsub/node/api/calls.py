"""Requests that wait for the core's acknowledgement."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator
from contextlib import contextmanager

import trio

from smartpubsub.node.errors import EventRefusedError, NodeError, NotInTimeError
from smartpubsub.node.transport.processor_clock import starved_s

STARVED_S_MAX = 600.0
"""How much longer a patient call waits at most."""
STARVED_EVERY_S = 1.0
"""How often it finds out how long it had no processor."""


class Call:
    """A request that is to be acknowledged."""

    def __init__(self) -> None:
        self.done = trio.Event()
        self.refusal: str | None = None
        self.refusal_kind: type[NodeError] = EventRefusedError
        self._limit = trio.CancelScope()
        self.is_over = False
        """Whether the caller has stopped waiting; a request that has not begun must not begin."""

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
        if self.refusal is not None:
            raise self.refusal_kind(f"{what} was refused: {self.refusal}")
        if limit.cancelled_caught:
            problem = f"{what} was not acknowledged within {seconds:g} seconds"
            raise NotInTimeError(late() or problem)

    async def wait_patiently(self) -> None:
        """Wait for the acknowledgement; time without a processor does not count, up to a limit.

        Where many nodes of a machine join at once, all of them succeed and take their time.
        """
        latest = self._limit.deadline + STARVED_S_MAX
        while not self.done.is_set():
            starved = starved_s()
            with trio.move_on_after(STARVED_EVERY_S):
                await self.done.wait()
            deadline = self._limit.deadline + starved_s() - starved
            self._limit.deadline = min(latest, deadline)


class Calls:
    """All requests that wait, by what the core will tell of them."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[str, Hashable], list[Call]] = {}

    def expect(self, what: str, about: Hashable, call: Call) -> None:
        """End a call when this is acknowledged or refused."""
        self._waiting.setdefault((what, about), []).append(call)

    def acknowledge(self, what: str, about: Hashable) -> None:
        """End the calls that wait for this, if any do."""
        for call in self._waiting.pop((what, about), ()):
            call.done.set()

    def refuse(
        self,
        what: str,
        about: Hashable,
        reason: str,
        kind: type[NodeError] = EventRefusedError,
    ) -> None:
        """End the calls that wait for this with an error."""
        for call in self._waiting.get((what, about), ()):
            call.refusal, call.refusal_kind = reason, kind
        self.acknowledge(what, about)

    def interrupt(self, whats: Collection[str]) -> None:
        """End all calls of some kinds with an error: the core that would answer is gone."""
        for what, about in [key for key in self._waiting if key[0] in whats]:
            self.refuse(what, about, "the node had to restart its protocols; try again", NodeError)

    def forget(self, what: str, about: Hashable, call: Call | None = None) -> None:
        """Forget a call that has stopped waiting, or all for this."""
        calls = self._waiting.pop((what, about), [])
        left = [] if call is None else [each for each in calls if each is not call]
        if left:
            self._waiting[what, about] = left
