"""A small simulated world of nodes that run Pulsarcast, with accessors to their state."""

from collections import Counter
from collections.abc import Iterable, Mapping

from smartpubsub.kademlia.core import Kademlia
from smartpubsub.kademlia.keys import Contact, key_of
from smartpubsub.kademlia.messages import Message
from smartpubsub.kademlia.messages import wire_bytes as kademlia_bytes
from smartpubsub.kademlia.queries import Joined
from smartpubsub.kademlia.settings import SECOND, Settings
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.blocks import Cid, cid_text
from smartpubsub.protocols.node import NodeCore
from smartpubsub.protocols.publication import EventId
from smartpubsub.protocols.pubsub import Delivery, Published, Refused, Subscribed
from smartpubsub.protocols.pulsarcast.log import Log
from smartpubsub.protocols.pulsarcast.messages import Parcel, wire_bytes
from smartpubsub.protocols.pulsarcast.protocol import Pulsarcast
from smartpubsub.protocols.pulsarcast.replicas import TopicReplica
from smartpubsub.protocols.pulsarcast.settings import PulsarSettings
from smartpubsub.protocols.pulsarcast.topics import Rules, Topic
from smartpubsub.sim.kernel.network import NetworkOptions
from smartpubsub.sim.kernel.population import Population
from smartpubsub.sim.kernel.signing import StandInSigning
from smartpubsub.sim.kernel.streams import stream
from smartpubsub.sim.kernel.world import Host, Sizes, World


class Village:
    """Nodes under numbers, in one overlay."""

    def __init__(
        self,
        count: int,
        settings: PulsarSettings | None = None,
        *,
        network: NetworkOptions | None = None,
        seed: int = 1,
    ) -> None:
        self.settings = settings or PulsarSettings()
        self.seed = seed
        self.told: list[tuple[int, object]] = []
        self.received: Counter[tuple[int, str]] = Counter()
        """How many messages of each kind a node has received."""
        sizes: Sizes = {Message: kademlia_bytes, Parcel: wire_bytes}
        self.world = World(
            network or NetworkOptions(),
            seed,
            sizes,
            on_deliver=self._on_deliver,
            on_receive=self._on_receive,
        )
        self.crowd = Population(self.world, seed)
        for _ in range(count):
            self.crowd.add(self._make)
        self.crowd.join_all()
        self.run(2)

    def _make(self, own: Contact, incarnation: int) -> NodeCore:
        rng = stream(self.seed, "village", own.peer.hex(), incarnation)
        kademlia = Kademlia(own, Settings(), rng)
        signing = StandInSigning(own.peer)
        return NodeCore(kademlia, Pulsarcast(self.settings, kademlia, signing, rng), signing)

    def _on_deliver(self, host: Host, item: object) -> None:
        if isinstance(item, Joined):
            self.crowd.joined[host.number] = None
        else:
            self.told.append((host.number, item))

    def _on_receive(self, host: Host, _: bytes, message: object) -> None:
        if isinstance(message, Parcel):
            for part in message.parts:
                self.received[host.number, type(part).__name__] += 1

    # --- actions ---

    def run(self, seconds: float) -> None:
        self.world.run(self.world.now + round(seconds * SECOND))

    def host(self, node: int) -> Host:
        return self.world.hosts[node]

    def node(self, node: int) -> NodeCore:
        core = self.host(node).core
        assert isinstance(core, NodeCore)
        return core

    def core(self, node: int) -> Pulsarcast:
        pubsub = self.node(node).pubsub
        assert isinstance(pubsub, Pulsarcast)
        return pubsub

    def create(
        self,
        node: int,
        name: str = "news",
        rules: Rules | None = None,
        subtopics: Mapping[str, Cid] | None = None,
    ) -> Topic:
        topic, effects = self.core(node).create(
            name, self.world.now, rules=rules, subtopics=subtopics
        )
        self.world.carry_out(self.host(node), effects)
        self.run(1)
        return topic

    def subscribe(self, node: int, topic: Topic) -> int:
        predicate = Predicate.of({cid_text(topic.cid): True})
        number, effects = self.node(node).subscribe(predicate, self.world.now)
        self.world.carry_out(self.host(node), effects)
        return number

    def subscribe_all(self, nodes: Iterable[int], topic: Topic) -> None:
        for node in nodes:
            self.subscribe(node, topic)
        self.run(3)

    def publish(self, node: int, topic: Topic, payload: bytes = b"") -> EventId:
        predicate = Predicate.of({cid_text(topic.cid): True})
        id, effects = self.node(node).publish(predicate, payload, self.world.now)
        self.world.carry_out(self.host(node), effects)
        return id

    def crash(self, *nodes: int) -> None:
        for node in nodes:
            self.world.crash(self.host(node))

    def restart(self, *nodes: int) -> None:
        for node in nodes:
            self.world.restart(self.host(node))

    # --- state ---

    def replica(self, node: int, topic: Topic) -> TopicReplica:
        return self.core(node).replicas.by_id[topic.stable_id]

    def log(self, node: int, topic: Topic) -> Log:
        return self.replica(node, topic).log

    def children(self, node: int, topic: Topic) -> list[bytes]:
        return self.core(node).membership.children(self.replica(node, topic))

    def keepers(self, node: int, topic: Topic) -> list[int]:
        """The keepers that a node knows, the closest first."""
        peers = self.core(node).keepers.peers(self.replica(node, topic))
        return [self.number_of(peer) for peer in peers]

    def is_keeper(self, node: int, topic: Topic) -> bool:
        return self.core(node).keepers.is_keeper(topic.stable_id)

    def number_of(self, peer: bytes) -> int:
        return next(host.number for host in self.world.hosts if host.peer == peer)

    def payloads(self, node: int) -> list[bytes]:
        """The payloads that were delivered to a node's application, in order."""
        return [
            item.event.payload
            for number, item in self.told
            if number == node and isinstance(item, Delivery)
        ]

    def published(self) -> set[EventId]:
        return {item.id for _, item in self.told if isinstance(item, Published)}

    def refusals(self) -> dict[EventId, str]:
        return {item.id: item.reason for _, item in self.told if isinstance(item, Refused)}

    def subscribed(self) -> set[int]:
        return {number for number, item in self.told if isinstance(item, Subscribed)}

    def members(self, topic: Topic) -> list[int]:
        return [
            host.number
            for host in self.world.hosts
            if host.is_up and topic.stable_id in self.core(host.number).replicas.by_id
        ]

    def parents(self, topic: Topic) -> dict[int, int | None]:
        """The parent of each node; None for the root."""
        found: dict[int, int | None] = {}
        for node in self.members(topic):
            membership, replica = self.core(node).membership, self.replica(node, topic)
            assert membership.is_attached(replica), node
            parent = membership.parent(replica)
            found[node] = None if parent is None else self.number_of(parent)
        return found

    def depth(self, topic: Topic) -> int:
        parents = self.parents(topic)
        return max(len(list(_up(parents, node))) for node in parents)

    def distance(self, node: int, topic: Topic) -> int:
        return key_of(self.host(node).peer) ^ key_of(topic.author)

    def refused(self) -> Counter[str]:
        return sum(
            (Counter(self.core(h.number).tally().refused) for h in self.world.hosts if h.is_up),
            Counter(),
        )


def _up(parents: Mapping[int, int | None], node: int) -> Iterable[int]:
    above = parents[node]
    while above is not None:
        yield above
        above = parents[above]
