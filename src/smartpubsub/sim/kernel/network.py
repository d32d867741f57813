"""The delay and the loss of messages.

A node's outgoing link sends one message after the other at a fixed rate; then each travels for the
latency of the link and some jitter. Messages from one node to another keep their order, as they do
on a connection, unless `reordering` is set. Before that, the network applies its rules to every
message in turn, and the first verdict counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from smartpubsub.sim.kernel.streams import stream


@dataclass(frozen=True, kw_only=True)
class NetworkOptions:
    """The network between all nodes; times are in microseconds."""

    latency_us: int = 10_000
    jitter_us: int = 0
    """The most that is added to the latency, distributed uniformly."""
    loss: float = 0.0
    """The share of messages that never arrive."""
    duplication: float = 0.0
    """The share of messages that arrive twice."""
    reordering: bool = False
    """Whether jitter may let messages overtake each other."""
    bandwidth_bytes_per_s: int = 1 << 20
    """The rate of each node's outgoing link."""
    overhead_bytes: int = 12
    """Bytes that framing adds to every message."""
    refuses_after_crash: bool = False
    """Whether the machine of a crashed node refuses connections, as when only the process has
    ended; otherwise it is silent, as when it is switched off."""
    regions: int = 0
    """The number of regions that nodes are spread over; 0 for none."""
    near_us: int = 5_000
    far_us: int = 80_000
    """With regions: the latency inside a region and between regions."""

    def latency_between_us(self, region: int, other: int) -> int:
        """The latency between nodes in two regions, without jitter."""
        if not self.regions:
            return self.latency_us
        return self.near_us if region == other else self.far_us


DROP = -1
"""The verdict that a message does not arrive."""

Rule: TypeAlias = Callable[[int, int, int], int | None]
"""(now, sender, receiver) to a verdict: None to pass, DROP, or microseconds to add."""


class Network:
    """The links between numbered nodes."""

    def __init__(self, options: NetworkOptions, seed: int) -> None:
        self.options = options
        self.rules: list[Rule] = []
        rng = stream(seed, "network")
        self._random, self._random_bits = rng.random, rng.getrandbits
        self._jitter_bits = (options.jitter_us + 1).bit_length()
        self._free_at: list[int] = []
        self._rates: list[int] = []
        self._regions: list[int] = []
        self._last_arrival: dict[tuple[int, int], int] = {}
        self._is_plain = not (
            options.jitter_us or options.loss or options.duplication or options.regions
        )
        self._latency_us = options.latency_us
        self._overhead_bytes = options.overhead_bytes

    def add_node(self, region: int = 0) -> None:
        """Add a node, with the next number."""
        self._regions.append(region)
        self._free_at.append(0)
        self._rates.append(self.options.bandwidth_bytes_per_s)

    def region(self, node: int) -> int:
        """The region of a node."""
        return self._regions[node]

    def slow_down(self, node: int, factor: int) -> None:
        """Divide the rate of a node's outgoing link by a factor; 1 restores it."""
        self._rates[node] = max(1, self.options.bandwidth_bytes_per_s // factor)

    @property
    def is_simple(self) -> bool:
        """Whether each message arrives once, at its `earliest_arrival`."""
        return self._is_plain and not self.rules and not self._last_arrival

    def earliest_arrival(self, now: int, sender: int, size: int) -> int:
        """Put a message on a node's link, and return its arrival without loss and jitter."""
        begins = self._free_at[sender]
        if begins < now:
            begins = now
        sent = begins + (size + self._overhead_bytes) * 1_000_000 // self._rates[sender]
        self._free_at[sender] = sent
        return sent + self._latency_us

    def latency_us(self, sender: int, receiver: int) -> int:
        """The latency from one node to another, without jitter."""
        return self.options.latency_between_us(self._regions[sender], self._regions[receiver])

    def arrivals(self, now: int, sender: int, receiver: int, size: int) -> Sequence[int]:
        """The times at which a message arrives: one, two, or none."""
        extra = self._verdict(now, sender, receiver)
        if extra == DROP:
            return ()
        options = self.options
        # A message takes its time on the link even if it is lost later.
        at = self.earliest_arrival(now, sender, size) + extra
        at += self.latency_us(sender, receiver) - self._latency_us
        if self._is_plain and not extra and not self._last_arrival:
            return (at,)  # It cannot overtake another message.
        if options.loss and self._random() < options.loss:
            return ()
        is_repeated = options.duplication and self._random() < options.duplication
        first = self._in_order(sender, receiver, at + self._jitter_us())
        if not is_repeated:
            return (first,)
        return first, self._in_order(sender, receiver, at + self._jitter_us())

    def _jitter_us(self) -> int:
        """Draw the jitter of a message as `randint` does, in a third of its time."""
        jitter_us_max, bits = self.options.jitter_us, self._jitter_bits
        while (drawn := self._random_bits(bits)) > jitter_us_max:
            pass
        return drawn

    def _verdict(self, now: int, sender: int, receiver: int) -> int:
        for rule in self.rules:
            verdict = rule(now, sender, receiver)
            if verdict is not None:
                return verdict
        return 0

    def _in_order(self, sender: int, receiver: int, at: int) -> int:
        if self.options.reordering:
            return at
        link = (sender, receiver)
        at = max(at, self._last_arrival.get(link, 0))
        self._last_arrival[link] = at
        return at
