"""Events are handled at once, or on a busy loop together, and in turns that are fair to peers."""

from collections.abc import Callable
from functools import partial
from math import inf
from typing import NamedTuple

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from smartpubsub.node.transport.inbox import (
    ENOUGH_BYTES,
    ENOUGH_COUNT,
    WAITED_S_MAX,
    Inbox,
)

GATHER_S = 0.5


def waited_s(put: Callable[[Inbox[int]], None], gather_s: float) -> float:
    """How long a reader waits that items come to after a second."""
    clock = MockClock(autojump_threshold=0.0)
    inbox: Inbox[int] = Inbox(1_000)

    async def put_later() -> None:
        await trio.sleep(1.0)
        put(inbox)

    async def main() -> float:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(put_later)
            await inbox.wait(inf, gather_s)
            return trio.current_time() - 1.0

    return trio.run(main, clock=clock)


def test_a_reader_waits_for_more_items_only_if_it_is_told_to() -> None:
    assert waited_s(lambda inbox: inbox.put(1), 0.0) == pytest.approx(0.0)
    assert waited_s(lambda inbox: inbox.put(1), GATHER_S) == pytest.approx(GATHER_S)


def test_a_reader_does_not_wait_when_it_has_enough() -> None:
    def put_many(inbox: Inbox[int]) -> None:
        for number in range(ENOUGH_COUNT):
            inbox.put(number)

    assert waited_s(put_many, GATHER_S) == pytest.approx(0.0)
    assert waited_s(lambda inbox: inbox.put(1, ENOUGH_BYTES), GATHER_S) == pytest.approx(0.0)
    several = partial(Inbox[int].put, item=1, count=ENOUGH_COUNT)
    assert waited_s(several, GATHER_S) == pytest.approx(0.0)


def test_a_reader_stops_waiting_when_enough_has_come() -> None:
    clock = MockClock(autojump_threshold=0.0)
    inbox: Inbox[int] = Inbox(1_000)

    async def put_more() -> None:
        for number in range(ENOUGH_COUNT):
            await trio.sleep(0.001)
            inbox.put(number)

    async def main() -> float:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(put_more)
            await inbox.wait(inf, 60.0)
            return trio.current_time()

    assert trio.run(main, clock=clock) < 1.0


class Sent(NamedTuple):
    peer: bytes
    number: int


def handled(inbox: Inbox[Sent], cost_s: dict[bytes, float], seconds: float) -> list[Sent]:
    """What a reader handles within some processor time, if events of peers cost so much."""
    taken = []
    while seconds > 0 and (item := inbox.take()) is not None:
        taken.append(item)
        inbox.charge(item.peer, cost_s[item.peer])
        seconds -= cost_s[item.peer]
    return taken


def test_a_peer_with_much_to_handle_does_not_hold_up_another() -> None:
    async def main() -> None:
        inbox: Inbox[Sent] = Inbox(1_000)
        for number in range(1_000):
            inbox.put(Sent(b"much", number))
        costs = {b"much": 0.001, b"little": 0.001}
        handled(inbox, costs, 0.1)
        for number in range(3):
            inbox.put(Sent(b"little", number))

        taken = handled(inbox, costs, 0.007)
        assert [item.peer for item in taken].count(b"little") == 3
        assert [item.number for item in taken if item.peer == b"little"] == [0, 1, 2]

    trio.run(main)


def test_peers_share_the_processor_and_not_the_turns() -> None:
    async def main() -> None:
        inbox: Inbox[Sent] = Inbox(1_000)
        for number in range(1_000):
            inbox.put(Sent(b"expensive", number))
            inbox.put(Sent(b"cheap", number))
        taken = handled(inbox, {b"expensive": 0.05, b"cheap": 0.0005}, 1.0)

        assert 8 <= [item.peer for item in taken].count(b"expensive") <= 12

    trio.run(main)


