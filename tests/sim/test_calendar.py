"""The calendar against a plain heap, and timers against a list of them."""

from heapq import heappop, heappush

from hypothesis import given
from hypothesis import strategies as st

from smartpubsub.seam import CancelTimer, SetTimer, TimerFired
from smartpubsub.sim.kernel.calendar import Calendar, Entry
from tests.sim.echo import echo, world_of

# Around the beginnings of slots, close together and far apart.
times = st.sampled_from([0, 1, 1_023, 1_024, 65_535, 65_536, 65_537, 10**7]) | st.integers(0, 5_000)
adding = st.lists(times, max_size=5)


@given(st.lists(st.tuples(adding, times), max_size=20))
def test_everything_comes_out_in_order_whenever_it_was_put_in(
    steps: list[tuple[list[int], int]],
) -> None:
    calendar, heap, now, sequence = Calendar(), list[Entry](), 0, 0

    for delays, passing in steps:
        for delay in delays:
            sequence += 1
            entry: Entry = (now + delay, sequence, None, 0, None)
            calendar.add(entry)
            heappush(heap, entry)
        until = now + passing
        while heap and heap[0][0] <= until:
            assert calendar.next(until) == heappop(heap)
        assert calendar.next(until) is None
        assert len(calendar) == len(heap)
        now = until


names = st.sampled_from("abcd")
doings = st.lists(st.tuples(names, times | st.none(), times), max_size=20)


@given(doings)
def test_timers_fire_when_they_were_last_set_to(steps: list[tuple[str, int | None, int]]) -> None:
    world = world_of(1)
    due: dict[str, int] = {}
    expected: list[tuple[int, str]] = []

    for name, delay, passing in [*steps, ("a", None, 10**8)]:
        due.pop(name, None)
        if delay is None:
            world.carry_out(world.hosts[0], [CancelTimer(name)])
        else:
            due[name] = world.now + delay
            world.carry_out(world.hosts[0], [SetTimer(name, due[name])])
        world.run(world.now + passing)
        fired = sorted((at, timer) for timer, at in due.items() if at <= world.now)
        due = {timer: at for timer, at in due.items() if at > world.now}
        expected += fired

    heard = [(at, e.timer) for at, e in echo(world, 0).heard if isinstance(e, TimerFired)]
    assert sorted(heard, key=str) == sorted(expected, key=str)
    assert [at for at, _ in heard] == sorted(at for at, _ in heard)
    assert world.pending_count == 0
