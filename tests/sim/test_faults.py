"""Faults do what they are named for, when they are planned for."""

from smartpubsub.seam import Send, SetTimer, Started, Store, TimerFired
from smartpubsub.sim.kernel.faults import (
    Churn,
    ClockJump,
    Clog,
    Crash,
    Partition,
    Pause,
    Skew,
    Slow,
)
from smartpubsub.sim.kernel.network import NetworkOptions
from smartpubsub.sim.kernel.world import World
from tests.sim.echo import Text, echo, peer, world_of

SECOND = 1_000_000
FAST = NetworkOptions(latency_us=1_000, bandwidth_bytes_per_s=1_000_000, overhead_bytes=0)


def send(world: World, sender: int, receiver: int, text: str, at: int) -> None:
    effect = Send(peer(receiver), Text(text))
    world.at(at, lambda: world.carry_out(world.hosts[sender], [effect]))


def texts(world: World, number: int) -> list[str]:
    return [text for _, text in echo(world, number).texts()]


def test_crashed_node_hears_nothing_and_comes_back_with_its_storage_only() -> None:
    told: list[object] = []
    world = world_of(2, FAST)
    world.on_deliver = lambda _, item: told.append(item)
    Crash(node=1, at_us=SECOND, restart_at_us=3 * SECOND).plan(world)
    for second, text in enumerate(["before", "during", "meanwhile", "after"]):
        send(world, 0, 1, text, second * SECOND + SECOND // 2)

    world.run(until=9 * SECOND)

    assert texts(world, 1) == ["after"]  # The core itself is a new one.
    assert told == ["before", ("before",), "after"]


def test_what_was_on_its_way_to_a_node_that_crashed_does_not_reach_it_after_its_return() -> None:
    world = world_of(2, NetworkOptions(latency_us=SECOND))
    send(world, 0, 1, "too late", at=0)
    Crash(node=1, at_us=100, restart_at_us=200).plan(world)

    world.run(until=9 * SECOND)

    assert texts(world, 1) == []


def test_timers_die_with_their_node() -> None:
    world = world_of(1)
    world.carry_out(world.hosts[0], [SetTimer("old", 5 * SECOND)])
    Crash(node=0, at_us=SECOND, restart_at_us=2 * SECOND).plan(world)

    world.run(until=9 * SECOND)

    assert not any(isinstance(event, TimerFired) for _, event in echo(world, 0).heard)


def test_a_crash_undoes_late_changes_after_which_nothing_was_stored() -> None:
    world = world_of(1)
    host = world.hosts[0]

    def store(key: bytes, value: bytes | None, *, may_be_late: bool = False) -> None:
        world.carry_out(host, [Store(key, value, may_be_late)])

    store(b"kept", b"1")
    store(b"removed", None, may_be_late=True)
    store(b"late", b"1", may_be_late=True)
    store(b"kept", b"2")
    store(b"kept", None, may_be_late=True)
    store(b"late", b"2", may_be_late=True)
    store(b"late", b"3", may_be_late=True)
    assert host.storage == {b"late": b"3"}
    world.crash(host)
    assert host.storage == {b"kept": b"2", b"late": b"1"}

    store(b"late", b"2", may_be_late=True)
    world.leave(host, [])
    assert host.storage == {b"kept": b"2", b"late": b"2"}


def test_crash_with_storage_leaves_nothing() -> None:
    told: list[object] = []
    world = world_of(2, FAST)
    world.on_deliver = lambda _, item: told.append(item)
    send(world, 0, 1, "before", at=0)
    Crash(node=1, at_us=SECOND, restart_at_us=2 * SECOND, with_storage=True).plan(world)

    world.run(until=9 * SECOND)

    assert told == ["before", ()]


def test_paused_node_catches_up_in_order() -> None:
    world = world_of(2, FAST)
    Pause(node=1, at_us=SECOND, until_us=5 * SECOND).plan(world)
    for second in range(1, 4):
        send(world, 0, 1, f"{second}", second * SECOND)

    world.run(until=9 * SECOND)

    assert echo(world, 1).texts() == [(5 * SECOND, "1"), (5 * SECOND, "2"), (5 * SECOND, "3")]


def test_a_pause_within_a_longer_one_does_not_change_the_order() -> None:
    world = world_of(2, FAST)
    Pause(node=1, at_us=SECOND, until_us=5 * SECOND).plan(world)
    Pause(node=1, at_us=2 * SECOND + 1, until_us=3 * SECOND).plan(world)
    for second in range(2, 5):
        send(world, 0, 1, f"{second}", second * SECOND)

    world.run(until=9 * SECOND)

    assert echo(world, 1).texts() == [(5 * SECOND, "2"), (5 * SECOND, "3"), (5 * SECOND, "4")]


def test_a_node_whose_clock_has_jumped_restarts_by_the_new_time() -> None:
    world = world_of(2, FAST)
    ClockJump(node=1, at_us=SECOND, restart_at_us=2 * SECOND, skew_us=-3 * SECOND).plan(world)

    world.run(until=5 * SECOND)

    assert world.hosts[1].is_up
    assert world.hosts[1].clock(world.now) == 2 * SECOND


def test_slow_node_takes_longer_to_send_until_it_is_over() -> None:
    world = world_of(2, FAST)
    Slow(node=0, at_us=0, until_us=SECOND, factor=10).plan(world)
    send(world, 0, 1, "slow", at=1)
    send(world, 0, 1, "fast", at=2 * SECOND)

    world.run(until=9 * SECOND)

    assert echo(world, 1).texts() == [
        (1 + 1_000 + 1_000, "slow"),
        (2 * SECOND + 100 + 1_000, "fast"),
    ]


def test_skewed_clock_is_what_the_core_sees_and_timers_keep_to_it() -> None:
    world = world_of(1)
    Skew(node=0, skew_us=3 * SECOND, drift_ppm=100_000).plan(world)
    host = world.hosts[0]

    world.carry_out(host, [SetTimer("alarm", 14 * SECOND)])
    world.run(until=60 * SECOND)

    assert [at for at, event in echo(world, 0).heard if isinstance(event, TimerFired)] == [
        14 * SECOND
    ]
    assert host.when(14 * SECOND) == 10 * SECOND


def test_partition_cuts_both_ways_and_heals() -> None:
    world = world_of(3, FAST)
    Partition(group=(0, 1), at_us=SECOND, until_us=3 * SECOND).plan(world)
    for at in (0, 2 * SECOND, 4 * SECOND):
        send(world, 0, 1, f"inside {at}", at)
        send(world, 0, 2, f"out {at}", at)
        send(world, 2, 0, f"in {at}", at)

    world.run(until=9 * SECOND)

    assert texts(world, 1) == [f"inside {at}" for at in (0, 2 * SECOND, 4 * SECOND)]
    assert texts(world, 2) == ["out 0", f"out {4 * SECOND}"]
    assert texts(world, 0) == ["in 0", f"in {4 * SECOND}"]


def test_one_way_partition_lets_messages_in() -> None:
    world = world_of(2, FAST)
    Partition(group=(0,), at_us=0, until_us=SECOND, one_way=True).plan(world)
    send(world, 0, 1, "out", at=10)
    send(world, 1, 0, "in", at=10)

    world.run(until=SECOND)

    assert texts(world, 1) == []
    assert texts(world, 0) == ["in"]


def test_clogged_link_holds_messages_and_keeps_their_order() -> None:
    world = world_of(3, FAST)
    Clog(sender=0, receiver=1, at_us=0, until_us=SECOND).plan(world)
    send(world, 0, 1, "held", at=10)
    send(world, 0, 1, "held too", at=20)
    send(world, 0, 2, "elsewhere", at=30)

    world.run(until=9 * SECOND)

    assert texts(world, 1) == ["held", "held too"]
    assert min(at for at, _ in echo(world, 1).texts()) > SECOND
    assert echo(world, 2).texts()[0][0] < SECOND


def test_churn_takes_nodes_down_and_brings_them_back_the_same_way_each_time() -> None:
    def starts(seed: int) -> list[int]:
        world = world_of(4)
        Churn(
            nodes=(1, 2, 3),
            at_us=0,
            until_us=100 * SECOND,
            up_us_mean=10 * SECOND,
            down_us_mean=5 * SECOND,
            seed=seed,
        ).plan(world)
        world.run(until=1_000 * SECOND)
        assert all(host.is_up for host in world.hosts)
        assert world.hosts[0].incarnation == 0
        return [at for at, e in echo(world, 1).heard if isinstance(e, Started)] + [
            host.incarnation for host in world.hosts
        ]

    assert starts(1) == starts(1)
    assert starts(1) != starts(2)
    assert min(starts(1)[-3:]) > 0
