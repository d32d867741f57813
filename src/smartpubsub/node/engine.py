"""What runs below a live node: its storage, its host, and the core with its protocols."""

from __future__ import annotations

import logging
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from random import Random

import trio
from trio_typing import TaskStatus

from smartpubsub.kademlia.core import Kademlia
from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.queries import Joined
from smartpubsub.node.api.arrivals import must_be_open
from smartpubsub.node.api.calls import Calls
from smartpubsub.node.api.lone_errors import lone_errors
from smartpubsub.node.configuration import (
    NodeConfig,
    host_settings,
    kademlia_settings,
    stack_options,
    wire_limits,
)
from smartpubsub.node.errors import LimitError, NodeClosedError
from smartpubsub.node.identity import Identity, identity_in
from smartpubsub.node.signing import Ed25519Signing
from smartpubsub.node.storage.store import SqliteStorage, StorageLimits
from smartpubsub.node.transport.contacts import contact_at
from smartpubsub.node.transport.host import Host, HostStoppedError
from smartpubsub.node.transport.mdns import look_around
from smartpubsub.protocols.codecs import codecs_of
from smartpubsub.protocols.fastdelivery.core import FastDelivery
from smartpubsub.protocols.node import Alone, NodeCore
from smartpubsub.protocols.pubsub import Tally
from smartpubsub.protocols.pulsarcast.core import Pulsarcast
from smartpubsub.protocols.scoutsubs.protocol import ScoutSubs
from smartpubsub.seam import Effect
from smartpubsub.sim.experiments.stacks import STACKS

_log = logging.getLogger(__name__)

JOIN_S_MAX = 30.0
"""How long a node waits until it has its place."""
LEAVE_S_MAX = 5.0
FREE_SHARE = 16
"""The part of the storage that subscriptions leave free: one in so many."""


