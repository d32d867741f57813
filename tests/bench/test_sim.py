"""What the simulator is measured with does the same work on both sides."""

from collections.abc import Iterable

import pytest

from smartpubsub.bench import sim_cost
from smartpubsub.bench.sim import Flood, Relay, Token, received, relays
from smartpubsub.bench.sim_large import measure
from smartpubsub.bench.sim_peers import SimpyRelay
from smartpubsub.seam import Send
from smartpubsub.sim.experiments.experiment import Experiment
from smartpubsub.sim.kernel.network import NetworkOptions
from smartpubsub.workloads.actions import Action

OPTIONS = NetworkOptions(latency_us=5_000, bandwidth_bytes_per_s=1 << 18)


def test_kernel_and_simpy_relay_the_same_messages() -> None:
    world, peer = relays(7, OPTIONS), SimpyRelay(7, OPTIONS)
    for number in range(30):
        host = world.hosts[number % 7]
        assert isinstance(host.core, Relay)
        world.carry_out(host, [Send(host.core.neighbour, Token(100 + number))])
        peer.send(number % 7, 100 + number)

    # SimPy stops before what happens at the time itself.
    world.run(until=499_999)
    peer.run_for(500_000)

    assert received(world) == peer.relayed > 1_000


def test_every_node_gets_every_event() -> None:
    flood = Flood(12, seed=3)
    flood.join()

    assert flood.publish(5) > 0

    assert flood.delivered == 12 * 5


def test_cost_is_of_all_that_the_nodes_send() -> None:
    few, many = measure(10, 4, seed=1), measure(20, 4, seed=1)

    assert 0 < few.messages < many.messages
    assert few.us_per_message == few.seconds / few.messages * 1e6
    assert few.peak_bytes > 1 << 20


def test_an_interrupted_run_has_no_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_self: Experiment, _phase: Iterable[Action]) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Experiment, "_run_phase", interrupt)

    with pytest.raises(KeyboardInterrupt):
        sim_cost.heap_operations_per_message("scoutsubs")
