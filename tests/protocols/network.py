"""A simulated network of nodes with a protocol on Kademlia."""

from collections import Counter
from collections.abc import Callable, Sequence
from random import Random

from smartpubsub.kademlia import messages
from smartpubsub.kademlia.core import Kademlia
from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.messages import Message
from smartpubsub.kademlia.queries import Joined
from smartpubsub.kademlia.settings import MINUTE, SECOND, Settings
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.baselines import messages as rpc
from smartpubsub.protocols.baselines.floodsub import Floodsub, FloodsubSettings
from smartpubsub.protocols.baselines.gossip_settings import GossipSettings
from smartpubsub.protocols.baselines.gossipsub import GossipSub
from smartpubsub.protocols.baselines.messages import Rpc
from smartpubsub.protocols.node import NodeCore
from smartpubsub.protocols.publication import EventId, Signing
from smartpubsub.protocols.pubsub import Delivery, PubSub
from smartpubsub.seam import Effect, Send
from smartpubsub.sim.kernel.network import DROP, NetworkOptions
from smartpubsub.sim.kernel.signing import StandInSigning
from smartpubsub.sim.kernel.streams import stream
from smartpubsub.sim.kernel.world import Host, World
from smartpubsub.sim.traces.trace import Trace

MakePubSub = Callable[[int, Kademlia, Signing, Random], PubSub]


def flooding(settings: FloodsubSettings | None = None) -> MakePubSub:
    return lambda _, kademlia, signing, __: Floodsub(
        settings or FloodsubSettings(), kademlia, signing
    )


def gossiping(settings: GossipSettings | None = None) -> MakePubSub:
    return lambda _, kademlia, signing, rng: GossipSub(
        settings or GossipSettings(), kademlia, signing, rng
    )


def contact(number: int) -> Contact:
    return Contact.of(b"\x00\x24\x08\x01\x12\x20" + b"%032d" % number, (b"address %d" % number,))


class Nodes:
    """Nodes of a world, the events that they are handed, and what of their messages is counted."""

    def __init__(
        self,
        count: int,
        make_pubsub: MakePubSub,
        *,
        seed: int = 1,
        k: int = 20,
        options: NetworkOptions | None = None,
        trace: Trace | None = None,
    ) -> None:
        self.seed = seed
        self.deliveries: list[tuple[int, Delivery]] = []
        self.received: Counter[str] = Counter()
        self.joined: dict[int, None] = {}
        self._kademlia = Settings(k=k)
        self._make_pubsub = make_pubsub
        self.world = World(
            options or NetworkOptions(),
            seed,
            {Message: messages.wire_bytes, Rpc: rpc.wire_bytes},
            trace=trace,
            on_deliver=self._on_deliver,
            on_receive=self._on_receive,
        )
        for number in range(count):
            own = contact(number)
            self.world.add(own.peer, self._maker(number, own), own.addresses)

    def _maker(self, number: int, own: Contact) -> Callable[[int], NodeCore]:
        def make(incarnation: int) -> NodeCore:
            rng = stream(self.seed, "kademlia", number, incarnation)
            kademlia = Kademlia(own, self._kademlia, rng)
            signing = StandInSigning(own.peer)
            rng = stream(self.seed, "pubsub", number, incarnation)
            return NodeCore(kademlia, self._make_pubsub(number, kademlia, signing, rng), signing)

        return make

    # --- time ---

    def run(self, duration: int) -> None:
        self.world.run(self.world.now + duration)

    def join_all(self) -> None:
        """Have all nodes join, each wave by way of those before it, and find their peers."""
        rng = stream(self.seed, "bootstrap")
        self.joined[0] = None
        while len(self.joined) < len(self.world.hosts):
            there = len(self.joined)
            for number in range(there, min(2 * there, len(self.world.hosts))):
                self.join(number, [contact(rng.randrange(there))])
            expected = min(2 * there, len(self.world.hosts))
            until = self.world.now + 10 * MINUTE
            assert self.world.run_while(lambda: len(self.joined) < expected, until)  # noqa: B023
        self.run(2 * MINUTE)

    # --- nodes ---

    @property
    def numbers(self) -> range:
        return range(len(self.world.hosts))

    def host(self, number: int) -> Host:
        return self.world.hosts[number]

    def core(self, number: int) -> NodeCore:
        core = self.host(number).core
        assert isinstance(core, NodeCore)
        return core

    def do(self, number: int, effects: Sequence[Effect]) -> None:
        self.world.carry_out(self.host(number), effects)

    def send(self, sender: int, receiver: int, message: Rpc) -> None:
        self.do(sender, [Send(contact(receiver).peer, message)])

    def clock(self, number: int) -> int:
        return self.host(number).clock(self.world.now)

    def join(self, number: int, bootstrap: Sequence[Contact]) -> None:
        self.do(number, self.core(number).join(bootstrap, self.clock(number)))

    def subscribe(self, number: int, text: str) -> int:
        subscription, effects = self.core(number).subscribe(
            Predicate.parse(text), self.clock(number)
        )
        self.do(number, effects)
        return subscription

    def publish(self, number: int, text: str, payload: bytes = b"") -> EventId:
        id, effects = self.core(number).publish(Predicate.parse(text), payload, self.clock(number))
        self.do(number, effects)
        return id

    def lose(self, share: float) -> None:
        """From now on lose a share of all messages."""
        rng = stream(self.seed, "loss")
        self.world.network.rules.append(lambda *_: DROP if rng.random() < share else None)

    # --- what came of it ---

    def receivers(self, id: EventId) -> list[int]:
        return sorted(number for number, delivery in self.deliveries if delivery.event.id == id)

    def delivered_share(self, ids: Sequence[EventId]) -> float:
        """How many of the deliveries there are that there would be if everybody got everything."""
        wanted = frozenset(ids)
        there = {(n, d.event.id) for n, d in self.deliveries if d.event.id in wanted}
        return len(there) / (len(ids) * len(self.world.hosts))

    def _on_deliver(self, host: Host, item: object) -> None:
        if isinstance(item, Joined):
            self.joined[host.number] = None
        elif isinstance(item, Delivery):
            self.deliveries.append((host.number, item))

    def _on_receive(self, _: Host, _peer: bytes, message: object) -> None:
        if isinstance(message, Rpc):
            self.received.update(parts_of(message))


def parts_of(message: Rpc) -> list[str]:
    control = message.control
    parts = ["event"] * len(message.publish)
    if message.subscribe is not None:
        parts.append("greeting")
    if control is not None:
        said = {
            "ihave": control.ihave,
            "iwant": control.iwant,
            "graft": control.graft,
            "prune": control.prune_s is not None,
        }
        parts += [name for name, is_said in said.items() if is_said]
    return parts


def publish_in_turn(nodes: Nodes, count: int, every: int = SECOND) -> list[EventId]:
    """Publish events, each by another node, and let the last of them arrive."""
    rng = stream(nodes.seed, "publishers")
    ids = []
    for _ in range(count):
        ids.append(nodes.publish(rng.choice(nodes.numbers), "surf"))
        nodes.run(every)
    nodes.run(10 * SECOND)
    return ids
