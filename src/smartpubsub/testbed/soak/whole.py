"""A whole node in a process of its own, with the application that uses it.

The application subscribes, reads and publishes through the node's API. The process notes a call
when the core gets it, a kept event when the application reads it, and any other event when the node
delivers it: only kept events have to survive a crash on their way to the reader.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import trio

from smartpubsub.errors import SmartPubSubError
from smartpubsub.kademlia.core import Kademlia
from smartpubsub.kademlia.keys import Contact
from smartpubsub.node.api.node import Node
from smartpubsub.node.configuration import NodeConfig
from smartpubsub.node.engine import Engine
from smartpubsub.node.errors import NodeClosedError
from smartpubsub.node.identity import keep_identity
from smartpubsub.node.transport.containment import Failures
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.fastdelivery.results import GroupOpened
from smartpubsub.protocols.node import NodeCore
from smartpubsub.protocols.publication import Publication, Signing
from smartpubsub.protocols.pubsub import (
    Delivery,
    Inspection,
    Published,
    PubSub,
    Refused,
    Resident,
    Subscribed,
    Unsubscribed,
)
from smartpubsub.protocols.pulsarcast.results import TopicStored
from smartpubsub.seam import Effect
from smartpubsub.sim.experiments.calls import Call, call
from smartpubsub.testbed.identities import identity_of
from smartpubsub.testbed.messages import (
    Acknowledged,
    Act,
    Contained,
    Delivered,
    Done,
    Join,
    Leave,
    PauseReading,
    Read,
    Ready,
    Seen,
    Setup,
    ShiftClock,
    StartNode,
    StopReading,
    ToApplication,
    Unacknowledged,
    Up,
    Value,
)
from smartpubsub.testbed.notebook import Notebook
from smartpubsub.testbed.soak.wall_clock import WallClock
from smartpubsub.workloads.actions import Action, Publish

SUBSCRIBE_AGAIN_S = 1.0
_NOTED = (Subscribed, Unsubscribed, Published, Refused, GroupOpened, TopicStored)


class _NotedCore(NodeCore):
    """Notes the calls of the application, before any of their effects."""

    def __init__(
        self,
        kademlia: Kademlia,
        pubsub: PubSub,
        signing: Signing,
        residents: Sequence[Resident],
        note: Callable[[Call], None],
    ) -> None:
        super().__init__(kademlia, pubsub, signing, residents)
        self._note = note

    def subscribe(self, predicate: Predicate, now: int) -> tuple[int, list[Effect]]:
        number, effects = super().subscribe(predicate, now)
        self._note(Call("subscribe", number, predicate))
        return number, effects

    def unsubscribe(self, number: int, now: int) -> list[Effect]:
        self._note(Call("unsubscribe", number, self.subscriptions[number].predicate))
        return super().unsubscribe(number, now)

    def new_event(
        self, predicate: Predicate, payload: bytes, now: int, *, is_signed: bool = True
    ) -> Publication:
        event = super().new_event(predicate, payload, now, is_signed=is_signed)
        self._note(Call("publish", event.id, predicate, len(payload)))
        return event

    def new_events(
        self, contents: Iterable[tuple[Predicate, bytes]], now: int
    ) -> list[Publication]:
        events = super().new_events(contents, now)
        for event in events:
            self._note(Call("publish", event.id, event.predicate, len(event.payload)))
        return events


class _ObservedNode(Node):
    """A node that reports its calls and the deliveries of its protocol."""

    def __init__(
        self,
        note: Callable[[Call], None],
        on_start: Callable[[Contact], None],
        on_deliver: Callable[[object], None],
        config: NodeConfig,
    ) -> None:
        self._note_call = note
        self._on_start = on_start
        super().__init__(config=config)
        for kind in (*_NOTED, Delivery):
            self._engine.on_deliver[kind].append(on_deliver)

    def _made_engine(self) -> Engine:
        return Engine(self.config, self._composed)

    def _composed(
        self, kademlia: Kademlia, pubsub: PubSub, signing: Signing, residents: Sequence[Resident]
    ) -> NodeCore:
        self._on_start(kademlia.own)
        return _NotedCore(kademlia, pubsub, signing, residents, self._note_call)

    def has(self, number: int) -> bool:
        """Whether a subscription has not ended."""
        return number in self._engine.core.subscriptions

    def is_on_disk(self, number: int) -> bool:
        """Whether the events of a subscription wait on disk."""
        return self._engine.queues.get(number) is not None

    async def create(self, action: Action) -> None:
        """Create a group or a topic."""
        engine = self._engine

        def create(now: int) -> list[Effect]:
            asked, effects = call(engine.core, engine.spec, action, now)
            if asked is not None:
                self._note_call(asked)
            return effects

        await engine.host.do(create)

    def inspection(self) -> Inspection:
        """The result of inspecting the protocol."""
        return self._engine.core.pubsub.inspect()


class WholeNode:
    """The node of this process, and its application."""

    def __init__(self, setup: Setup, command: StartNode, notebook: Notebook) -> None:
        self.number = command.node
        self.has_left = False
        """Whether the node has closed after the command to leave."""
        self._setup = setup
        self._command = command
        self._notebook = notebook
        self._clock = WallClock()
        self._clock.ahead_us = command.clock_us
        self._node: _ObservedNode | None = None
        self._readers: dict[Predicate, trio.CancelScope] = {}
        self._reads_at = 0.0
        """When the application reads kept events again."""
        self._leaves = trio.Event()
        self._contained = Failures({}, 0, 0)
        """The failures of the core that were reported last."""
        self._nursery: trio.Nursery
        logging.basicConfig(handlers=[logging.NullHandler()])

    async def run(self) -> None:
        """Run until the command to leave."""
        options, command = self._setup.options, self._command
        folder = self._setup.folder_of(self.number)
        keep_identity(folder, identity_of(options.seed, self.number))
        limits: Any = options.protocol_options.limits
        config = NodeConfig(
            **limits,
            data=folder,
            listen=(f"/ip4/127.0.0.1/tcp/{command.port}",),
            bootstrap=command.bootstrap,
            protocol=options.protocol,
            variant=options.protocol_options.variant,
            backups=options.protocol_options.backups,
            loopback_is_exempt=True,
        )
        node = _ObservedNode(
            self._note,
            lambda own: self._note(Up(command.start, own)),
            self._on_deliver,
            config,
        )
        async with node:
            self._node = node
            self._note(Ready())
            async with trio.open_nursery() as self._nursery:
                await self._leaves.wait()
                self._nursery.cancel_scope.cancel()
        self.has_left = True

    def _note(self, value: Value) -> None:
        """Note something and report it at once, since the process may be killed at any moment."""
        self._notebook.add(self.number, value)
        self._notebook.report()

    def _on_deliver(self, item: object) -> None:
        if isinstance(item, _NOTED):
            self._note(Delivered(self._command.start, item))
        elif isinstance(item, Delivery):
            assert self._node is not None
            # In one turn the host may get an event and a call that ends the subscription. It
            # delivers the event after the call, and the node drops it.
            present = filter(self._node.has, item.subscriptions)
            in_memory = [n for n in present if not self._node.is_on_disk(n)]
            self._note_delivery(item, in_memory)

    def _note_delivery(self, delivery: Delivery, subscriptions: Sequence[int]) -> None:
        if subscriptions:
            event = delivery.event._replace(payload=b"")  # The observer does not compare payloads.
            noted = Delivery(event, tuple(subscriptions), delivery.hops)
            self._note(Delivered(self._command.start, noted))

    # --- commands ---

    def do(self, command: Join | Act | ToApplication) -> None:
        """Execute a command; the coordinator sends none before the node is ready."""
        match command:
            case Act(action=Publish() as action):
                self._nursery.start_soon(self._publish, action)
            case Act():
                self._nursery.start_soon(self._create, command)
            case Read():
                self._nursery.start_soon(self._read, command)
            case StopReading(predicate=predicate):
                if predicate in self._readers:
                    self._readers.pop(predicate).cancel()
            case PauseReading(seconds=seconds):
                self._reads_at = trio.current_time() + seconds
            case ShiftClock(clock_us=clock_us):
                self._clock.ahead_us = clock_us
            case Leave():
                self._leaves.set()

    async def _publish(self, action: Publish) -> None:
        assert self._node is not None
        began = time.monotonic()
        try:
            await self._node.publish(action.predicate, action.payload)
        except NodeClosedError:
            pass  # The node leaves.
        except SmartPubSubError as error:
            self._note(Unacknowledged(f"{type(error).__name__}: {error}"))
        else:
            self._note(Acknowledged((time.monotonic() - began) * 1_000))

    async def _create(self, command: Act) -> None:
        assert self._node is not None
        await self._node.create(command.action)
        self._note(Done(command.number))

    async def _read(self, command: Read) -> None:
        """Subscribe and read until `StopReading`; try again after an error."""
        assert self._node is not None
        with trio.CancelScope() as self._readers[command.predicate]:
            while True:
                try:
                    await self._read_all(self._node, command)
                    return
                except NodeClosedError:
                    return
                except SmartPubSubError as error:
                    self._note(Unacknowledged(f"{type(error).__name__}: {error}"))
                await trio.sleep(SUBSCRIBE_AGAIN_S)

    async def _read_all(self, node: _ObservedNode, command: Read) -> None:
        async with node.subscribe(command.predicate, keep=command.keep) as events:
            async for event in events:
                if command.keep:
                    assert events.number is not None
                    self._note_delivery(event.delivery, [events.number])
                    await trio.sleep_until(self._reads_at)

    # --- inspection ---

    def inspect(self) -> None:
        """Note the result of inspecting the node."""
        if self._node is not None and not self._leaves.is_set():
            self._notebook.add(self.number, Seen(self._node.inspection()))

    def note_drops(self) -> None:
        """Note the failures of the core since the last call."""
        if self._node is None or self._leaves.is_set():
            return
        before, self._contained = self._contained, self._node.failures()
        new = Counter(self._contained.dropped) - Counter(before.dropped)
        restarts = self._contained.restarts - before.restarts
        if new or restarts:
            self._note(Contained(dict(new), restarts))