def test_strangers_have_the_turns_of_one_member_together() -> None:
    async def main() -> None:
        members = (b"first", b"second")
        inbox: Inbox[Sent] = Inbox(1_000, is_member=lambda peer: peer in members)
        strangers = [b"%d" % number for number in range(12)]
        for number in range(1_000):
            for peer in (*members, *strangers):
                inbox.put(Sent(peer, number))
        costs = dict.fromkeys((*members, *strangers), 0.001)
        peers = [item.peer for item in handled(inbox, costs, 0.9)]
        for member in members:
            assert 270 <= peers.count(member) <= 330
        assert all(15 <= peers.count(stranger) <= 35 for stranger in strangers)

    trio.run(main)


def test_a_peer_that_was_silent_has_saved_up_nothing_and_owes_what_it_has_cost() -> None:
    async def main() -> None:
        inbox: Inbox[Sent] = Inbox(1_000)
        costs = {b"busy": 0.01, b"late": 0.01, b"owing": 1.0}
        inbox.put(Sent(b"owing", 0))
        assert handled(inbox, costs, 0.5) == [Sent(b"owing", 0)]
        for number in range(100):
            inbox.put(Sent(b"busy", number))
        inbox.put(Sent(b"owing", 1))
        handled(inbox, costs, 0.2)
        for number in range(50):
            inbox.put(Sent(b"late", number))

        peers = [item.peer for item in handled(inbox, costs, 0.5)]
        assert 20 <= peers.count(b"busy") <= 30
        assert b"owing" not in peers

    trio.run(main)


def test_only_the_peer_waits_whose_queue_is_full() -> None:
    async def main() -> None:
        inbox: Inbox[Sent] = Inbox(2, 100)
        await inbox.put_when_there_is_room(b"p", Sent(b"p", 0), 1_000)  # Longer than the queue.
        await inbox.put_when_there_is_room(b"q", Sent(b"q", 0), 40)
        await inbox.put_when_there_is_room(b"q", Sent(b"q", 1), 40)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(inbox.put_when_there_is_room, b"p", Sent(b"p", 1), 1)
            nursery.start_soon(inbox.put_when_there_is_room, b"q", Sent(b"q", 2), 1)
            await wait_all_tasks_blocked()
            assert len(inbox) == 3
            assert {inbox.take(), inbox.take()} == {Sent(b"p", 0), Sent(b"q", 0)}
        assert len(inbox) == 3

    trio.run(main)


def test_an_item_takes_the_room_of_all_its_messages() -> None:
    async def main() -> None:
        inbox: Inbox[Sent] = Inbox(4)
        await inbox.put_when_there_is_room(b"p", Sent(b"p", 0), 1, 3)
        await inbox.put_when_there_is_room(b"p", Sent(b"p", 1), 1, 3)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(inbox.put_when_there_is_room, b"p", Sent(b"p", 2), 1, 1)
            await wait_all_tasks_blocked()
            assert len(inbox) == 2
            assert inbox.take() == Sent(b"p", 0)
        assert len(inbox) == 2

    trio.run(main)


def test_items_that_are_not_kept_make_room() -> None:
    async def main() -> None:
        inbox: Inbox[Sent] = Inbox(1)
        inbox.put(Sent(b"p", 0))
        inbox.put(Sent(b"q", 0))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(inbox.put_when_there_is_room, b"p", Sent(b"p", 1), 0)
            await wait_all_tasks_blocked()
            inbox.keep(lambda item: item.peer == b"q")
        assert {inbox.take(), inbox.take()} == {Sent(b"q", 0), Sent(b"p", 1)}
        assert inbox.take() is None

    trio.run(main)


def test_an_item_that_waits_for_those_of_others_is_noticed() -> None:
    clock = MockClock()

    async def main() -> None:
        inbox: Inbox[Sent] = Inbox(10)
        inbox.put(Sent(b"p", 0))
        clock.jump(WAITED_S_MAX / 2)
        inbox.take()
        assert inbox.delayed_at < 0
        inbox.put(Sent(b"p", 1))
        clock.jump(2 * WAITED_S_MAX)
        inbox.take()
        assert inbox.delayed_at == trio.current_time()

    trio.run(main, clock=clock)
