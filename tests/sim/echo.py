"""A core for tests of the simulator: it repeats what it hears, and notes everything."""

from dataclasses import dataclass, field
from typing import NamedTuple

from smartpubsub.seam import (
    Answer,
    Asked,
    Deliver,
    Effect,
    Event,
    Load,
    Loaded,
    Received,
    SetTimer,
    Started,
    Store,
    TimerFired,
)
from smartpubsub.sim.kernel.network import NetworkOptions
from smartpubsub.sim.kernel.world import World
from smartpubsub.sim.traces.trace import Trace


class Text(NamedTuple):
    text: str
    size: int = 100


@dataclass
class Echo:
    heard: list[tuple[int, Event]] = field(default_factory=list)

    def handle(self, event: Event, now: int) -> list[Effect]:
        self.heard.append((now, event))
        match event:
            case Started():
                return [Load(b"")]
            case Asked(peer, message, number):
                return [Answer(peer, message, number)]
            case Received(_, Text(text)):
                return [Deliver(text), Store(text.encode(), b"heard")]
            case TimerFired("again"):
                return [SetTimer("again", now + 1_000)]
            case Loaded(_, stored):
                return [Deliver(tuple(key.decode() for key, _ in stored))]
        return []

    def texts(self) -> list[tuple[int, str]]:
        return [
            (at, event.message.text)
            for at, event in self.heard
            if isinstance(event, Received) and isinstance(event.message, Text)
        ]


def peer(number: int) -> bytes:
    return b"peer %d" % number


def world_of(
    count: int, options: NetworkOptions | None = None, seed: int = 1, trace: Trace | None = None
) -> World:
    world = World(
        options or NetworkOptions(), seed, {Text: lambda message: message.size}, trace=trace
    )
    for number in range(count):
        world.add(peer(number), lambda _: Echo())
    world.run(until=0)
    return world


def echo(world: World, number: int) -> Echo:
    core = world.hosts[number].core
    assert isinstance(core, Echo)
    return core
