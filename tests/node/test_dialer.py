"""Dialling: which addresses of a peer are tried."""

from random import Random

import pytest
import trio
from multiaddr import Multiaddr

from smartpubsub.node.transport.addresses import AddressBook
from smartpubsub.node.transport.backoff import Backoff
from smartpubsub.node.transport.counts import Counts
from smartpubsub.node.transport.dialer import Dialer
from smartpubsub.node.transport.hearsay import Hearsay
from smartpubsub.node.transport.host_settings import HostSettings
from smartpubsub.node.transport.streams import UnreachableError
from smartpubsub.seam import Peer
from tests.node.hosts import connections, run


def address_at(port: int) -> bytes:
    return bytes(Multiaddr(f"/ip4/127.0.0.1/tcp/{port}").to_bytes())


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
            dialler = Dialer(
                own,
                book,
                Backoff(1.0, 1.0, 10, Random(1)),
                Hearsay(10),
                HostSettings(),
                Counts(),
                on_failure=gone.append,
                on_departed=gone.append,
                on_unknown=gone.append,
            )
            await dialler.connect(other.peer)
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
            dialler = Dialer(
                own,
                book,
                Backoff(1.0, 1.0, 10, Random(1)),
                Hearsay(10),
                HostSettings(),
                Counts(),
                on_failure=lambda _peer: None,
                on_departed=lambda _peer: None,
                on_unknown=lambda _peer: None,
            )
            with pytest.raises(UnreachableError):
                await dialler.connect(b"peer")

    run(main)
    assert len(tried) == HostSettings().address_tries_max
