"""Worlds of nodes that run Kademlia only."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from smartpubsub.kademlia.core import Kademlia
from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.messages import Message, wire_bytes
from smartpubsub.kademlia.queries import Found, Got, Joined, Provided, Providers, Put
from smartpubsub.kademlia.settings import MINUTE, Settings
from smartpubsub.seam import Effect
from smartpubsub.sim.kernel.network import NetworkOptions
from smartpubsub.sim.kernel.population import Population
from smartpubsub.sim.kernel.streams import stream
from smartpubsub.sim.kernel.world import Host, World
from smartpubsub.sim.traces.trace import Trace

QUERY_US_MAX = 10 * MINUTE

Command = Callable[..., tuple[int, list[Effect]]]


class Overlay(Population):
    """Kademlia nodes, and the results of their queries."""

    def __init__(
        self,
        nodes: int,
        seed: int,
        *,
        settings: Settings | None = None,
        network: NetworkOptions | None = None,
        trace: Trace | None = None,
    ) -> None:
        self.settings = settings or Settings()
        self.results: dict[tuple[int, int], Found | Put | Got | Provided | Providers] = {}
        """Results of queries by node and number, until the caller takes them."""
        world = World(
            network or NetworkOptions(),
            seed,
            {Message: wire_bytes},
            trace=trace,
            on_deliver=self._on_deliver,
        )
        super().__init__(world, seed)
        for _ in range(nodes):
            self.add(self._make_core)

    def _make_core(self, own: Contact, incarnation: int) -> Kademlia:
        rng = stream(self.seed, "kademlia", own.peer.hex(), incarnation)
        return Kademlia(own, self.settings, rng)

    def core(self, number: int) -> Kademlia:
        """A node's core."""
        core = self.world.hosts[number].core
        assert isinstance(core, Kademlia)
        return core

    def ask(self, number: int, command: Command, *arguments: bytes) -> tuple[int, int]:
        """Have a node start a query; its result will be in `results` under the returned key."""
        host = self.world.hosts[number]
        query, effects = command(self.core(number), *arguments, now=host.clock(self.world.now))
        self.world.carry_out(host, effects)
        return number, query

    def settle(self, pending: Sequence[tuple[int, int]]) -> None:
        """Run until these queries have been answered."""
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
