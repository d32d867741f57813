"""What has come is handled at once, or on a busy loop with what comes a little later."""

from math import inf

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from smartpubsub.node.transport.inbox import GATHER_ROUNDS, Inbox

LATE_S = 0.02


@pytest.mark.parametrize(("late_s", "handled"), [(0.0, [1]), (LATE_S, [1, 2])])
def test_only_a_reader_that_is_late_waits_for_more(late_s: float, handled: list[int]) -> None:
    clock = MockClock()
    inbox: Inbox[int] = Inbox(10)
    taken: list[int] = []

    async def read() -> None:
        await inbox.wait(inf, 1.0)
        while (item := inbox.take()) is not None:
            taken.append(item)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            await wait_all_tasks_blocked()
            inbox.put(1)
            clock.jump(late_s)
            await wait_all_tasks_blocked()
            inbox.put(2)
            clock.jump(GATHER_ROUNDS * late_s)

    trio.run(main, clock=clock)

    assert taken == handled


def test_how_long_a_reader_is_late_for_more_is_limited() -> None:
    clock = MockClock()
    inbox: Inbox[int] = Inbox(10)

    async def main() -> float:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(inbox.wait, inf, LATE_S)
            await wait_all_tasks_blocked()
            inbox.put(1)
            clock.jump(1_000.0)
            clock.autojump_threshold = 0.0
        return trio.current_time()

    assert trio.run(main, clock=clock) == pytest.approx(1_000.0 + LATE_S)
