"""The engine of a live node: its storage, its host, and the core with its protocols."""

from __future__ import annotations

import logging
import secrets
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, TypeAlias, cast

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
    kept_limits,
    protocol_options,
    wire_limits,
)
from smartpubsub.node.errors import LimitError, NodeClosedError, NotPromisedError
from smartpubsub.node.identity import KEY_FILE, Identity, identity_in
from smartpubsub.node.network_key import NetworkKey
from smartpubsub.node.signing import Ed25519Signing
from smartpubsub.node.storage.kept import PREFIX as KEPT_PREFIX
from smartpubsub.node.storage.kept import Change, KeptQueues
from smartpubsub.node.storage.store import SqliteStorage, StorageLimits
from smartpubsub.node.tracking import Tracking
from smartpubsub.node.transport.contacts import contact_at
from smartpubsub.node.transport.containment import Failures
from smartpubsub.node.transport.host import Host, HostStoppedError, OnRestart
from smartpubsub.node.transport.private_network import PrivateTcp
from smartpubsub.node.transport.swarm import MakeTcp
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.capabilities import Convicts, HasReplay
from smartpubsub.protocols.node import Alone, NodeCore
from smartpubsub.protocols.publication import EventId, Publication, Signing
from smartpubsub.protocols.pubsub import (
    Confirmed,
    Convicted,
    Delivery,
    Published,
    PubSub,
    Refused,
    Resident,
    Tally,
)
from smartpubsub.protocols.registry import PROTOCOLS, codecs_of, spec_of
from smartpubsub.protocols.spec import ProtocolSpec
from smartpubsub.seam import Effect, Peer

if TYPE_CHECKING:
    from smartpubsub.protocols.fastdelivery.protocol import FastDelivery
    from smartpubsub.protocols.pulsarcast.protocol import Pulsarcast

_log = logging.getLogger(__name__)

JOIN_S_MAX = 30.0
"""How long a node waits to join the network."""
PROBES_S_MAX = 2.0
"""How much longer it looks for the reason why a bootstrap peer cannot be reached."""
LEAVE_S_MAX = 5.0
_ABOUT_PUBLISHED = frozenset({Published, Confirmed, Refused})
FREE_SHARE = 16
"""Subscriptions leave one part in this many of the storage unused."""

Journal: TypeAlias = Callable[[Any, int], list[Change]]
"""Returns the changes to store with an item that the core delivers at a time."""

Compose: TypeAlias = Callable[[Kademlia, PubSub, Signing, Sequence[Resident]], NodeCore]
"""Composes the core of a node; the testbed composes one that records its calls."""


def _may_precede(item: object) -> bool | None:
    """Whether an item may be delivered before the commit of the turn that it comes in.

    An event that the node does not store for its reader may (True): after a crash it can come again
    in any case. Notices about published events wait, and delay no event (None).
    """
    kind = type(item)
    return True if kind is Delivery else None if kind in _ABOUT_PUBLISHED else False


