"""Worlds of Kademlia nodes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

from smartpubsub.errors import SmartPubSubError
from smartpubsub.kademlia.core import Kademlia
from smartpubsub.kademlia.keys import Contact, key_of
from smartpubsub.kademlia.messages import Message, wire_bytes
from smartpubsub.kademlia.queries import Found, Got, Joined, Provided, Providers, Put
from smartpubsub.kademlia.settings import MINUTE, Settings
from smartpubsub.seam import Effect
from smartpubsub.sim.network import NetworkOptions
from smartpubsub.sim.streams import stream
from smartpubsub.sim.trace import Trace
from smartpubsub.sim.world import Host, World

# An Ed25519 key as libp2p writes it into a peer id: a multihash that is the key itself.
_PEER_ID_HEAD = bytes.fromhex("002408011220")

JOIN_US_MAX = 10 * MINUTE
QUERY_US_MAX = 10 * MINUTE

Progress = Callable[[str], None]
Command = Callable[..., tuple[int, list[Effect]]]


def quietly(_: str) -> None:
    """Progress that nobody wants to see."""


def peer_id(seed: int, number: int) -> bytes:
    """The peer id of a simulated node, of the form and length of a real one."""
    return _PEER_ID_HEAD + hashlib.sha256(b"peer/%d/%d" % (seed, number)).digest()


def address(number: int) -> bytes:
    """The multiaddress of a simulated node: /ip4/10.x.x.x/tcp/4001."""
    return b"\x04" + (0x0A000000 + number).to_bytes(4, "big") + b"\x06\x0f\xa1"


class Overlay:
    """A world in which every node is a Kademlia core and nothing else."""

    def __init__(
        self,
        nodes: int,
        seed: int,
        *,
        settings: Settings | None = None,
        network: NetworkOptions | None = None,
        trace: Trace | None = None,
    ) -> None:
        self.seed = seed
        self.settings = settings or Settings()
        self.results: dict[tuple[int, int], Found | Put | Got | Provided | Providers] = {}
        """What nodes were told, by node and number, until somebody takes it."""
        self.joined: dict[int, None] = {}
        self.world = World(
            network or NetworkOptions(),
            seed,
            {Message: wire_bytes},
            trace=trace,
            on_deliver=self._on_deliver,
        )
        for number in range(nodes):
            self._add(number)

    def _add(self, number: int) -> None:
        contact = self.contact(number)

        def make_core(incarnation: int) -> Kademlia:
            rng = stream(self.seed, "kademlia", number, incarnation)
            return Kademlia(contact, self.settings, rng)

        self.world.add(contact.peer, make_core, contact.addresses)

    def contact(self, number: int) -> Contact:
        """How others know a node."""
        return Contact.of(peer_id(self.seed, number), (address(number),))

    def core(self, number: int) -> Kademlia:
        """A node's core."""
        core = self.world.hosts[number].core
        assert isinstance(core, Kademlia)
        return core

    def join_all(self, progress: Progress = quietly) -> None:
        """Have all nodes join, each by way of one that has, several at a time."""
        rng = stream(self.seed, "bootstrap")
        count = len(self.world.hosts)
        wave_end = 1
        self.joined[0] = None
        while wave_end < count:
            # Each wave doubles the network: nobody joins through somebody who is not in it.
            wave = range(wave_end, min(count, 2 * wave_end))
            for number in wave:
                bootstrap = [self.contact(rng.randrange(wave_end))]
                host = self.world.hosts[number]
                effects = self.core(number).join(bootstrap, host.clock(self.world.now))
                self.world.carry_out(host, effects)
            wave_end = wave[-1] + 1
            self._run_until_joined(wave_end)
            progress(f"{len(self.joined):,} of {count:,} nodes have joined")

    def _run_until_joined(self, count: int) -> None:
        deadline = self.world.now + JOIN_US_MAX
        if not self.world.run_while(lambda: len(self.joined) < count, deadline):
            raise SmartPubSubError(
                f"only {len(self.joined)} of {count} nodes have joined after"
                f" {JOIN_US_MAX // MINUTE} minutes; is the network too bad?"
            )

    def closest_live(self, name: bytes) -> Host:
        """Who really lies closest to a name, of those that are up."""
        key = key_of(name)
        live = (host for host in self.world.hosts if host.is_up)
        return min(live, key=lambda host: key_of(host.peer) ^ key)

    def ask(self, number: int, command: Command, *arguments: bytes) -> tuple[int, int]:
        """Have a node start a query; what it is told will be in `results` under what this gives."""
        host = self.world.hosts[number]
        query, effects = command(self.core(number), *arguments, now=host.clock(self.world.now))
        self.world.carry_out(host, effects)
        return number, query

    def settle(self, pending: Sequence[tuple[int, int]]) -> None:
        """Go on until these queries have been answered."""
        open_queries = dict.fromkeys(pending)

        def any_is_open() -> bool:
            while open_queries:
                if next(iter(open_queries)) not in self.results:
                    return True
                del open_queries[next(iter(open_queries))]
            return False

        self.world.run_while(any_is_open, self.world.now + QUERY_US_MAX)

    def _on_deliver(self, host: Host, item: object) -> None:
        if isinstance(item, Joined):
            self.joined[host.number] = None
        elif isinstance(item, Found | Put | Got | Provided | Providers):
            self.results[host.number, item.number] = item