class Engine:
    """A host with a core on it, while the node runs, and what is waited for from the core."""

    def __init__(self, config: NodeConfig) -> None:
        self.config = config
        self.identity: Identity
        self.core: NodeCore
        self.fast: FastDelivery
        """For groups; it is a resident of the core, unless it carries subscriptions as well."""
        self.pulsar: Pulsarcast
        """For topics; likewise."""
        self.calls = Calls()
        self.told: Counter[str] = Counter()
        """How often the core has delivered what."""
        self.on_deliver: list[Callable[[object], None]] = []
        """Who is told what the core delivers."""
        self._host: Host | None = None
        self._storage: SqliteStorage
        self._joined = trio.Event()

    @property
    def host(self) -> Host:
        """The host; an error unless the node runs."""
        must_be_open(self._host is not None)
        assert self._host is not None
        return self._host

    @property
    def is_running(self) -> bool:
        """Whether anything can be asked of the node."""
        return self._host is not None

    @property
    def is_reliable(self) -> bool:
        """Whether the protocol of the node's subscriptions promises that nothing is lost."""
        return STACKS[self.config.protocol].is_reliable(stack_options(self.config))

    @property
    def tally(self) -> Tally:
        """What all the node's protocols have counted; what has limits in those for groups and
        topics goes by their names.
        """
        pubsub = self.core.pubsub
        bounds, refused = [*pubsub.tally().bounds], Counter(pubsub.tally().refused)
        for core in (self.fast, self.pulsar):
            if core is not pubsub:
                tally = core.tally()
                bounds += [b._replace(what=f"{core.name}: {b.what}") for b in tally.bounds]
                refused.update(tally.refused)
        return Tally(tuple(bounds), refused)

    @property
    def scouts(self) -> ScoutSubs:
        """The protocol of the node's subscriptions, where that is ScoutSubs."""
        assert isinstance(self.core.pubsub, ScoutSubs)
        return self.core.pubsub

    @property
    def stored_bytes(self) -> int:
        """How much is in the storage."""
        return self._storage.stored_bytes

    def must_have_room(self, size: int) -> None:
        """Refuse what would bring the storage near its limit, a part of which is always kept free:

        what the node could not store it would have to stop for.
        """
        bytes_max = self.config.stored_bytes_max
        if self._storage.stored_bytes + size > bytes_max - bytes_max // FREE_SHARE:
            raise LimitError(
                f"the storage has no room for {size:,} bytes more;"
                " end subscriptions, or allow more with stored_bytes_max"
            )

    async def have_ended(self, end: Callable[[int], list[Effect]]) -> None:
        """Have the core told that something is over, if it runs.

        If a subscription holds the node up, that is done when this is over, and not waited for.
        """
        with trio.move_on_after(LEAVE_S_MAX) as limit, suppress(HostStoppedError):
            limit.shield = True
            if self._host is not None:
                await self._host.do(end)

    @asynccontextmanager
    async def running(self, on_end: Callable[[], None]) -> AsyncIterator[trio.Nursery]:
        """Start and join; at the end say so, then send what is still to be sent, and stop."""
        limits = StorageLimits(stored_bytes_max=self.config.stored_bytes_max)
        with lone_errors(), SqliteStorage(self.config.data, limits) as storage:
            self.identity = identity_in(self.config.data)
            self._storage = storage
            host = Host(
                self.identity,
                self._make_core,
                codecs_of(self.config.protocol, wire_limits(self.config)),
                storage,
                on_deliver=self._on_deliver,
                settings=host_settings(self.config),
            )
            async with trio.open_nursery() as nursery:
                with trio.CancelScope(shield=True):  # Half a start cannot be undone.
                    await nursery.start(self._run, host)
                self._host = host
                try:
                    await self._join(host)
                    if self.config.mdns:
                        await nursery.start(look_around, host.own, self._meet)
                    yield nursery
                finally:
                    self._host = None
                    on_end()
                    host.hold(False)
                    with trio.CancelScope(shield=True):  # It takes a limited time.
                        await host.stop()
                    nursery.cancel_scope.cancel()

    async def _run(
        self, host: Host, *, task_status: TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        # Also a node that is cancelled ends its subscriptions and sends what is still to be sent.
        with trio.CancelScope(shield=True):
            await host.run(self.config.listen, task_status=task_status)

    async def _join(self, host: Host) -> None:
        bootstrap = [contact_at(address) for address in self.config.bootstrap]
        await host.do(lambda now: self.core.join(bootstrap, now))
        with trio.move_on_after(JOIN_S_MAX):
            await self._joined.wait()
        if bootstrap and not len(self.core.kademlia.table):
            _log.warning("no peer to bootstrap by has answered; the node is alone for now")

    async def _meet(self, contact: Contact) -> None:
        with suppress(HostStoppedError, NodeClosedError):
            await self.host.do(lambda now: self.core.meet(contact, now))

    def _make_core(self, own: Contact) -> NodeCore:
        # Chance that others could foresee would let them choose when two nodes act as one.
        rng = Random(secrets.randbits(256))
        kademlia = Kademlia(own, kademlia_settings(self.config), rng)
        signing = Ed25519Signing(self.identity)
        pubsub = STACKS[self.config.protocol].make(
            kademlia, signing, rng, stack_options(self.config)
        )
        options = stack_options(self.config)
        if isinstance(pubsub, FastDelivery):
            self.fast = pubsub
        else:
            self.fast = FastDelivery(options.fast_settings(own.peer), kademlia, signing, rng)
        if isinstance(pubsub, Pulsarcast):
            self.pulsar = pubsub
        else:
            self.pulsar = Pulsarcast(options.pulsar_settings, kademlia, signing, rng)
        beside = [core for core in (self.fast, self.pulsar) if core is not pubsub]
        self.core = NodeCore(kademlia, pubsub, signing, beside)
        return self.core

    def _on_deliver(self, item: object) -> None:
        # Whoever only remembers peers that are all gone may be the first that is back.
        if isinstance(item, Joined) or (isinstance(item, Alone) and not self.config.bootstrap):
            self._joined.set()
        self.told[type(item).__name__] += 1
        for tell in self.on_deliver:
            tell(item)