class Engine:
    """A host that runs a core, and the requests that wait for the core."""

    def __init__(self, config: NodeConfig, compose: Compose = NodeCore) -> None:
        self.config = config
        self._compose = compose
        self.identity: Identity
        self.core: NodeCore
        self.spec = spec_of(config.protocol)
        """The protocol of the node's subscriptions."""
        self._residents: list[tuple[ProtocolSpec, Resident]] = []
        self.calls = Calls()
        self.item_counts: Counter[str] = Counter()
        """Items that the core has delivered, counted by type."""
        self.on_deliver: defaultdict[type, list[Callable[[Any], None]]] = defaultdict(list)
        """By the type of item: called with each item that the core delivers."""
        self.on_news: list[Callable[[object], None]] = []
        """Called with each item except deliveries and notices about published events."""
        self.journals: defaultdict[type, list[Journal]] = defaultdict(list)
        """By the type of item: called before its delivery; the host stores the changes first."""
        self.loaders: list[tuple[bytes, Callable[[list[tuple[bytes, bytes]]], None]]] = []
        """Called before the node starts, with the entries stored under a prefix."""
        self.on_restart: list[OnRestart] = []
        """Called after a restart of the core, to restore what the core does not store."""
        self.queues = KeptQueues(kept_limits(config))
        """The events that wait on disk."""
        self.dropped_in_memory = 0
        """Events that subscriptions have dropped from memory."""
        self.tracking = Tracking()
        """The facts about events that `Node.why` needs."""
        self._host: Host | None = None
        self.start_phase = ""
        """What the node waits for while it starts."""
        self._storage: SqliteStorage
        self._joined = trio.Event()
        self._known_before: list[Contact] = []
        """The routing table of the core before the last restart."""

    @property
    def host(self) -> Host:
        """The host; an error unless the node runs."""
        must_be_open(self._host is not None)
        assert self._host is not None
        return self._host

    @property
    def is_running(self) -> bool:
        """Whether the node runs."""
        return self._host is not None

    @property
    def is_reliable(self) -> bool:
        """Whether the protocol of the node's subscriptions guarantees delivery."""
        return self.spec.is_reliable(protocol_options(self.config))

    @property
    def tally(self) -> Tally:
        """The counters of all the node's protocols; the bounds of residents have their names."""
        pubsub = self.core.pubsub
        bounds, refused = [*pubsub.tally().bounds], Counter(pubsub.tally().refused)
        for _, core in self._residents:
            tally = core.tally()
            bounds += [b._replace(what=f"{core.name}: {b.what}") for b in tally.bounds]
            refused.update(tally.refused)
        return Tally(tuple(bounds), refused)

    @property
    def fast(self) -> FastDelivery:
        """The core that has groups; the node's calls about groups are calls of FastDelivery."""
        return cast("FastDelivery", self._core_with("groups", lambda spec: spec.groups))

    @property
    def pulsar(self) -> Pulsarcast:
        """The core that has topics; the node's calls about topics are calls of Pulsarcast."""
        return cast("Pulsarcast", self._core_with("topics", lambda spec: spec.topics))

    def _core_with(
        self, what: str, capability: Callable[[ProtocolSpec], object | None]
    ) -> PubSub | Resident:
        if capability(self.spec) is not None:
            return self.core.pubsub
        for spec, core in self._residents:
            if capability(spec) is not None:
                return core
        raise NotPromisedError(f"no protocol of this node has {what}; run a node that has them")

    @property
    def replay(self) -> HasReplay:
        """The component that delivers past events to new subscriptions; an error without one."""
        if self.spec.replay is None or not self.is_reliable:
            able = [spec.name for spec in PROTOCOLS.specs.values() if spec.replay is not None]
            raise NotPromisedError(
                "this protocol keeps no events for later subscribers; subscribe without since and"
                f" last, or use {' or '.join(able)} in a reliable variant"
            )
        return self.spec.replay(self.core.pubsub)

    def convicted(self) -> dict[Peer, str]:
        """The peers that a protocol has convicted, and the statements that convict them."""
        cores = [self.core.pubsub, *(core for _, core in self._residents)]
        return {
            peer: evidence
            for core in cores
            if isinstance(core, Convicts)
            for peer, evidence in core.convicted().items()
        }

    @property
    def failures(self) -> Failures:
        """The inputs that the host has dropped because of exceptions."""
        return self.host.containment.report(trio.current_time())

    def signed_again(
        self, id: EventId, predicate: Predicate, payload: bytes, created_us: int
    ) -> Publication:
        """Make an event of this node again, with a signature of its own."""
        signature = Ed25519Signing(self.identity).sign(id, predicate, payload, created_us)
        return Publication.of(id, predicate, payload, signature, created_us)

    @property
    def stored_bytes(self) -> int:
        """The bytes in the storage."""
        return self._storage.stored_bytes

    def must_have_room(self, size: int) -> None:
        """Raise an error if the storage has no room for more bytes.

        A part of the storage stays free, because a node that cannot store has to stop.
        """
        bytes_max = self.config.stored_bytes_max
        if self._storage.stored_bytes + size > bytes_max - bytes_max // FREE_SHARE:
            raise LimitError(
                f"the storage has no room for {size:,} bytes more;"
                " end subscriptions, or allow more with stored_bytes_max"
            )

    async def have_ended(self, end: Callable[[int], list[Effect]]) -> None:
        """Have the core end something, if it runs; wait for a limited time."""
        with trio.move_on_after(LEAVE_S_MAX) as limit, suppress(HostStoppedError):
            limit.shield = True
            if self._host is not None:
                await self._host.do(end)

    @asynccontextmanager
    async def running(self, on_end: Callable[[], None]) -> AsyncIterator[trio.Nursery]:
        """Start and join; at the end call `on_end`, send what is queued, and stop."""
        limits = StorageLimits(stored_bytes_max=self.config.stored_bytes_max)
        self.start_phase = f"reading what is stored in {self.config.data}"
        with lone_errors(), SqliteStorage(self.config.data, limits) as storage:
            work_bits = self.config.id_work_bits
            if work_bits and not (self.config.data / KEY_FILE).exists():
                self.start_phase = f"making a peer id with a proof of work of {work_bits} bits"
            self.identity = await trio.to_thread.run_sync(identity_in, self.config.data, work_bits)
            self._storage = storage
            stored = await trio.to_thread.run_sync(storage.load, KEPT_PREFIX)
            self.queues = KeptQueues(kept_limits(self.config), stored)
            for prefix, load in self.loaders:
                load(await trio.to_thread.run_sync(storage.load, prefix))
            host = Host(
                self.identity,
                self._make_core,
                codecs_of(self.config.protocol, wire_limits(self.config)),
                storage,
                on_deliver=self._on_deliver,
                journal=self._journal,
                may_precede=_may_precede,
                on_restart=self._restore,
                neighbours=lambda: self.core.neighbours(),
                is_member=lambda peer: self.core.kademlia.knows(Contact.of(peer)),
                settings=host_settings(self.config),
                make_tcp=self._private_tcp(),
            )
            async with trio.open_nursery() as nursery:
                with trio.CancelScope(shield=True):  # A host cannot be cancelled while it starts.
                    await nursery.start(self._run, host)
                self._host = host
                for peer in self.convicted():  # The core has restored them while the host started.
                    host.shun(peer)
                nursery.start_soon(self.calls.end_late)
                try:
                    await self._join(host)
                    if self.config.mdns:
                        from smartpubsub.node.transport.mdns import look_around

                        await nursery.start(look_around, host.own, self._meet)
                    yield nursery
                finally:
                    self._host = None
                    on_end()
                    with trio.CancelScope(shield=True):  # It takes a limited time.
                        await self._leave(host)
                        await host.stop()
                    self.calls.close()
                    nursery.cancel_scope.cancel()

    def _private_tcp(self) -> MakeTcp | None:
        """The transport of a private network; None in a public one."""
        if self.config.network_key is None:
            return None
        return partial(PrivateTcp, NetworkKey.read(self.config.network_key))

    async def _leave(self, host: Host) -> None:
        """Say goodbye, so that peers need no failure detector to learn that this node has left."""
        with trio.move_on_after(LEAVE_S_MAX), suppress(HostStoppedError):
            await host.do(lambda now: self.core.leave(now, host.connected))

    async def _run(
        self, host: Host, *, task_status: TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        # A node that is cancelled also ends its subscriptions and sends what is queued.
        with trio.CancelScope(shield=True):
            await host.run(self.config.listen, self.config.announce, task_status=task_status)

    async def _join(self, host: Host) -> None:
        peers = " ".join(self.config.bootstrap) or "the peers that the node remembers"
        self.start_phase = f"waiting for an answer of {peers}, up to {JOIN_S_MAX:g} seconds"
        async with trio.open_nursery() as probes:
            for address in self.config.bootstrap:
                probes.start_soon(self._log_unreachable, host, address)
            with trio.move_on_after(JOIN_S_MAX):
                await self._joined.wait()
            # A refusal may come before the reason why another peer cannot be reached.
            probes.cancel_scope.deadline = trio.current_time() + PROBES_S_MAX
        if self.config.bootstrap and not len(self.core.kademlia.table):
            _log.warning(
                "no peer to bootstrap by has answered; the node is alone for now" + self._key_hint()
            )

    @property
    def _bootstrap(self) -> list[Contact]:
        return [contact_at(address) for address in self.config.bootstrap]

    def _key_hint(self) -> str:
        if self.config.network_key is None:
            return "; if theirs is a private network, give its key with --network-key"
        return "; is --network-key the key of their network?"

    def _restore(self, now: int) -> list[Effect]:
        """Join again with a restarted core, and restore what it has not stored."""
        effects = self.core.join([*self._bootstrap, *self._known_before], now)
        for restore in self.on_restart:
            effects += restore(now)
        return effects

    async def _log_unreachable(self, host: Host, address: str) -> None:
        """Log why a bootstrap peer cannot be reached."""
        contact = contact_at(address)
        problem = await host.connections.problem_at(contact.addresses[0])
        if problem and contact.peer not in host.connections:
            fields = {"address": address, "reason": problem}
            _log.warning("a peer to bootstrap by cannot be reached", extra={"fields": fields})

    async def _meet(self, contact: Contact) -> None:
        with suppress(HostStoppedError, NodeClosedError):
            await self.host.do(lambda now: self.core.meet(contact, now))

    def _make_core(self, own: Contact) -> NodeCore:
        if self._host is not None:
            self._known_before = self.core.kademlia.table.contacts()
        # If peers could predict the random numbers, they could make nodes act at the same time.
        rng = Random(secrets.randbits(256))
        kademlia = Kademlia(own, kademlia_settings(self.config), rng)
        signing = Ed25519Signing(self.identity)
        options = protocol_options(self.config)
        pubsub = self.spec.core(options, kademlia, signing, rng)
        self._residents = [
            (spec, spec.resident(spec.settings(options), kademlia, signing, rng))
            for spec in PROTOCOLS.residents_beside(self.spec.name)
            if spec.resident is not None
        ]
        self.core = self._compose(kademlia, pubsub, signing, [core for _, core in self._residents])
        # Before it loads the peers that it remembers: their addresses may be out of date, and a
        # refused connection there would count as a peer that has left.
        self.core.join(self._bootstrap, 0)
        return self.core

    def _journal(self, item: object, now: int) -> list[Change]:
        self.tracking.on_item(item, now)
        return [change for journal in self.journals[type(item)] for change in journal(item, now)]

    def _on_deliver(self, item: Any) -> None:
        kind = type(item)
        # A node whose peers are all gone works alone until one of them is back.
        if kind is Joined or kind is Alone:
            self._joined.set()
        elif kind is Convicted and self._host is not None and item.peer != self.identity.peer:
            self._host.shun(item.peer)
        self.item_counts[kind.__name__] += 1
        for handle in self.on_deliver[kind]:
            handle(item)
        if kind is not Delivery and kind not in _ABOUT_PUBLISHED:
            for handle in self.on_news:
                handle(item)
