"""The seam between protocols and the world: events in, effects out.

A core does no I/O. It is told what happened and what time it is, and returns what it wants done:

    effects = core.handle(event, now)

It has no clock and no randomness of its own (a seeded `random.Random` is handed to it), and it
iterates no sets, so that the same events give the same effects in any process. Whoever runs it
carries the effects out: the simulator with a heap of events, a live node with libp2p. Times are
integers, microseconds on the node's own clock, which need not be anybody else's.

Cores compose by owning each other: an owner hands on the events that concern the owned core, passes
its effects on, and takes what it delivers for itself, or tells it to another core that it owns. A
core's timers are tuples that begin with its name, its storage keys likewise, and its messages are
types of its own: so an owner knows whom an event concerns.

`docs/seam.md` has a complete core, and `smartpubsub.protocols.node` composes some.
"""

from typing import Protocol

from smartpubsub.seam.effects import (
    Answer,
    Ask,
    CancelTimer,
    Connect,
    Deliver,
    Effect,
    Load,
    Peer,
    Send,
    SetTimer,
    Store,
    Timer,
)
from smartpubsub.seam.events import (
    Answered,
    Asked,
    Connected,
    Departed,
    Disconnected,
    Event,
    Loaded,
    Received,
    Started,
    TimerFired,
    Told,
    Unknown,
)
from smartpubsub.seam.states import drawing


class Core(Protocol):
    """Whatever can be run on the seam."""

    def handle(self, event: Event, now: int) -> list[Effect]:
        """What to do about an event."""
        ...


__all__ = [
    "Answer",
    "Answered",
    "Ask",
    "Asked",
    "CancelTimer",
    "Connect",
    "Connected",
    "Core",
    "Deliver",
    "Departed",
    "Disconnected",
    "Effect",
    "Event",
    "Load",
    "Loaded",
    "Peer",
    "Received",
    "Send",
    "SetTimer",
    "Started",
    "Store",
    "Timer",
    "TimerFired",
    "Told",
    "Unknown",
    "drawing",
]
