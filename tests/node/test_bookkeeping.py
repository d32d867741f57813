"""Timers, addresses, backoffs and idle connections: what a host keeps, and how much of it."""

from dataclasses import dataclass
from random import Random
from typing import Any

import pytest
import trio
from multiaddr import Multiaddr

from smartpubsub.node.identity import Identity
from smartpubsub.node.transport.addresses import AddressBook, transport_address
from smartpubsub.node.transport.backoff import Backoff
from smartpubsub.node.transport.inbox import Inbox
from smartpubsub.node.transport.timers import Clock, Timers
from smartpubsub.node.transport.turns import Turns
from smartpubsub.node.transport.usage import Usage
from smartpubsub.seam import TimerFired

PEER, OTHER = Identity.of(bytes(32)), Identity.of(b"\1" * 32)


def address(text: str) -> bytes:
    written: bytes = Multiaddr(text).to_bytes()
    return written


def tcp(port: int) -> bytes:
    return address(f"/ip4/10.0.0.1/tcp/{port}")


# --- timers ---


def test_a_clock_never_goes_back() -> None:
    clock = Clock()
    times = [clock.now() for _ in range(100)]

    assert times == sorted(times)


def test_timers_are_due_in_order() -> None:
    timers = Timers()
    for name, at in (("b", 2), ("a", 1), ("c", 3), ("b2", 2)):
        timers.set(name, at)

    assert timers.next_at == 1
    due = [timers.take_due(2) for _ in range(4)]
    assert due == [TimerFired("a"), TimerFired("b"), TimerFired("b2"), None]
    assert (timers.next_at, len(timers)) == (3, 1)


def test_a_timer_that_is_set_again_is_moved() -> None:
    timers = Timers()
    timers.set("a", 1)
    timers.set("a", 5)
    assert timers.take_due(4) is None

    timers.set("a", 2)
    assert timers.take_due(4) == TimerFired("a")
    assert timers.take_due(10) is None


def test_a_timer_that_is_cancelled_is_forgotten() -> None:
    timers = Timers()
    timers.set("a", 1)
    timers.cancel("a")
    timers.cancel("never set")

    assert timers.next_at is None
    assert timers.take_due(10) is None


def test_timers_that_are_moved_often_take_no_room() -> None:
    timers = Timers()
    for at in range(10_000):
        timers.set("a", at)

    assert len(timers._heap) < 100
    assert timers.next_at == 9_999


@dataclass
class _Message:
    peer: bytes


def test_a_timer_of_a_peer_waits_for_its_turn() -> None:
    async def main() -> None:
        inbox, timers = Inbox[Any](10), Timers()
        turns = Turns(inbox, timers)
        timers.set("expensive", 1, peer=b"busy")
        inbox.put(_Message(b"busy"))
        inbox.charge(b"busy", 1.0)
        assert turns.next(2) == _Message(b"busy")

        inbox.put(_Message(b"other"))
        assert turns.next(2) == _Message(b"other")
        assert turns.next(2) == TimerFired("expensive", b"busy")
        assert turns.next(2) is None

    trio.run(main)


def test_a_timer_of_a_peer_that_costs_too_much_waits_longer() -> None:
    async def main() -> None:
        inbox, timers = Inbox[Any](10), Timers()
        delays_us = {b"busy": 5}
        turns = Turns(inbox, timers, lambda peer: delays_us.get(peer, 0))
        timers.set("expensive", 1, peer=b"busy")
        timers.set("cheap", 1, peer=b"other")
        assert turns.next(2) == TimerFired("cheap", b"other")
        assert turns.next(6) is None
        delays_us.clear()
        assert turns.next(7) == TimerFired("expensive", b"busy")

    trio.run(main)


def test_messages_that_have_come_precede_timers_that_become_due_later() -> None:
    async def main() -> None:
        inbox, timers = Inbox[Any](10), Timers()
        turns = Turns(inbox, timers)
        timers.set("first", 1)
        assert turns.next(1) == TimerFired("first")
        # Handling it has taken a whole turn: an answer has come, and its time limit has passed.
        inbox.put(_Message(b"a"))
        timers.set("late", 3)
        assert turns.next(4) == _Message(b"a")
        inbox.put(_Message(b"b"))
        assert turns.next(5) == TimerFired("late")
        assert turns.next(5) == _Message(b"b")

    trio.run(main)


def test_a_timer_that_is_set_again_has_only_its_new_properties() -> None:
    timers = Timers()
    timers.set("x", 1, may_be_early=True, peer=b"a")
    timers.set("x", 2)
    assert timers.take_early() == []
    assert timers.take_due(2) == TimerFired("x")


# --- addresses ---


