"""A process of a testbed: an event loop for one or many nodes."""

from __future__ import annotations

import gc
import os
import socket

import trio

from smartpubsub.errors import SmartPubSubError
from smartpubsub.node.interpreter import clean_memory, tune_interpreter
from smartpubsub.node.transport.patience import PatientClock
from smartpubsub.testbed.channel import Channel, ClosedError
from smartpubsub.testbed.link import Cuts
from smartpubsub.testbed.messages import (
    Act,
    Command,
    Cut,
    End,
    Failed,
    Inspect,
    Join,
    Know,
    Leave,
    PauseReading,
    Read,
    Settle,
    Setup,
    ShiftClock,
    StartNode,
    StopReading,
)
from smartpubsub.testbed.notebook import Notebook
from smartpubsub.testbed.placed import PlacedNode
from smartpubsub.testbed.soak.whole import WholeNode

REPORT_S = 0.05
DROPS_EVERY = 20
"""One report in this many notes dropped messages."""
GC_THRESHOLDS = (100_000, 50, 1_000)
"""With the default thresholds, the garbage collector visits all connections several times a
second."""


def work(end: socket.socket, setup: Setup) -> None:
    """Execute the coordinator's commands until the last one, or until the coordinator ends."""
    if setup.is_whole:
        tune_interpreter()
        trio.run(_Worker(end, setup).run)  # As `node run` does.
        return
    gc.set_threshold(*GC_THRESHOLDS)
    clock = PatientClock()  # Many nodes share one machine, so timeouts follow a patient clock.
    trio.run(_Worker(end, setup).run, clock=clock, instruments=[clock])


class _Worker:
    def __init__(self, end: socket.socket, setup: Setup) -> None:
        self._end = end
        self._setup = setup
        self._notebook = Notebook(setup, end)
        self._nodes: dict[int, PlacedNode | WholeNode] = {}
        self._nodes_by_peer = {setup.peer_of(node): node for node in range(setup.nodes)}
        self._nursery: trio.Nursery

    async def run(self) -> None:
        channel, self._cuts = Channel(self._end), Cuts()
        self._notebook.report()  # It has the resource use without nodes.
        async with trio.open_nursery() as self._nursery:
            self._nursery.start_soon(self._report)
            if self._setup.is_whole:
                self._nursery.start_soon(clean_memory)  # As `node run` does.
            try:
                while True:
                    self._do(await channel.receive())
            except ClosedError:
                # The run is over; connections need no orderly close.
                os._exit(1)

    async def _report(self) -> None:
        number = 0
        while True:
            await trio.sleep(REPORT_S)
            number += 1
            if number % DROPS_EVERY == 0:
                self._note_drops()
            self._notebook.report()

    def _note_drops(self) -> None:
        for node in self._nodes.values():
            node.note_drops()

    def _do(self, command: Command) -> None:
        match command:
            case StartNode():
                node = self._made(command)
                self._nodes[node.number] = node
                self._nursery.start_soon(self._run, node)
            case Act(action=action):
                self._nodes[action.node].do(command)
            case Join() | Read() | StopReading() | PauseReading() | ShiftClock() | Leave():
                self._nodes[command.node].do(command)
            case Know(nodes_by_port):
                self._cuts.nodes_by_port = nodes_by_port
            case Cut():
                self._cuts.set(command)
            case Settle():
                gc.collect()
                gc.freeze()
            case Inspect():
                for node in self._nodes.values():
                    node.inspect()
                self._notebook.report()
            case End():
                self._note_drops()
                self._notebook.report()
                os._exit(0)

    def _made(self, command: StartNode) -> PlacedNode | WholeNode:
        if self._setup.is_whole:
            return WholeNode(self._setup, command, self._notebook)
        return PlacedNode(self._setup, command, self._notebook, self._nodes_by_peer, self._cuts)

    async def _run(self, node: PlacedNode | WholeNode) -> None:
        reason = "it ended without a reason"
        try:
            await node.run()
        except* SmartPubSubError as errors:
            reason = str(errors.exceptions[0])
        if isinstance(node, WholeNode) and node.has_left:
            self._notebook.report()
            os._exit(0)
        self._notebook.add(node.number, Failed(reason))
        self._notebook.report()
        if self._setup.is_whole:
            os._exit(1)
