"""A small world whose nodes run a protocol, broken or not, and the journal of its run."""

from collections.abc import Callable
from typing import TypeAlias

from smartpubsub.kademlia.core import Kademlia
from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.messages import Message
from smartpubsub.kademlia.messages import wire_bytes as kademlia_bytes
from smartpubsub.kademlia.queries import Joined
from smartpubsub.kademlia.settings import MINUTE, Settings
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.baselines.floodsub import Floodsub, FloodsubSettings
from smartpubsub.protocols.baselines.messages import Rpc
from smartpubsub.protocols.baselines.messages import wire_bytes as rpc_bytes
from smartpubsub.protocols.node import NodeCore
from smartpubsub.protocols.publication import EventId
from smartpubsub.protocols.pubsub import (
    Delivery,
    Inspection,
    Published,
    Refused,
    Subscribed,
    Unsubscribed,
)
from smartpubsub.sim.judging.checkers import Facts, check_all
from smartpubsub.sim.judging.journal import (
    Disturbance,
    EventRecord,
    Journal,
    Split,
    SubscriptionRecord,
)
from smartpubsub.sim.judging.oracle import Oracle
from smartpubsub.sim.kernel.faults import Partition, Pause
from smartpubsub.sim.kernel.network import NetworkOptions
from smartpubsub.sim.kernel.population import Population
from smartpubsub.sim.kernel.signing import StandInSigning
from smartpubsub.sim.kernel.streams import stream
from smartpubsub.sim.kernel.world import Host, Sizes, World
from smartpubsub.sim.traces.trace import Trace

Protocol: TypeAlias = type[Floodsub]


class SmallWorld:
    def __init__(
        self, protocol: Protocol, settings: FloodsubSettings | None = None, nodes: int = 6
    ) -> None:
        self.trace = Trace()
        self.journal = Journal()
        self.oracle = Oracle()
        self.inspections: list[tuple[int, int, Inspection]] = []
        sizes: Sizes = {Message: kademlia_bytes, Rpc: rpc_bytes}
        self.world = World(
            NetworkOptions(), 1, sizes, trace=self.trace, on_deliver=self._on_deliver
        )
        self.world.on_fault = self._on_fault
        self._population = Population(self.world, 1)

        def make_core(own: Contact, incarnation: int) -> NodeCore:
            rng = stream(1, "kademlia", own.peer.hex(), incarnation)
            kademlia = Kademlia(own, Settings(), rng)
            signing = StandInSigning(own.peer)
            pubsub = protocol(settings or FloodsubSettings(), kademlia, signing)
            return NodeCore(kademlia, pubsub, signing)

        for _ in range(nodes):
            self._population.add(make_core)
        self._population.join_all()
        self.run(2 * MINUTE)

    def subscribe(self, node: int, predicate: str) -> int:
        wanted = Predicate.parse(predicate)
        number, effects = self._core(node).subscribe(wanted, self.world.now)
        record = SubscriptionRecord(node, number, wanted, self.world.now)
        self.journal.subscriptions[node, number] = record
        self.oracle.add(record)
        self.world.carry_out(self.world.hosts[node], effects)
        return number

    def unsubscribe(self, node: int, number: int) -> None:
        self.journal.unsubscribe(node, number, self.world.now)
        effects = self._core(node).unsubscribe(number, self.world.now)
        self.world.carry_out(self.world.hosts[node], effects)

    def publish(self, node: int, predicate: str) -> EventId:
        event = Predicate.parse(predicate)
        id, effects = self._core(node).publish(event, b"", self.world.now)
        self.journal.events[id] = EventRecord(id, node, event, self.world.now)
        self.world.carry_out(self.world.hosts[node], effects)
        return id

    def crash(self, node: int) -> None:
        self.world.crash(self.world.hosts[node])

    def restart(self, node: int) -> None:
        self.world.restart(self.world.hosts[node])

    def split(self, *group: int, us: int) -> None:
        start, end = self.world.now, self.world.now + us
        Partition(group=group, at_us=start, until_us=end).plan(self.world)
        self.journal.splits.append(Split(frozenset(group), start, end))

    def pause(self, node: int, us: int) -> None:
        start, end = self.world.now, self.world.now + us
        Pause(node=node, at_us=start, until_us=end).plan(self.world)
        self.journal.disturbances.append(Disturbance("pause", (node,), start, end))

    def run(self, us: int) -> None:
        self.world.run(self.world.now + us)

    def inspect(self) -> None:
        for host in self.world.hosts:
            if host.is_up:
                inspection = self._core(host.number).pubsub.inspect()
                self.inspections.append((self.world.now, host.number, inspection))

    def facts(
        self,
        *,
        is_reliable: bool = True,
        refresh_us: int = 2 * MINUTE,
    ) -> Facts:
        self.journal.ended_us = self.world.now
        return Facts(
            journal=self.journal,
            oracle=self.oracle,
            is_reliable=is_reliable,
            promises_order=True,
            refresh_us=refresh_us,
            inspections=self.inspections,
            nodes_by_peer={host.peer: host.number for host in self.world.hosts},
        )

    def _core(self, node: int) -> NodeCore:
        core = self.world.hosts[node].core
        assert isinstance(core, NodeCore)
        return core

    def _on_deliver(self, host: Host, item: object) -> None:
        now, node = self.world.now, host.number
        match item:
            case Joined():
                self._population.joined[node] = None
            case Delivery():
                self.journal.delivered(node, host.incarnation, item, now)
            case Subscribed(subscription):
                self.journal.subscribed(node, subscription.number, now)
            case Unsubscribed(subscription):
                self.journal.unsubscribed(node, subscription.number, now)
            case Published(id):
                self.journal.events[id].acknowledged_us = now
            case Refused(id, reason):
                self.journal.events[id].refused = reason

    def _on_fault(self, kind: str, node: int) -> None:
        match kind:
            case "crash":
                self.journal.stopped(node, self.world.now)
            case "restart":
                self.journal.restarted(node, self.world.now)


Scene: TypeAlias = Callable[[Protocol], Facts]
"""Something that happens in a world of nodes with a protocol."""


def broken_in(scene: Scene, protocol: Protocol) -> list[int]:
    """The invariants that do not hold when something happens to nodes with a protocol."""
    return sorted({violation.invariant for violation in check_all(scene(protocol)).violations})