@pytest.mark.parametrize(
    ("written", "usable"),
    [
        ("/ip4/10.0.0.1/tcp/1", "/ip4/10.0.0.1/tcp/1"),
        ("/ip6/::1/tcp/1", "/ip6/::1/tcp/1"),
        ("/dns4/node.example/tcp/1", "/dns4/node.example/tcp/1"),
        (f"/ip4/10.0.0.1/tcp/1/p2p/{PEER}", "/ip4/10.0.0.1/tcp/1"),
        ("/ip4/0.0.0.0/tcp/1", None),
        ("/ip6/::/tcp/1", None),
        ("/ip4/10.0.0.1/udp/1/quic-v1", None),
        ("/ip4/10.0.0.1/tcp/1/ws", None),
        (f"/ip4/10.0.0.1/tcp/1/p2p/{PEER}/p2p-circuit", None),
        ("/ip4/10.0.0.1", None),
    ],
)
def test_addresses_of_tcp_are_usable(written: str, usable: str | None) -> None:
    assert transport_address(address(written)) == (usable and address(usable))


@pytest.mark.parametrize("garbage", [b"", b"\x04\x7f", b"\xff" * 20, b"\x06\x0f\xa1"])
def test_garbage_is_no_address(garbage: bytes) -> None:
    assert transport_address(garbage) is None


def test_what_a_peer_says_of_itself_comes_first() -> None:
    book = AddressBook(10, 3, 100)
    book.hear(PEER.peer, [tcp(1), tcp(2)])
    book.learn(PEER.peer, [tcp(3)])
    book.hear(PEER.peer, [tcp(4)])

    assert book.of(PEER.peer) == (tcp(3), tcp(4), tcp(1), tcp(2))
    assert book.of(OTHER.peer) == ()


def test_one_peer_does_not_displace_addresses_that_others_state() -> None:
    book = AddressBook(10, 4, 100)
    book.hear(PEER.peer, [tcp(1), tcp(2)], b"honest")
    for port in range(10, 30):
        book.hear(PEER.peer, [tcp(port), tcp(port + 100)], b"liar")

    assert book.of(PEER.peer) == (tcp(29), tcp(1), tcp(129), tcp(2))

    for number in range(10):
        book.hear(PEER.peer, [tcp(1_000 + number)], b"%d" % number)
    assert len(book.of(PEER.peer)) == 4


def test_a_book_forgets_peers_whose_addresses_are_no_longer_awaited() -> None:
    """Other peers can name any number of peers that do not exist."""
    book = AddressBook(2, 3, 100)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(book.wait_for, PEER.peer)
            for number in range(5):
                with trio.move_on_after(0):
                    await book.wait_for(b"%d" % number)
            with trio.move_on_after(0):
                await book.wait_for(PEER.peer)
            assert len(book) == 1
            book.hear(PEER.peer, [tcp(1)])

    trio.run(main)
    assert len(book) == 1


def test_a_book_has_room_for_so_much() -> None:
    book = AddressBook(2, 3, 100)
    for number in range(5):
        book.hear(b"%d" % number, [tcp(port) for port in range(1, 10)])
        book.learn(b"%d" % number, [tcp(port) for port in range(11, 20)])

    assert len(book) == 4
    assert book.of(b"2") == ()
    assert book.of(b"4") == tuple(map(tcp, (11, 12, 13, 1, 2, 3)))


def test_addresses_that_are_too_long_are_passed_over() -> None:
    book = AddressBook(10, 3, 20)
    book.hear(PEER.peer, [address(f"/dns4/{'a' * 30}/tcp/1"), tcp(1)])

    assert book.of(PEER.peer) == (tcp(1),)


# --- backoff ---


def test_whoever_fails_is_left_alone_for_longer_each_time() -> None:
    backoff = Backoff(1, 60, 10, Random(1))
    assert backoff.is_over("peer", 0)

    backoff.fail("peer", 0)
    assert not backoff.is_over("peer", 0.7)
    assert backoff.is_over("peer", 1.3)
    for _ in range(100):
        backoff.fail("peer", 0)
    assert not backoff.is_over("peer", 40)
    assert backoff.is_over("peer", 80)

    backoff.succeed("peer")
    assert backoff.is_over("peer", 0)


def test_of_many_who_fail_the_latest_are_remembered() -> None:
    backoff = Backoff(1, 60, 2, Random(1))
    for peer in "abc":
        backoff.fail(peer, 0)

    assert [backoff.is_over(peer, 0) for peer in "abc"] == [True, False, False]


# --- usage ---


def test_the_idlest_are_those_that_were_not_of_use_for_longest() -> None:
    usage = Usage()
    for now, peer in enumerate((b"a", b"b", b"c", b"d")):
        usage.connect(peer, now)
    usage.touch(b"a", 10)
    usage.touch(b"stranger", 10)
    usage.disconnect(b"c")

    assert usage.idlest(5, 3) == [b"b", b"d"]
    assert usage.idlest(5, 2) == [b"b"]
    assert usage.idlest(1, 20) == [b"b"]
