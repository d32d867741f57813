"""The rows of a run and their digest.

The digest is always computed: two runs are the same exactly when their digests are. If there is a
sink, it gets the rows, many at a time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

_ROWS_AT_ONCE = 4096


class Row(NamedTuple):
    """One thing that happened at one node."""

    at_us: int
    what: str
    """send, receive, copy, drop, timer, deliver, create, subscribe, unsubscribe, publish,
    acknowledge, fault, and at last end."""
    node: int
    """Which node, or -1 if it concerns all."""
    peer: int = -1
    """The other node, or -1."""
    kind: str = ""
    """The message's type, what was acknowledged, the kind of fault, the timer's core, or
    the name of a new topic."""
    size: int = 0
    """Bytes on the wire, or of the payload."""
    event: str = ""
    """The id of the event that was published or delivered, or that a copy is of."""
    hops: int = 0
    text: str = ""
    """A predicate, the subscriptions of a delivery, or a description of the run."""
    subscription: int = -1
    """The number of the subscription on its node, or -1."""


Sink: TypeAlias = Callable[[Sequence[Row]], None]


def sink_of(*sinks: Sink | None) -> Sink | None:
    """Combine sinks into one."""
    there = [sink for sink in sinks if sink is not None]
    if len(there) <= 1:
        return there[0] if there else None

    def take(rows: Sequence[Row]) -> None:
        for sink in there:
            sink(rows)

    return take


class Trace:
    """A digest over rows, and the rows for a sink if there is one."""

    def __init__(self, sink: Sink | None = None) -> None:
        self._sink = sink
        self._rows: list[Row] = []
        self._pending: list[str] = []
        self._hash = hashlib.sha256()

    def add(self, at: int, what: str, node: int, peer: int, kind: str, size: int) -> None:
        """Add a row about a message, a timer or a fault, as most rows are."""
        self._pending.append(f"{at} {what} {node} {peer} {kind} {size}\n")
        if self._sink is not None:
            self._rows.append(Row(at, what, node, peer, kind, size))
        if len(self._pending) >= _ROWS_AT_ONCE:
            self.flush()

    def add_copy(self, at: int, node: int, sender: int, event: str) -> None:
        """Add a row for a copy of an event that came to a node on its way down."""
        self._pending.append(f"{at} copy {node} {event}\n")
        if self._sink is not None:
            self._rows.append(Row(at, "copy", node, sender, event=event))

    def add_row(self, row: Row) -> None:
        """Add a row about an event or a subscription."""
        self._pending.append(" ".join(map(str, row)) + "\n")
        if self._sink is not None:
            self._rows.append(row)

    def digest(self) -> str:
        """The digest of all rows so far."""
        self.flush()
        return self._hash.hexdigest()

    def flush(self) -> None:
        """Digest the pending rows, and hand them to the sink."""
        self._hash.update("".join(self._pending).encode())
        self._pending.clear()
        if self._sink is not None and self._rows:
            self._sink(self._rows)
            self._rows = []
