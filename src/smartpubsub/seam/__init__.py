"""The seam between protocols and the world: events in, effects out.

A core does no I/O. It takes an input and the time, and returns effects:

    effects = core.handle(event, now)

It has no clock and no randomness of its own (its owner gives it a seeded `random.Random`), and it
does not iterate over sets, so that the same events give the same effects in any process. The host
performs the effects: the simulator with a heap of events, a live node with libp2p. Times are
integers: microseconds on the node's own clock, which differs from other nodes' clocks.

Cores compose by ownership: an owner forwards the events that concern the core below it, passes that
core's effects on, and takes its deliveries for itself or hands them to another core that it owns. A
core's timers are tuples that begin with its name, its storage keys begin with that name too, and
its messages have types of their own; so an owner knows which core an event concerns.

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
    Indication,
    Loaded,
    Received,
    Started,
    TimerFired,
    Unknown,
)
from smartpubsub.seam.states import drawing


class Core(Protocol):
    """A core, which the simulator and a live node can run."""

    def handle(self, event: Event, now: int) -> list[Effect]:
        """Return the effects of an event."""
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
    "Indication",
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
    "Unknown",
    "drawing",
]
