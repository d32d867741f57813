"""The messages between the coordinator of a testbed and its workers."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeAlias

from smartpubsub.kademlia.keys import Contact
from smartpubsub.node.identity import Identity
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.publication import EventId
from smartpubsub.protocols.pubsub import Inspection
from smartpubsub.seam import Peer
from smartpubsub.sim.adversaries.kinds import Adversary
from smartpubsub.sim.experiments.calls import Call
from smartpubsub.sim.experiments.running import RunOptions
from smartpubsub.sim.kernel.population import worked_number
from smartpubsub.testbed.identities import identity_of, peer_of
from smartpubsub.workloads.actions import Action

# --- to a worker ---


class StartNode(NamedTuple):
    """Start a node, for the first time or again."""

    node: int
    start: int
    """The number of earlier starts."""
    port: int
    """The port to listen on; 0 for any."""
    bootstrap: tuple[str, ...] = ()
    """The addresses through which a whole node joins."""
    clock_us: int = 0
    """By how much the clock of a whole node's process is ahead."""


class Join(NamedTuple):
    """Have a node join through others."""

    node: int
    bootstrap: tuple[Contact, ...]


class Act(NamedTuple):
    """Have a node's application execute an action."""

    number: int
    action: Action


class Know(NamedTuple):
    """The addresses of nodes, which identify the other end of a connection."""

    nodes_by_port: dict[int, int]


class Cut(NamedTuple):
    """Cut these nodes off from all others from now on; no nodes to heal the network."""

    group: frozenset[int]
    one_way: bool = False
    """Whether messages from the others still pass."""


class Settle(NamedTuple):
    """Have the garbage collector ignore all present objects, which live for long."""


class Inspect(NamedTuple):
    """Inspect all nodes."""


class End(NamedTuple):
    """Send the last report, and end."""


class Read(NamedTuple):
    """Have the application of a whole node subscribe, and read events."""

    node: int
    predicate: Predicate
    keep: bool


class StopReading(NamedTuple):
    """Have the application of a whole node end a subscription."""

    node: int
    predicate: Predicate


class PauseReading(NamedTuple):
    """Have the application of a whole node read no kept event for some time."""

    node: int
    seconds: float


class ShiftClock(NamedTuple):
    """Set by how much the clock of a whole node's process is ahead."""

    node: int
    clock_us: int


class Leave(NamedTuple):
    """Have a whole node close, and end its process."""

    node: int


ToApplication: TypeAlias = Read | StopReading | PauseReading | ShiftClock | Leave
Command: TypeAlias = StartNode | Join | Act | Know | Cut | Settle | Inspect | End | ToApplication


# --- from a worker, in notes ---


class Up(NamedTuple):
    """A node listens."""

    start: int
    contact: Contact


class Passed(NamedTuple):
    """A message or a timer, as in a row of a trace."""

    what: str
    peer: int
    kind: str
    size: int


class Came(NamedTuple):
    """Downward copies of events have reached a node."""

    sender: int
    ids: tuple[EventId, ...]


class Delivered(NamedTuple):
    """A core has delivered something to the application."""

    start: int
    item: object


class Done(NamedTuple):
    """A node's application has finished a command."""

    number: int


class Seen(NamedTuple):
    """The result of inspecting a node."""

    inspection: Inspection
    convicted: tuple[Peer, ...] = ()
    """The nodes that it has convicted."""


class Failed(NamedTuple):
    """A node has stopped unexpectedly."""

    reason: str


class Struck(NamedTuple):
    """The testbed has applied a fault to a node."""

    kind: str


class Ready(NamedTuple):
    """A whole node runs, and has joined."""


class Acknowledged(NamedTuple):
    """A publish call of a whole node's application has returned."""

    ms: float


class Unacknowledged(NamedTuple):
    """A publish call of a whole node's application has raised an error."""

    error: str


class Contained(NamedTuple):
    """The failures of a whole node's core since the last such note."""

    failures: dict[str, int]
    """The number of failures by reason."""
    restarts: int
    """How often the core was restarted from storage."""


News: TypeAlias = Ready | Acknowledged | Unacknowledged | Failed | Contained
"""Notes about whole nodes that concern the coordinator at once, and not the observer."""
Value: TypeAlias = Up | Passed | Came | Delivered | Done | Seen | Struck | Call | News


class Note(NamedTuple):
    """Something that happened to a node."""

    at_us: int
    node: int
    value: Value


class Usage(NamedTuple):
    """The resource use of a process, as measured by itself."""

    cpu_s: float
    rss_mb: float


class Report(NamedTuple):
    """The notes of a process since its last report, up to a time."""

    until_us: int
    notes: list[Note]
    usage: Usage


# --- the set-up of workers ---


@dataclass(frozen=True, kw_only=True)
class Setup:
    """The common settings of all processes of a testbed."""

    options: RunOptions
    folder: Path
    """The folder of the nodes' data folders."""
    base_ns: int
    """The start of the run, on the clock that all processes of a machine share."""
    hostile: Mapping[int, Adversary] = field(default_factory=dict)
    """The nodes that lie."""
    minted: tuple[int, ...] = ()
    """The seeds of the sybils' identities; sybils have the numbers after the other nodes."""
    is_shared: bool = True
    """Whether the process runs many nodes."""
    is_whole: bool = False
    """Whether it runs one whole node, with its API and an application, as `node run` would."""

    def now_us(self) -> int:
        """The time since the start of the run."""
        return (time.monotonic_ns() - self.base_ns) // 1_000

    @property
    def nodes(self) -> int:
        """The number of nodes, with sybils."""
        return self.options.nodes + len(self.minted)

    def identity_of(self, node: int) -> Identity:
        """The identity of a node."""
        return identity_of(self.options.seed, self._made_of(node))

    def peer_of(self, node: int) -> Peer:
        """The peer id of a node."""
        return peer_of(self.options.seed, self._made_of(node))

    def _made_of(self, node: int) -> int:
        honest, bits = self.options.nodes, self.options.kademlia.id_work_bits
        if node >= honest:
            return self.minted[node - honest]
        return worked_number(peer_of, self.options.seed, node, bits)

    def folder_of(self, node: int) -> Path:
        """The data folder of a node."""
        return self.folder / f"node-{node}"


# --- to the launcher ---


class Launch(NamedTuple):
    """Start a worker; its socket is passed along. The answer is its process id."""

    setup: Setup


class Kill(NamedTuple):
    """End a worker at once; the answer comes when it is gone."""

    process: int
