"""Faults, as values that a scenario combines.

A fault is planned into a world and then happens by itself. Times are microseconds of the world.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from smartpubsub.sim.kernel.network import DROP
from smartpubsub.sim.kernel.streams import stream
from smartpubsub.sim.kernel.world import Host, World


class Fault(Protocol):
    """A fault that can be planned into a world."""

    def plan(self, world: World) -> None:
        """Schedule the fault."""
        ...


@dataclass(frozen=True, kw_only=True)
class Crash:
    """A node stops and loses its memory, and its storage if `with_storage`; it may restart."""

    node: int
    at_us: int
    restart_at_us: int | None = None
    with_storage: bool = False

    def plan(self, world: World) -> None:
        host = world.hosts[self.node]
        world.at(self.at_us, lambda: _crash(world, host, with_storage=self.with_storage))
        if self.restart_at_us is not None:
            world.at(self.restart_at_us, lambda: _restart(world, host))


@dataclass(frozen=True, kw_only=True)
class ClockJump:
    """A node crashes, and restarts with a clock that is off by `skew_us`.

    While it runs, a node's clock is monotonic: a jump of the machine's clock shows when it starts.
    """

    node: int
    at_us: int
    restart_at_us: int
    skew_us: int

    def plan(self, world: World) -> None:
        host = world.hosts[self.node]
        world.at(self.at_us, lambda: _crash(world, host, with_storage=False))
        world.at(self.restart_at_us, lambda: self._restart(world, host))

    def _restart(self, world: World, host: Host) -> None:
        if not host.is_up:
            world.fault("clock jump", self.node)
            host.skew_us = self.skew_us
            world.restart(host)


@dataclass(frozen=True, kw_only=True)
class Pause:
    """A node handles nothing for a while, and then all pending inputs at once."""

    node: int
    at_us: int
    until_us: int

    def plan(self, world: World) -> None:
        world.at(self.at_us, lambda: world.pause(world.hosts[self.node], self.until_us))


@dataclass(frozen=True, kw_only=True)
class Slow:
    """A node's outgoing link is slower by a factor for a while."""

    node: int
    at_us: int
    until_us: int
    factor: int

    def plan(self, world: World) -> None:
        world.at(self.at_us, lambda: self._set(world, self.factor))
        world.at(self.until_us, lambda: self._set(world, 1))

    def _set(self, world: World, factor: int) -> None:
        world.fault("slow" if factor > 1 else "slow no more", self.node)
        world.network.slow_down(self.node, factor)


@dataclass(frozen=True, kw_only=True)
class Skew:
    """A node's clock is off by `skew_us` and too fast by `drift_ppm`."""

    node: int
    skew_us: int = 0
    drift_ppm: int = 0

    def plan(self, world: World) -> None:
        host = world.hosts[self.node]
        world.fault("skew", self.node)
        host.skew_us, host.drift_ppm = self.skew_us, self.drift_ppm


@dataclass(frozen=True, kw_only=True)
class Partition:
    """Messages from a group to the rest are lost for a while, and those back unless `one_way`."""

    group: tuple[int, ...]
    at_us: int
    until_us: int
    one_way: bool = False

    def plan(self, world: World) -> None:
        inside = frozenset(self.group)

        def rule(now: int, sender: int, receiver: int) -> int | None:
            if not self.at_us <= now < self.until_us:
                return None
            leaves = sender in inside and receiver not in inside
            enters = receiver in inside and sender not in inside
            return DROP if leaves or (enters and not self.one_way) else None

        world.network.rules.append(rule)
        for node in self.group:
            world.at(self.at_us, partial(world.fault, "partition", node))
            world.at(self.until_us, partial(world.fault, "heal", node))


@dataclass(frozen=True, kw_only=True)
class Clog:
    """Messages from one node to another are held up, and arrive when the time is over."""

    sender: int
    receiver: int
    at_us: int
    until_us: int

    def plan(self, world: World) -> None:
        def rule(now: int, sender: int, receiver: int) -> int | None:
            is_clogged = self.at_us <= now < self.until_us
            if is_clogged and (sender, receiver) == (self.sender, self.receiver):
                return self.until_us - now
            return None

        world.network.rules.append(rule)
        world.at(self.at_us, lambda: world.fault("clog", self.sender))
        world.at(self.until_us, lambda: world.fault("clog no more", self.sender))


@dataclass(frozen=True, kw_only=True)
class Churn:
    """Nodes crash and restart: the times up and down are distributed exponentially."""

    nodes: tuple[int, ...]
    at_us: int
    until_us: int
    up_us_mean: int
    down_us_mean: int
    seed: int

    def plan(self, world: World) -> None:
        for crash in self.crashes():
            crash.plan(world)

    def crashes(self) -> Iterator[Crash]:
        """The crashes that this amounts to."""
        for node in self.nodes:
            rng = stream(self.seed, "churn", node)
            at = self.at_us + round(rng.expovariate(1 / self.up_us_mean))
            while at < self.until_us:
                back_at = at + round(rng.expovariate(1 / self.down_us_mean)) + 1
                yield Crash(node=node, at_us=at, restart_at_us=back_at)
                at = back_at + round(rng.expovariate(1 / self.up_us_mean)) + 1


def struck_nodes(fault: Fault) -> tuple[int, ...]:
    """The nodes that a fault makes fail or whose links it clogs."""
    match fault:
        case Crash() | Pause() | ClockJump():
            return (fault.node,)
        case Clog():
            return fault.sender, fault.receiver
        case Churn():
            return fault.nodes
    return ()


def _crash(world: World, host: Host, *, with_storage: bool) -> None:
    if host.is_up:  # Faults are combined freely, so the node may be down already.
        world.crash(host, with_storage=with_storage)


def _restart(world: World, host: Host) -> None:
    if not host.is_up:
        world.restart(host)
