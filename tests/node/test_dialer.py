"""Dialling: which addresses of a peer are tried."""

from collections.abc import Callable
from random import Random

import pytest
import trio
from multiaddr import Multiaddr

from smartpubsub.node.transport.addresses import AddressBook
from smartpubsub.node.transport.backoff import Backoff
from smartpubsub.node.transport.connections import Connections
from smartpubsub.node.transport.counts import Counts
from smartpubsub.node.transport.dialer import Dialer
from smartpubsub.node.transport.hearsay import FAILURES_MAX, Hearsay
from smartpubsub.node.transport.host_settings import HostSettings
from smartpubsub.node.transport.streams import BannedError, UnreachableError
from smartpubsub.seam import Peer
from tests.node.hosts import connections, run


def address_at(port: int) -> bytes:
    return bytes(Multiaddr(f"/ip4/127.0.0.1/tcp/{port}").to_bytes())


def dialer_with(
    own: Connections,
    book: AddressBook,
    hearsay: Hearsay,
    on_end: Callable[[Peer], None] = lambda _: None,
) -> Dialer:
    return Dialer(
        own,
        book,
        Backoff(1.0, 1.0, 10, Random(1)),
        hearsay,
        HostSettings(),
        Counts(),
        on_failure=on_end,
        on_departed=on_end,
        on_unknown=on_end,
    )


def test_an_address_that_becomes_known_while_another_one_is_tried_is_tried_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gone: list[Peer] = []

    async def main() -> None:
        async with connections() as own, connections() as other:
            book = AddressBook(10, 10, 100)
            [left] = await trio.open_tcp_listeners(0, host="127.0.0.1")
            port = left.socket.getsockname()[1]
            await left.aclose()
            book.hear(other.peer, [address_at(port)])
            dial = own.dial

            async def dial_and_hear(peer: Peer, address: bytes) -> None:
                book.hear(peer, other.addresses)
                await dial(peer, address)

            monkeypatch.setattr(own, "dial", dial_and_hear)
            await dialer_with(own, book, Hearsay(10), gone.append).connect(other.peer)
            assert other.peer in own
            assert gone == []

    run(main)


def test_a_peer_with_ever_new_addresses_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[bytes] = []

    async def main() -> None:
        async with connections() as own:
            book = AddressBook(10, 10, 100)

            def name_another() -> None:
                port = 1_000 + len(tried)
                book.hear(b"peer", [address_at(port)])

            async def fail(_peer: Peer, address: bytes) -> None:
                tried.append(address)
                name_another()
                raise UnreachableError

            monkeypatch.setattr(own, "dial", fail)
            name_another()
            with pytest.raises(UnreachableError):
                await dialer_with(own, book, Hearsay(10)).connect(b"peer")

    run(main)
    assert len(tried) == HostSettings().address_tries_max


@pytest.mark.parametrize("is_named_by_another", [False, True])
def test_an_address_that_only_unheeded_peers_name_is_not_dialled(
    is_named_by_another: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[bytes] = []
    hearsay = Hearsay(10)
    for _ in range(FAILURES_MAX):
        hearsay.on_failure([b"liar"], 0.0)

    async def fail(_peer: Peer, address: bytes) -> None:
        tried.append(address)
        raise UnreachableError

    async def main() -> None:
        async with connections() as own:
            book = AddressBook(10, 10, 100)
            book.hear(b"peer", [address_at(1_001)], b"liar")
            if is_named_by_another:
                book.hear(b"peer", [address_at(1_001)], b"honest")
            monkeypatch.setattr(own, "dial", fail)
            monkeypatch.setattr(trio, "current_time", lambda: 0.0)
            with pytest.raises(UnreachableError):
                await dialer_with(own, book, hearsay).connect(b"peer")

    run(main)
    assert len(tried) == is_named_by_another


@pytest.mark.parametrize(
    ("error", "blamed"), [(UnreachableError, [b"other", b"source"]), (BannedError, [])]
)
def test_each_failed_dial_counts_against_the_source_of_its_address(
    error: type[UnreachableError], blamed: list[Peer], monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[Peer] = []
    hearsay = Hearsay(10)
    monkeypatch.setattr(hearsay, "on_failure", lambda sources, _now: found.extend(sources))

    async def fail(_peer: Peer, _address: bytes) -> None:
        raise error

    async def main() -> None:
        async with connections() as own:
            book = AddressBook(10, 10, 100)
            book.hear(b"peer", [address_at(1_001)], b"source")
            book.hear(b"peer", [address_at(1_002)], b"other")
            monkeypatch.setattr(own, "dial", fail)
            with pytest.raises(UnreachableError):
                await dialer_with(own, book, hearsay).connect(b"peer")

    run(main)
    assert sorted(found) == blamed
