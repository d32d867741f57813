"""A real node in a worker: host, storage and core, with notes about them."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import fields
from functools import partial

import trio

from smartpubsub.kademlia.keys import Contact
from smartpubsub.node.signing import Ed25519Signing
from smartpubsub.node.storage.store import SqliteStorage
from smartpubsub.node.transport.counts import Counts
from smartpubsub.node.transport.host import Host
from smartpubsub.node.transport.host_settings import HostSettings
from smartpubsub.protocols.capabilities import Convicts
from smartpubsub.protocols.registry import codecs_of, spec_of
from smartpubsub.seam import Effect, Peer
from smartpubsub.sim.adversaries.node import Credulous, HostileNode
from smartpubsub.sim.experiments.calls import call
from smartpubsub.sim.experiments.running import make_core
from smartpubsub.sim.kernel.places import region_of
from smartpubsub.sim.kernel.streams import stream
from smartpubsub.testbed.link import Cuts, Link, ShapedTcp
from smartpubsub.testbed.messages import (
    Act,
    Delivered,
    Done,
    Join,
    Passed,
    Seen,
    Setup,
    StartNode,
    ToApplication,
    Up,
)
from smartpubsub.testbed.notebook import Notebook
from smartpubsub.testbed.traced import TracedCore

_DROPPED = tuple(field.name for field in fields(Counts) if field.name.startswith("dropped_"))


class _CredulousSigning(Credulous, Ed25519Signing):
    """Signs with its peer's key, and accepts all signatures."""


class PlacedNode:
    """A node that runs in this process."""

    def __init__(
        self,
        setup: Setup,
        command: StartNode,
        notebook: Notebook,
        nodes_by_peer: Mapping[Peer, int],
        cuts: Cuts,
    ) -> None:
        self.number = command.node
        self._setup = setup
        self._start = command.start
        self._port = command.port
        self._notebook = notebook
        self._nodes_by_peer = nodes_by_peer
        self._cuts = cuts
        self._identity = setup.identity_of(self.number)
        self._core: TracedCore
        self._host: Host
        self._dropped_before = dict.fromkeys(_DROPPED, 0)
        self._to_do: deque[Join | Act] = deque()
        self._has_to_do = trio.Event()
        self._is_ready = False

    async def run(self) -> None:
        """Run until cancelled."""
        options = self._setup.options
        with SqliteStorage(self._setup.folder_of(self.number)) as storage:
            async with trio.open_nursery() as nursery:
                rng = stream(options.seed, "link", self.number, self._start)
                link = Link(
                    self.number,
                    options.network,
                    self._latency_us,
                    self._cuts,
                    rng,
                    nursery.start_soon,
                )
                self._host = Host(
                    self._identity,
                    self._make_core,
                    codecs_of(options.protocol),
                    storage,
                    on_deliver=self._on_deliver,
                    settings=HostSettings(loopback_is_exempt=True),
                    make_tcp=partial(ShapedTcp, link),
                )
                await nursery.start(self._host.run, [f"/ip4/127.0.0.1/tcp/{self._port}"])
                self._is_ready = True
                nursery.start_soon(self._do_all)

    def _latency_us(self, peer: int) -> int:
        network, ends = self._setup.options.network, (self.number, peer)
        regions = [region_of(self._setup.peer_of(node), network.regions) for node in ends]
        return network.latency_between_us(*regions)

    def _make_core(self, own: Contact) -> TracedCore:
        options = self._setup.options
        adversary = self._setup.hostile.get(self.number)
        if adversary is None:
            core = make_core(options, own, Ed25519Signing(self._identity), self._start)
        else:
            make = partial(HostileNode, adversary=adversary)
            signing = _CredulousSigning(self._identity)
            core = make_core(options, own, signing, self._start, make)
        spec = spec_of(options.protocol)
        self._core = TracedCore(core, self.number, self._notebook, self._nodes_by_peer, spec)
        # Noted before the core handles it, so that the note precedes those of its effects.
        self._notebook.add(self.number, Up(self._start, own))
        return self._core

    def _on_deliver(self, item: object) -> None:
        self._notebook.add(self.number, Delivered(self._start, item))
        if not self._setup.is_shared:  # The process may be killed at any moment.
            self._notebook.report()

    # --- commands ---

    def do(self, command: Join | Act | ToApplication) -> None:
        """Execute a command, after earlier ones."""
        assert isinstance(command, Join | Act)  # Only whole nodes have an application.
        self._to_do.append(command)
        self._has_to_do.set()

    async def _do_all(self) -> None:
        while True:
            while not self._to_do:
                self._has_to_do = trio.Event()
                await self._has_to_do.wait()
            command = self._to_do.popleft()
            await self._host.do(partial(self._done, command))

    def _done(self, command: Join | Act, now: int) -> list[Effect]:
        core = self._core.core
        if isinstance(command, Join):
            return self._core.noted(core.join(command.bootstrap, now))
        spec = spec_of(self._setup.options.protocol)
        asked, effects = call(core, spec, command.action, now)
        if asked is not None:
            self._notebook.add(self.number, asked)
        self._notebook.add(self.number, Done(command.number))
        return self._core.noted(effects)

    # --- inspection ---

    def inspect(self) -> None:
        """Note the result of inspecting the node."""
        if self._is_ready:
            core = self._core.core.pubsub
            convicted = tuple(core.convicted()) if isinstance(core, Convicts) else ()
            self._notebook.add(self.number, Seen(core.inspect(), convicted))

    def note_drops(self) -> None:
        """Note the messages that the host has dropped since the last call."""
        if not self._is_ready:
            return
        for reason in _DROPPED:
            count: int = getattr(self._host.counts, reason)
            for _ in range(count - self._dropped_before[reason]):
                kind = reason.removeprefix("dropped_")
                self._notebook.add(self.number, Passed("drop", -1, kind, 0))
            self._dropped_before[reason] = count
