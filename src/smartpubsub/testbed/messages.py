"""What the coordinator of a testbed and its workers tell each other."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeAlias

from smartpubsub.kademlia.keys import Contact
from smartpubsub.protocols.publication import EventId
from smartpubsub.protocols.pubsub import Inspection
from smartpubsub.sim.experiments.calls import Call
from smartpubsub.sim.experiments.running import RunOptions
from smartpubsub.workloads.actions import Action

# --- to a worker ---


class StartNode(NamedTuple):
    """Start a node, for the first time or again."""

    node: int
    start: int
    """How often it has been started before."""
    port: int
    """Where to listen; 0 for any."""


class Join(NamedTuple):
    """Have a node find its place by way of others."""

    node: int
    bootstrap: tuple[Contact, ...]


class Act(NamedTuple):
    """Have a node's application do something."""

    number: int
    action: Action


class Know(NamedTuple):
    """Who listens where, so that it is known who a connection goes to."""

    nodes_by_port: dict[int, int]


class Cut(NamedTuple):
    """Let nothing pass between these nodes and all others from now on; nobody for a whole net."""

    group: frozenset[int]
    one_way: bool = False
    """Whether what comes from the others still passes."""


class Settle(NamedTuple):
    """Everything that lasts has been made: from now on the memory's collector can leave it out."""


class Inspect(NamedTuple):
    """Look into all nodes."""


class End(NamedTuple):
    """Tell what is left to tell, and end."""


Command: TypeAlias = StartNode | Join | Act | Know | Cut | Settle | Inspect | End


# --- from a worker, in notes ---


class Up(NamedTuple):
    """A node listens."""

    start: int
    contact: Contact


class Passed(NamedTuple):
    """A message or a timer, as a row of a trace has it."""

    what: str
    peer: int
    kind: str
    size: int


class Came(NamedTuple):
    """Copies of events have come down to a node, from another."""

    sender: int
    ids: tuple[EventId, ...]


class Told(NamedTuple):
    """An application was told something."""

    start: int
    item: object


class Done(NamedTuple):
    """What a node's application was to do is done."""

    number: int


class Seen(NamedTuple):
    """What a look into a node has shown."""

    inspection: Inspection


class Failed(NamedTuple):
    """A node that must not has stopped."""

    reason: str


class Struck(NamedTuple):
    """Something was done to a node by whoever runs the testbed."""

    kind: str


Value: TypeAlias = Up | Passed | Came | Told | Done | Seen | Failed | Struck | Call


class Note(NamedTuple):
    """Something that happened to a node."""

    at_us: int
    node: int
    value: Value


class Usage(NamedTuple):
    """What a process has used, by its own accounting."""

    cpu_s: float
    rss_mb: float


class Report(NamedTuple):
    """All that has happened in a process up to a time, since its last report."""

    until_us: int
    notes: list[Note]
    usage: Usage


# --- what workers are made with ---


@dataclass(frozen=True, kw_only=True)
class Setup:
    """What all processes of a testbed know."""

    options: RunOptions
    folder: Path
    """Where nodes keep their data, each in a folder of its own."""
    base_ns: int
    """When the run's time began, on the clock that all processes of a machine share."""
    is_shared: bool = True
    """Whether a process is for many nodes."""

    def now_us(self) -> int:
        """What time it is in the run."""
        return (time.monotonic_ns() - self.base_ns) // 1_000

    def folder_of(self, node: int) -> Path:
        """Where a node keeps its data."""
        return self.folder / f"node-{node}"


# --- to the launcher ---


class Launch(NamedTuple):
    """Start a worker; the socket to speak with it comes along. The answer is its process id."""

    setup: Setup


class Kill(NamedTuple):
    """End a worker at once; the answer comes when it is gone."""

    process: int
