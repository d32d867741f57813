"""An event in flight at one node: which children have not confirmed it, and in which state it is.

The rendezvous has custody of an event: it also waits until its replicas have recorded the event,
and then acknowledges it to the publisher.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from smartpubsub.kademlia.keys import Contact
from smartpubsub.protocols.publication import Publication
from smartpubsub.protocols.scoutsubs.duplicates import EventKey
from smartpubsub.protocols.scoutsubs.messages import NO_PEER, Notify, Record
from smartpubsub.protocols.scoutsubs.timeouts import MS
from smartpubsub.seam import Peer

FLIGHT_BYTES = 2 << 10
"""About how much memory an event in flight takes beside its content."""


class FlightState(Enum):
    """The state of an event in flight at one node."""

    RECORDING = "recording"
    """At the rendezvous, until the publisher has an answer."""
    UNCONFIRMED = "unconfirmed"
    CONFIRMED = "confirmed"
    ABANDONED = "abandoned"

    __hash__ = object.__hash__  # The hash of Enum takes longer.


FLIGHT_TRANSITIONS: dict[tuple[FlightState, str], FlightState] = {
    (FlightState.RECORDING, "acknowledged"): FlightState.UNCONFIRMED,
    (FlightState.RECORDING, "all confirmed"): FlightState.RECORDING,
    (FlightState.RECORDING, "child added"): FlightState.RECORDING,
    (FlightState.RECORDING, "lapse"): FlightState.ABANDONED,
    (FlightState.UNCONFIRMED, "all confirmed"): FlightState.CONFIRMED,
    (FlightState.UNCONFIRMED, "child added"): FlightState.UNCONFIRMED,
    (FlightState.UNCONFIRMED, "lapse"): FlightState.ABANDONED,
    (FlightState.UNCONFIRMED, "published again"): FlightState.RECORDING,
    (FlightState.CONFIRMED, "child added"): FlightState.UNCONFIRMED,
    (FlightState.CONFIRMED, "lapse"): FlightState.ABANDONED,
    (FlightState.CONFIRMED, "published again"): FlightState.RECORDING,
}


@dataclass(slots=True)
class FlightTarget:
    """A child that has not confirmed an event."""

    backups: tuple[Contact, ...]
    tries: int = 0
    sent_us: int = 0
    """When the event was last retransmitted to it, after the first try."""


@dataclass(slots=True)
class Flight:
    """An event in flight to this node's children, or to those of a node that it stands in for."""

    event: Publication
    attribute: str
    hops: int
    upstream: Peer | None
    """The node to confirm to; None at the rendezvous, and in unreliable variants."""
    sent_us: int
    on_behalf: Peer = NO_PEER
    state: FlightState = FlightState.UNCONFIRMED
    targets: dict[Peer, FlightTarget] = field(default_factory=dict)
    retransmitted_us: int = 0
    notify: Notify | None = None
    """The first transmission, which is the same for all children."""
    key: EventKey = field(init=False)
    """The event and its attribute."""
    came_from: Peer = field(init=False)
    """The node that has sent the event first; `NO_PEER` at the rendezvous."""

    def __post_init__(self) -> None:
        self.key = (self.event.id, self.attribute)
        self.came_from = self.upstream or NO_PEER

    @property
    def memory_bytes(self) -> int:
        """About how much memory it takes."""
        return FLIGHT_BYTES + self.event.wire_bytes

    def move(self, trigger: str) -> None:
        """Change the state along the table of transitions."""
        self.state = FLIGHT_TRANSITIONS[self.state, trigger]

    def await_children(self, targets: dict[Peer, FlightTarget]) -> None:
        """Wait for these children; if there are none, the event is confirmed."""
        self.targets = targets
        if not targets:
            self.move("all confirmed")

    def add_child(self, peer: Peer, backups: tuple[Contact, ...]) -> None:
        """Wait for a child that came after the event."""
        self.targets[peer] = FlightTarget(backups)
        self.move("child added")

    def drop_child(self, peer: Peer) -> None:
        """Wait no longer for a child: it has confirmed the event, or was given up."""
        del self.targets[peer]
        if not self.targets:
            self.move("all confirmed")

    def abandon(self) -> None:
        """Give up the children that have not confirmed the event in time: they have lapsed."""
        self.targets.clear()
        self.move("lapse")

    def check(self) -> None:
        """Assert the invariants: the state says what the event waits for."""
        is_recording = self.state is FlightState.RECORDING
        assert (self.state is FlightState.CONFIRMED) == (not self.targets and not is_recording)
        assert self.state is not FlightState.ABANDONED
        assert self.targets or self.upstream is None


@dataclass(slots=True)
class RootFlight(Flight):
    """An event in the custody of the rendezvous, which retransmits it until all children have it.

    It is in flight until all children have confirmed it and all replicas have recorded it.
    """

    began_us: int = 0
    """When it was published, by this node's clock; a take-over does not change it."""
    wants_all: bool = False
    """Whether the publisher wants to know when all subscribers have it."""
    recording: dict[Peer, None] = field(default_factory=dict)
    """Replicas that have not said that they keep it."""
    recorded: dict[Peer, None] = field(default_factory=dict)
    """Replicas that keep it."""
    holders: dict[Peer, bytes] = field(default_factory=dict)
    """Their evidence for that."""
    tries: int = 0

    @property
    def is_acknowledged(self) -> bool:
        """Whether the publisher has an answer, from this node or from another rendezvous."""
        return self.state is not FlightState.RECORDING

    def acknowledge(self) -> None:
        """Note that the publisher has an answer."""
        self.move("acknowledged")
        if not self.targets:
            self.move("all confirmed")

    def record(self, now: int) -> Record:
        """The event as replicas keep it."""
        age_ms = (now - self.began_us) // MS
        return Record(self.event, self.attribute, self.hops, self.wants_all, age_ms)

    def check(self) -> None:
        """Assert the invariants: the event waits for a child or a replica, once for each."""
        Flight.check(self)  # `super()` does not work in a dataclass with slots.
        assert not any(peer in self.recorded for peer in self.recording)
        assert self.targets or self.recording
