"""Digests of everything that the cores of a simulated run ask for and that happens in it.

A digest depends on behaviour only. Messages enter it as the bytes that go over a connection, timers
as numbers in the order in which a node first names them, and rows of the trace without the names of
message types and timers: so renaming a class, a timer or a reason changes no digest, and any change
to what a node sends, stores, delivers or waits for changes it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from smartpubsub.protocols.registry import codecs_of
from smartpubsub.seam import (
    Answer,
    Ask,
    CancelTimer,
    Connect,
    Deliver,
    Effect,
    Load,
    Send,
    SetTimer,
    Store,
    Timer,
)
from smartpubsub.sim.experiments.experiment import Experiment, FaultPlan
from smartpubsub.sim.experiments.running import RunOptions
from smartpubsub.sim.kernel.world import Host
from smartpubsub.sim.traces.rows import delivered_row
from smartpubsub.sim.traces.trace import Row, Trace
from smartpubsub.workloads.actions import Workload

DIGEST_HEX_DIGITS = 24

NAMELESS_ROWS = frozenset({"send", "receive", "drop", "timer", "deliver"})
"""Rows whose kind is the name of a class or of a timer."""


class Golden(NamedTuple):
    """The digests of one run."""

    effects: str
    trace: str


class Recorder:
    """Digests the effects of all nodes, in the order in which the world carries them out."""

    def __init__(self, encoders: Mapping[type, Callable[[Any], bytes]]) -> None:
        self._encoders = encoders
        self._hash = hashlib.sha256()
        self._timers: dict[tuple[int, Timer], int] = {}

    def on_effects(self, host: Host, effects: Sequence[Effect]) -> None:
        """Add what a node asks for."""
        add = self._hash.update
        add(b"node %d\n" % host.number)
        for effect in effects:
            add(self._written(host, effect))

    def digest(self) -> str:
        """The digest of all effects so far."""
        return self._hash.hexdigest()[:DIGEST_HEX_DIGITS]

    def _written(self, host: Host, effect: Effect) -> bytes:
        match effect:
            case Send(peer, message):
                return b"send %s %s\n" % (peer, self._encoded(message))
            case Ask(peer, message, number, addresses):
                return b"ask %s %d %r %s\n" % (peer, number, addresses, self._encoded(message))
            case Answer(peer, message, number):
                return b"answer %s %d %s\n" % (peer, number, self._encoded(message))
            case SetTimer(timer, at):
                return b"set %d %d\n" % (self._number(host, timer), at)
            case CancelTimer(timer):
                return b"cancel %d\n" % self._number(host, timer)
            case Deliver(item):
                return b"deliver %s\n" % _row_text(delivered_row(0, host.number, item)).encode()
            case Store(key, value):
                return b"store %s %s\n" % (key, b"-" if value is None else value)
            case Load(prefix):
                return b"load %s\n" % prefix
            case Connect(peer, addresses):
                return b"connect %s %r\n" % (peer, addresses)

    def _encoded(self, message: object) -> bytes:
        return hashlib.sha256(self._encoders[type(message)](message)).digest()

    def _number(self, host: Host, timer: Timer) -> int:
        return self._timers.setdefault((host.number, timer), len(self._timers))


def recorded(options: RunOptions, workload: Workload, faults: FaultPlan) -> Golden:
    """Run an experiment and digest it."""
    encoders = {codec.message: codec.encode for codec in codecs_of(options.protocol)}
    recorder = Recorder(encoders)
    rows = hashlib.sha256()

    def add_rows(found: Sequence[Row]) -> None:
        rows.update("".join(_row_text(row) + "\n" for row in found).encode())

    trace = Trace(add_rows)
    Experiment(options, workload, faults, trace=trace, on_effects=recorder.on_effects).run()
    trace.flush()
    return Golden(recorder.digest(), rows.hexdigest()[:DIGEST_HEX_DIGITS])


def _row_text(row: Row) -> str:
    if row.what in NAMELESS_ROWS:
        row = row._replace(kind="")
    elif row.kind == "refuse":
        row = row._replace(text="")  # A reason is prose.
    return " ".join(map(str, row))
