"""What was asked for and is to be acknowledged, and how long that is waited for."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from enum import Enum

import trio

from smartpubsub.node.errors import EventRefusedError, NodeError, NotInTimeError

ACKNOWLEDGE_S_MAX = 60.0


class Wait(Enum):
    """What a publish waits for."""

    NOTHING = "nothing"
    RENDEZVOUS = "rendezvous"
    """Until the network has the event in its care."""
    ALL = "all"
    """Until everybody who wants it has confirmed it."""


class Call:
    """Something that was asked for and is to be acknowledged."""

    def __init__(self) -> None:
        self.done = trio.Event()
        self.refusal: str | None = None
        self.refusal_kind: type[NodeError] = EventRefusedError
        self.is_over = False
        """Whether nobody waits for it any more; what has not begun by then is not to begin."""

    @contextmanager
    def limited(
        self, what: str, seconds: float, late: Callable[[], str] = lambda: ""
    ) -> Iterator[None]:
        """Asks and waits within a time; an error if it is refused, or not done by then.

        What the error then says can be given, if more is known than that.
        """
        try:
            with trio.move_on_after(seconds) as limit:
                yield
        finally:
            self.is_over = True
        if self.refusal is not None:
            raise self.refusal_kind(f"{what} was refused: {self.refusal}")
        if limit.cancelled_caught:
            problem = f"{what} was not acknowledged within {seconds:g} seconds"
            raise NotInTimeError(late() or problem)


class Calls:
    """All that is waited for, by what the core will say of it."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[str, Hashable], Call] = {}

    def expect(self, what: str, about: Hashable, call: Call) -> None:
        """Have a call end when this is acknowledged or refused."""
        self._waiting[what, about] = call

    def acknowledge(self, what: str, about: Hashable) -> None:
        """It has come to pass; often nobody waits for it."""
        call = self._waiting.pop((what, about), None)
        if call is not None:
            call.done.set()

    def refuse(
        self,
        what: str,
        about: Hashable,
        reason: str,
        kind: type[NodeError] = EventRefusedError,
    ) -> None:
        """It will not come to pass."""
        call = self._waiting.get((what, about))
        if call is not None:
            call.refusal, call.refusal_kind = reason, kind
        self.acknowledge(what, about)

    def forget(self, what: str, about: Hashable) -> None:
        """Nobody waits for it any more."""
        self._waiting.pop((what, about), None)
