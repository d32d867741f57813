"""Feeds the notes of all nodes, in the order of time, to the observer and the trace of a run."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any

from smartpubsub.errors import SmartPubSubError
from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.queries import Joined
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.publication import EventId
from smartpubsub.protocols.pubsub import Inspection, Refused
from smartpubsub.seam import Peer
from smartpubsub.sim.experiments.calls import Call
from smartpubsub.sim.experiments.running import Traffic
from smartpubsub.sim.judging.observer import Observer
from smartpubsub.sim.traces.rows import delivered_row
from smartpubsub.testbed.messages import (
    Came,
    Delivered,
    Done,
    Failed,
    Note,
    Passed,
    Seen,
    Struck,
    Up,
)


class Ledger:
    """The state of a run so far."""

    def __init__(self, observer: Observer, nodes: int, hostile: Container[int] = ()) -> None:
        """Make a ledger; the calls and deliveries of hostile nodes are not judged."""
        self.contacts: dict[int, Contact] = {}
        """The nodes that listen, with their addresses."""
        self.joined: dict[int, None] = {}
        self.to_do: dict[int, None] = {}
        """The numbers of commands that nodes have not finished yet."""
        self.inspections: list[tuple[int, int, Inspection]] = []
        self.convicted: dict[Peer, None] = {}
        """The nodes that honest nodes have convicted, as their inspections show."""
        self.sent_count = 0
        self.counts_since_us: int | None = None
        """The time from which traffic counts, once it is known."""
        self.traffic = [Traffic(0, 0, 0)] * nodes
        self.given_up_us: dict[tuple[int, Predicate], int] = {}
        """By node and predicate: since when an application wants no more events of a subscription.

        It ends the subscription later.
        """
        self._observer = observer
        self._hostile = hostile
        self._trace = observer.trace
        self._enter: dict[type, Callable[[int, int, Any], None]] = {
            Passed: self._passed,
            Came: self._came,
            Call: self._called,
            Delivered: self._delivered,
            Done: lambda _, __, done: self.to_do.pop(done.number, None),
            Up: self._up,
            Struck: lambda at, node, struck: self._strike(at, node, struck.kind),
            Seen: self._seen,
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

    def _came(self, at: int, node: int, came: Came) -> None:
        if node not in self._hostile:
            self._observer.came(at, node, came.sender, came.ids)

    def _called(self, at: int, node: int, asked: Call) -> None:
        if node not in self._hostile:
            ends = asked.what == "unsubscribe"
            given_up_us = self.given_up_us.pop((node, asked.predicate), None) if ends else None
            self._observer.called(at, node, asked, given_up_us)
        elif isinstance(asked.key, EventId):
            # Honest nodes may deliver an adversary's event or drop it.
            self._observer.called(at, node, asked)
            self._observer.on_delivered(
                at, node, 0, Refused(asked.key, "published by an adversary")
            )

    def _seen(self, at: int, node: int, seen: Seen) -> None:
        if node not in self._hostile:
            self.inspections.append((at, node, seen.inspection))
            self.convicted |= dict.fromkeys(seen.convicted)

    def _delivered(self, at: int, node: int, delivered: Delivered) -> None:
        self._trace.add_row(delivered_row(at, node, delivered.item))
        if node not in self._hostile:
            self._observer.on_delivered(at, node, delivered.start, delivered.item)
        if isinstance(delivered.item, Joined):
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
