"""The world carries effects out, in order, and the same way every time."""

import subprocess
import sys

import pytest

from smartpubsub.seam import (
    Answered,
    Ask,
    CancelTimer,
    Connect,
    Connected,
    Disconnected,
    Effect,
    Event,
    Loaded,
    Received,
    Send,
    SetTimer,
    Started,
    TimerFired,
)
from smartpubsub.sim.kernel.network import NetworkOptions
from smartpubsub.sim.kernel.world import Sizes, World
from smartpubsub.sim.traces.trace import Row, Trace
from tests.sim.echo import Echo, Text, echo, peer, world_of

SECOND = 1_000_000


def fired(world: World) -> list[tuple[int, object]]:
    heard = echo(world, 0).heard
    return [(at, event.timer) for at, event in heard if isinstance(event, TimerFired)]


def test_what_happens_at_the_same_time_happens_in_the_order_it_was_brought_about() -> None:
    world = world_of(1)

    world.carry_out(world.hosts[0], [SetTimer(name, 500) for name in ("c", "a", "b")])
    world.run(until=SECOND)

    assert fired(world) == [(500, "c"), (500, "a"), (500, "b")]


def test_setting_a_timer_anew_moves_it_and_cancelling_forgets_it() -> None:
    world = world_of(1)

    world.carry_out(world.hosts[0], [SetTimer("moved", 500), SetTimer("gone", 500)])
    world.carry_out(world.hosts[0], [SetTimer("moved", 900), CancelTimer("gone")])
    world.run(until=SECOND)

    assert fired(world) == [(900, "moved")]


def test_timer_in_the_past_fires_at_once_and_time_never_goes_back() -> None:
    world = world_of(1)
    world.run(until=SECOND)

    world.carry_out(world.hosts[0], [SetTimer("late", 10)])
    world.run(until=2 * SECOND)

    assert fired(world) == [(SECOND, "late")]
    assert world.now == 2 * SECOND


def test_question_is_answered_under_its_number() -> None:
    world = world_of(2)

    world.carry_out(world.hosts[0], [Ask(peer(1), Text("well?"), 42)])
    world.run(until=SECOND)

    answers = [event for _, event in echo(world, 0).heard if isinstance(event, Answered)]
    assert answers == [Answered(peer(1), Text("well?"), 42)]


def fragile_world(*, contains_failures: bool) -> World:
    """A node that fails when it is told to, and another that tells it."""

    class Fragile(Echo):
        def handle(self, event: Event, now: int) -> list[Effect]:
            if isinstance(event, Received) and event.message == Text("fail"):
                raise KeyError("a defect")
            return super().handle(event, now)

    sizes: Sizes = {Text: lambda message: int(message.size)}
    world = World(NetworkOptions(), 1, sizes, contains_failures=contains_failures)
    for number in range(2):
        world.add(peer(number), lambda _: Fragile())
    world.carry_out(world.hosts[1], [Send(peer(0), Text("kept")), Send(peer(0), Text("fail"))])
    return world


def test_an_exception_of_a_core_ends_the_world() -> None:
    world = fragile_world(contains_failures=False)
    with pytest.raises(KeyError, match="a defect"):
        world.run(until=SECOND)


def test_a_world_can_restart_a_core_that_raises_an_exception() -> None:
    world = fragile_world(contains_failures=True)
    world.run(until=SECOND)

    assert [event for _, event in echo(world, 0).heard] == [
        Started(1),
        Loaded(b"", ((b"kept", b"heard"),)),
    ]


def test_a_message_to_an_unknown_peer_is_dropped() -> None:
    rows: list[Row] = []
    trace = Trace(rows.extend)
    world = world_of(1, trace=trace)

    world.carry_out(world.hosts[0], [Send(b"unknown", Text("hello"))])
    world.run(until=SECOND)

    trace.flush()
    assert rows[-1].what == "drop"


def test_connecting_tells_who_is_there_and_who_is_not() -> None:
    world = world_of(3)
    world.crash(world.hosts[2])

    world.carry_out(world.hosts[0], [Connect(peer(number), ()) for number in (1, 2, 7)])
    world.run(until=SECOND)

    told = [e for _, e in echo(world, 0).heard if isinstance(e, Connected | Disconnected)]
    assert told == [Connected(peer(1)), Disconnected(peer(2)), Disconnected(peer(7))]


def test_run_while_stops_with_the_condition_or_the_time() -> None:
    world = world_of(1)
    world.carry_out(world.hosts[0], [SetTimer("again", 1_000)])

    assert world.run_while(lambda: world.now < 5_000, until=SECOND)
    assert world.now == 5_000
    assert not world.run_while(lambda: True, until=10_000)


PROGRAM = """
from smartpubsub.seam import Send
from smartpubsub.sim.kernel.network import NetworkOptions
from smartpubsub.sim.traces.trace import Row, Trace
from tests.sim.echo import Text, peer, world_of
trace = Trace()
options = NetworkOptions(jitter_us=9_000, loss=0.2, duplication=0.2)
world = world_of(5, options, seed=SEED, trace=trace)
for number in range(200):
    world.carry_out(world.hosts[number % 5], [Send(peer(number * 7 % 5), Text(str(number)))])
world.run(until=10_000_000)
print(trace.digest())
"""


def digest(seed: int, hash_seed: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM.replace("SEED", str(seed))],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONHASHSEED": hash_seed},
    ).stdout


def test_same_seed_gives_the_same_trace_in_any_process() -> None:
    assert digest(1, "1") == digest(1, "2")
    assert digest(1, "1") != digest(2, "1")


def test_loss_is_seen_in_the_trace() -> None:
    rows: list[Row] = []
    trace = Trace(rows.extend)
    world = world_of(2, NetworkOptions(loss=1.0), trace=trace)

    world.carry_out(world.hosts[0], [Send(peer(1), Text("hello", size=70))])

    trace.flush()
    row = rows[-1]
    assert (row.what, row.node, row.peer, row.kind, row.size) == ("drop", 0, 1, "Text", 70)
