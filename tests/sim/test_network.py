"""Messages take as long as the network says, and arrive as often."""

import pytest

from smartpubsub.seam import Send
from smartpubsub.sim.kernel.network import DROP, Network, NetworkOptions
from tests.sim.echo import Text, echo, peer, world_of

SECOND = 1_000_000


def network(count: int = 3, **options: object) -> Network:
    made = Network(NetworkOptions(**options), seed=1)  # type: ignore[arg-type]
    for _ in range(count):
        made.add_node()
    return made


def test_message_takes_the_latency_and_the_time_to_send_it() -> None:
    quiet = network(latency_us=10_000, bandwidth_bytes_per_s=1_000_000, overhead_bytes=0)

    assert quiet.arrivals(5, 0, 1, 500) == (5 + 500 + 10_000,)


def test_messages_to_all_receivers_queue_at_the_senders_link() -> None:
    quiet = network(latency_us=0, bandwidth_bytes_per_s=1_000_000, overhead_bytes=0)

    arrivals = [quiet.arrivals(0, 0, receiver, 300)[0] for receiver in (1, 2, 1)]

    assert arrivals == [300, 600, 900]
    assert quiet.arrivals(0, 1, 2, 300) == (300,)


def test_overhead_counts_against_bandwidth() -> None:
    bare = network(latency_us=0, bandwidth_bytes_per_s=1_000_000, overhead_bytes=12)

    assert bare.arrivals(0, 0, 1, 88) == (100,)


def test_jitter_stays_within_its_bound_and_keeps_order_on_a_link() -> None:
    shaky = network(latency_us=1_000, jitter_us=500, bandwidth_bytes_per_s=10**9)

    arrivals = [shaky.arrivals(at, 0, 1, 1)[0] for at in range(0, 2_000, 10)]

    assert arrivals == sorted(arrivals)
    delays = [arrival - at for arrival, at in zip(arrivals, range(0, 2_000, 10), strict=True)]
    assert min(delays) >= 1_000
    assert 1_400 < max(delays) <= 1_501


def test_reordering_lets_messages_overtake() -> None:
    shaky = network(latency_us=1_000, jitter_us=500, bandwidth_bytes_per_s=10**9, reordering=True)

    arrivals = [shaky.arrivals(at, 0, 1, 1)[0] for at in range(0, 2_000, 10)]

    assert arrivals != sorted(arrivals)


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_loss_and_duplication_hit_their_share(share: float) -> None:
    lossy, doubling = network(loss=share), network(duplication=share)

    lost = sum(not lossy.arrivals(at * SECOND, 0, 1, 10) for at in range(2_000))
    doubled = sum(len(doubling.arrivals(at * SECOND, 0, 1, 10)) == 2 for at in range(2_000))

    assert lost / 2_000 == pytest.approx(share, abs=0.04)
    assert doubled / 2_000 == pytest.approx(share, abs=0.04)


def test_first_rule_with_a_verdict_decides() -> None:
    ruled = network(latency_us=0, bandwidth_bytes_per_s=10**9, overhead_bytes=0)
    ruled.rules += [
        lambda _now, _sender, receiver: DROP if receiver == 2 else None,
        lambda _now, _sender, _receiver: 700,
        lambda _now, _sender, _receiver: DROP,
    ]

    assert ruled.arrivals(0, 0, 2, 0) == ()
    assert ruled.arrivals(0, 0, 1, 0) == (700,)


def test_size_of_a_message_in_a_world_is_what_its_type_says() -> None:
    options = NetworkOptions(latency_us=0, bandwidth_bytes_per_s=1_000_000, overhead_bytes=0)
    world = world_of(2, options)

    world.carry_out(world.hosts[0], [Send(peer(1), Text("long", size=2_000))])
    world.run(until=SECOND)

    assert echo(world, 1).texts() == [(2_000, "long")]
    assert world.hosts[0].sent_bytes == 2_000
