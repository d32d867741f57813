"""The competitors of the simulator: SimPy, and a bare heap."""

from __future__ import annotations

from collections.abc import Callable, Generator
from heapq import heapify, heappop, heappush
from random import Random

import simpy

from smartpubsub.sim.kernel.network import Network, NetworkOptions


class SimpyRelay:
    """Messages that circulate in a ring of nodes: a store per node, a process per message."""

    def __init__(self, nodes: int, options: NetworkOptions) -> None:
        self.relayed = 0
        self._environment = simpy.Environment()
        self._stores = [simpy.Store(self._environment) for _ in range(nodes)]
        self._links = Network(options, seed=0)
        for number in range(nodes):
            self._links.add_node()
            self._environment.process(self._relay(number))

    def send(self, sender: int, size: int) -> None:
        """Have a node send a message to the next."""
        self._environment.process(self._travel(sender, size))

    def run_for(self, duration: int) -> None:
        """Continue for some microseconds."""
        self._environment.run(self._environment.now + duration)

    def _relay(self, number: int) -> Generator[simpy.Event, int, None]:
        while True:
            size = yield self._stores[number].get()
            self.relayed += 1
            self.send(number, size)

    def _travel(self, sender: int, size: int) -> Generator[simpy.Event, int, None]:
        now = int(self._environment.now)
        receiver = (sender + 1) % len(self._stores)
        (arrival,) = self._links.arrivals(now, sender, receiver, size)
        yield self._environment.timeout(arrival - now)
        self._stores[receiver].put(size)


def bare_heap(pending: int, seed: int) -> Callable[[int], None]:
    """A heap with a number of pending entries, and a function that takes and adds entries."""
    rng = Random(seed)
    heap = [(rng.randrange(20_000), number, None, 0, None) for number in range(pending)]
    heapify(heap)
    delays = [rng.randrange(10_000, 30_000) for _ in range(1_000)]

    def work(rounds: int) -> None:
        sequence = pending
        for _ in range(rounds):
            for delay in delays:
                at, _, host, incarnation, event = heappop(heap)
                sequence += 1
                heappush(heap, (at + delay, sequence, host, incarnation, event))

    return work
