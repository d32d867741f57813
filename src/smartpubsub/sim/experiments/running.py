"""The common part of simulated runs and of runs on real nodes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

from smartpubsub.errors import SmartPubSubError
from smartpubsub.kademlia.core import Kademlia
from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.settings import MINUTE, SECOND, Settings
from smartpubsub.protocols.node import NodeCore
from smartpubsub.protocols.publication import Signing
from smartpubsub.protocols.pubsub import Inspection, PubSub
from smartpubsub.protocols.registry import spec_of
from smartpubsub.protocols.spec import ProtocolOptions, ProtocolSpec
from smartpubsub.seam import Peer
from smartpubsub.sim.adversaries.kinds import Adversary
from smartpubsub.sim.judging.checkers.violation import Violation
from smartpubsub.sim.judging.observer import Observer
from smartpubsub.sim.kernel.network import NetworkOptions
from smartpubsub.sim.kernel.places import capacity_of, region_of
from smartpubsub.sim.kernel.streams import stream
from smartpubsub.workloads.actions import Workload

SETTLE_US = 2 * SECOND
"""The time from the last join to the beginning of the workload."""
PHASE_GAP_US = 100_000
"""The time from the last acknowledgement of a phase to the next phase."""
PHASE_US_MAX = 2 * MINUTE
"""How long a phase lasts at most after its last action, if a call is never acknowledged."""
QUIET_US_MAX = 3 * MINUTE
"""How long a run waits for missing events after the last phase, and again while some come."""
LINGER_US = 3 * SECOND
"""How long a run goes on when all events have come, to detect duplicates."""


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """An experiment without its workload and its faults."""

    protocol: str = "floodsub"
    protocol_options: ProtocolOptions = field(default_factory=ProtocolOptions)
    """The settings of all nodes; region and capacity differ by node."""
    nodes: int = 60
    seed: int = 1
    network: NetworkOptions = field(default_factory=NetworkOptions)
    kademlia: Settings = field(default_factory=Settings)
    peers: tuple[Peer, ...] = ()
    """The peer ids of the nodes, if they are not made from the seed."""
    started_before: int = 0
    """The number of earlier starts of all nodes, which is their first incarnation."""
    newcomers_us: tuple[int, ...] = ()
    """When, after the workload has begun, further nodes join."""
    is_encoded: bool = False
    """Whether messages are written and read as on a real connection, which takes time."""
    checks_invariants: bool = False
    """Whether a simulated node's `check()` is called after the inputs that the node handles."""
    check_stride: int = 1
    """If invariants are checked: after every so many inputs of a node."""
    adversaries: tuple[Adversary, ...] = ()
    """The nodes that lie."""
    liar_count_max: int | None = None
    """If more nodes lie, losses are excused; None to excuse none."""


def check_size(options: RunOptions, workload: Workload) -> None:
    """Raise an error if a workload has more nodes than the run."""
    if len(workload.names) > options.nodes:
        raise SmartPubSubError(
            f"the workload has {len(workload.names)} nodes, and there are {options.nodes};"
            f" give --nodes {len(workload.names)} or more"
        )


def make_core(
    options: RunOptions,
    own: Contact,
    signing: Signing,
    start: int,
    make_node: Callable[[Kademlia, PubSub, Signing], NodeCore] = NodeCore,
) -> NodeCore:
    """The core of a node, for one of its incarnations."""
    peer = own.peer.hex()
    rng = stream(options.seed, "kademlia", peer, start)
    kademlia = Kademlia(own, options.kademlia, rng)
    rng = stream(options.seed, options.protocol, peer, start)
    chosen = replace(
        options.protocol_options,
        region=f"region-{1 + region_of(own.peer, options.network.regions)}",
        capacity=capacity_of(own.peer),
    )
    pubsub = spec_of(options.protocol).core(chosen, kademlia, signing, rng)
    return make_node(kademlia, pubsub, signing)


class Traffic(NamedTuple):
    """The messages and bytes that a node has sent and received."""

    sent: int
    received: int
    sent_bytes: int

    def since(self, before: Traffic) -> Traffic:
        """The difference to earlier counts."""
        return Traffic(*(now - then for now, then in zip(self, before, strict=True)))


class Watched(Protocol):
    """A world, as progress shows it."""

    @property
    def now(self) -> int:
        """The time since its start, in microseconds."""
        ...

    @property
    def node_count(self) -> int:
        """How many nodes there are."""
        ...

    @property
    def sent_count(self) -> int:
        """How many messages they have sent."""
        ...


class Progress:
    """Shows the progress of a run; this class shows nothing."""

    def say(self, stage: str) -> None:
        """Begin a new stage."""

    def tick(self, world: Watched) -> None:
        """Show the state of the run."""


class Run(Protocol):
    """A run that is over, from which results are made."""

    options: RunOptions
    workload: Workload
    observer: Observer
    inspections: list[tuple[int, int, Inspection]]
    """Inspections: the time, the node and the result."""
    began_us: int
    """When the overlay was complete and the workload began."""
    was_interrupted: bool

    @property
    def adversary_counts(self) -> Mapping[str, int]:
        """The number of nodes of each kind of adversary."""
        ...

    @property
    def liars(self) -> Collection[Peer]:
        """The adversaries."""
        ...

    @property
    def newcomers(self) -> Collection[Peer]:
        """The nodes that joined during the run."""
        ...

    @property
    def convicted_counts(self) -> Mapping[str, int]:
        """The number of convicted adversaries of each kind."""
        ...

    @property
    def convicted_honest(self) -> int:
        """The number of honest nodes that were convicted."""
        ...

    @property
    def state_check_count(self) -> int:
        """How many times the state of a node was checked."""
        ...

    @property
    def state_violations(self) -> Sequence[Violation]:
        """The violations that checks of states found."""
        ...

    @property
    def peers(self) -> Sequence[Peer]:
        """The peer ids of the nodes, in the order of their numbers."""
        ...

    def traffic(self) -> Sequence[Traffic]:
        """The messages that each node has sent and received since the workload began."""
        ...


def protocol_of(run: Run) -> ProtocolSpec:
    """The protocol of a run."""
    return spec_of(run.options.protocol)
