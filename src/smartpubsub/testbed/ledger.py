"""Feeds the notes of all nodes, in the order of time, to the observer and the trace of a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from smartpubsub.errors import SmartPubSubError
from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.queries import Joined
from smartpubsub.protocols.pubsub import Inspection
from smartpubsub.sim.experiments.calls import Call
from smartpubsub.sim.experiments.running import Traffic
from smartpubsub.sim.judging.observer import Observer
from smartpubsub.sim.traces.rows import delivered_row
from smartpubsub.testbed.messages import (
    Came,
    Done,
    Failed,
    Note,
    Passed,
    Seen,
    Struck,
    Told,
    Up,
)


class Ledger:
    """The state of a run so far."""

    def __init__(self, observer: Observer, nodes: int) -> None:
        self.contacts: dict[int, Contact] = {}
        """The nodes that listen, with their addresses."""
        self.joined: dict[int, None] = {}
        self.to_do: dict[int, None] = {}
        """The numbers of commands that nodes have not finished yet."""
        self.inspections: list[tuple[int, int, Inspection]] = []
        self.sent_count = 0
        self.counts_since_us: int | None = None
        """The time from which traffic counts, once it is known."""
        self.traffic = [Traffic(0, 0, 0)] * nodes
        self._observer = observer
        self._trace = observer.trace
        self._enter: dict[type, Callable[[int, int, Any], None]] = {
            Passed: self._passed,
            Came: lambda at, node, came: observer.came(at, node, came.sender, came.ids),
            Call: observer.called,
            Told: self._told,
            Done: lambda _, __, done: self.to_do.pop(done.number, None),
            Up: self._up,
            Struck: lambda at, node, struck: self._strike(at, node, struck.kind),
            Seen: lambda at, node, seen: self.inspections.append((at, node, seen.inspection)),
            Failed: self._failed,
        }

    def enter(self, note: Note) -> None:
        """Process a note."""
        at, node, value = note
        self._enter[type(value)](at, node, value)

    def _passed(self, at: int, node: int, passed: Passed) -> None:
        what, peer, kind, size = passed
        self._trace.add(at, what, node, peer, kind, size)
        self.sent_count += what == "send"
        if self.counts_since_us is not None and at >= self.counts_since_us:
            sent, received, sent_bytes = self.traffic[node]
            if what == "send":
                self.traffic[node] = Traffic(sent + 1, received, sent_bytes + size)
            elif what == "receive":
                self.traffic[node] = Traffic(sent, received + 1, sent_bytes)

    def _told(self, at: int, node: int, told: Told) -> None:
        self._trace.add_row(delivered_row(at, node, told.item))
        self._observer.told(at, node, told.start, told.item)
        if isinstance(told.item, Joined):
            self.joined[node] = None

    def _up(self, at: int, node: int, up: Up) -> None:
        self.contacts[node] = up.contact
        if up.start:
            self._strike(at, node, "restart")

    def _strike(self, at: int, node: int, kind: str) -> None:
        self._trace.add(at, "fault", node, -1, kind, 0)
        self._observer.failed(at, node, kind)

    def _failed(self, _: int, node: int, failed: Failed) -> None:
        raise SmartPubSubError(f"node {node} has stopped: {failed.reason}")
