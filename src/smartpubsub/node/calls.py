"""What was asked for and is to be acknowledged, and how long that is waited for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import trio

from smartpubsub.node.errors import EventRefusedError, NotInTimeError

ACKNOWLEDGE_S_MAX = 60.0


class Wait(Enum):
    """What a publish waits for."""

    NOTHING = "nothing"
    RENDEZVOUS = "rendezvous"
    """Until the network has the event in its care."""
    ALL = "all"
    """Until everybody who wants it has confirmed it."""


@dataclass(frozen=True)
class Receipt:
    """What is known of a published event."""

    id: str
    waited_for: Wait


class Call:
    """Something that was asked for and is to be acknowledged."""

    def __init__(self) -> None:
        self.done = trio.Event()
        self.refusal: str | None = None

    async def wait(self, what: str, seconds: float) -> None:
        """Until it is acknowledged; an error if it is refused, or not done in time."""
        with trio.move_on_after(seconds):
            await self.done.wait()
        if self.refusal is not None:
            raise EventRefusedError(f"{what} was refused: {self.refusal}")
        if not self.done.is_set():
            raise NotInTimeError(f"{what} was not acknowledged within {seconds:g} seconds")
