"""Check the state of simulated nodes while a run lasts.

Each protocol asserts the invariants of its own state in `check()`. The run goes on after a broken
invariant, so that the other checkers see its consequences, but the node that broke it is not
checked again.
"""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from pathlib import Path

from smartpubsub.kademlia.messages import Message
from smartpubsub.protocols.node import NodeCore
from smartpubsub.seam import (
    Answer,
    Answered,
    Ask,
    Asked,
    CancelTimer,
    Effect,
    Event,
    Received,
    Send,
    SetTimer,
    TimerFired,
)
from smartpubsub.sim.judging.checkers.violation import Violation
from smartpubsub.sim.kernel.world import Host, World

INVARIANT = 11
"""The number of the invariant, as `smartpubsub.sim.judging.checkers` lists them."""


class InvariantChecks:
    """Calls of `check()` after inputs, and the violations that they found."""

    def __init__(self, world: World, stride: int) -> None:
        self.world = world
        self.violations: list[Violation] = []
        self.count = 0
        """How many times a node's state was checked."""
        self._stride = stride
        self._handled: dict[int, int] = {}
        """How many inputs each node has handled."""
        self._broken: dict[int, None] = {}
        """Nodes that have broken an invariant."""

    def on_handled(self, host: Host, event: Event | None, effects: Sequence[Effect]) -> None:
        """Check a node that has handled an input, if it is its turn.

        Kademlia's own traffic, half of all inputs, does not reach the protocol.
        """
        if is_kademlias(event) and all(map(_is_kademlias_effect, effects)):
            return
        if self._stride > 1:
            handled = self._handled[host.number] = self._handled.get(host.number, 0) + 1
            if handled % self._stride:
                return
        core = host.core
        if host.number in self._broken or not isinstance(core, NodeCore):
            return
        self.count += 1
        try:
            core.pubsub.check()
        except Exception as error:  # A state that makes check() fail is broken as well.
            self._broken[host.number] = None
            what = f"node {host.number} broke an invariant of its state: {description_of(error)}"
            self.violations.append(Violation(INVARIANT, self.world.now, host.number, what))


def is_kademlias(event: Event | None) -> bool:
    """Whether an event is a message or a timer of Kademlia."""
    match event:
        case Received(_, Message()) | Asked(_, Message()) | Answered(_, Message()):
            return True
        case TimerFired(("kad", *_)):
            return True
    return False


def _is_kademlias_effect(effect: Effect) -> bool:
    match effect:
        case Send(_, Message()) | Ask(_, Message()) | Answer(_, Message()):
            return True
        case SetTimer(("kad", *_)) | CancelTimer(("kad", *_)):
            return True
    return False


def description_of(error: Exception) -> str:
    """The error and the line that raised it."""
    if isinstance(error, AssertionError):
        line = traceback.extract_tb(error.__traceback__)[-1].line
        return f"{str(error) or line} ({place_of(error)})"
    return f"{type(error).__name__}: {error} ({place_of(error)})"


def place_of(error: Exception) -> str:
    """The file and the line that raised an error."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{Path(frame.filename).name}, line {frame.lineno}"
