"""Peers find each other in the local network, and believe nothing that is no address."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from smartpubsub import Node
from smartpubsub.node.identity import Identity
from smartpubsub.node.transport import mdns
from smartpubsub.node.transport.contacts import contact_at, text_of
from smartpubsub.node.transport.mdns import MdnsError, contact_in, record_of
from tests.node.hosts import LOOPBACK, eventually, holds, run

OWN, OTHER, THIRD = Identity.new(), Identity.new(), Identity.new()
GROUP = "224.0.0.251"


def at(port: int, identity: Identity = OTHER) -> str:
    return f"/ip4/127.0.0.1/tcp/{port}/p2p/{identity}"


# --- records ---


def test_a_record_tells_where_a_peer_is() -> None:
    contact = contact_in(record_of([at(1), at(2)]), OWN.peer)

    assert contact is not None
    assert [text_of(contact.peer, address) for address in contact.addresses] == [at(1), at(2)]


def test_a_record_of_somebody_elses_making_is_read() -> None:
    strings = [b"name=x", b"dnsaddr=/ip4/127.0.0.1/udp/1/quic-v1/p2p/12D3KooW", b"", b"dnsaddr="]
    strings += [b"dnsaddr=" + at(7).encode(), b"dnsaddr=\xff"]
    record = b"".join(bytes([len(string)]) + string for string in strings)

    assert contact_in(record, OWN.peer) == contact_at(at(7))


def test_a_record_is_of_one_peer() -> None:
    record = record_of([at(1), at(2, THIRD), at(3)])

    contact = contact_in(record, OWN.peer)

    assert contact is not None
    assert [text_of(contact.peer, address) for address in contact.addresses] == [at(1), at(3)]


def test_a_record_has_so_many_addresses() -> None:
    record = record_of([at(port) for port in range(1, 6)]) + record_of(
        [at(port) for port in (6, 7)]
    )
    record += record_of([at(port) for port in range(8, 16)])

    contact = contact_in(record, OWN.peer)

    assert contact is not None
    assert len(contact.addresses) == mdns.ADDRESS_COUNT_MAX


def test_a_peer_does_not_find_itself() -> None:
    assert contact_in(record_of([at(1, OWN)]), OWN.peer) is None


@given(st.binary(max_size=300))
def test_garbage_tells_of_nobody(record: bytes) -> None:
    assert contact_in(record, OWN.peer) is None


# --- in a network ---


def has_multicast() -> bool:
    """Whether what is sent to a group on loopback comes back."""
    loopback = socket.inet_aton("127.0.0.1")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as here:
        try:
            here.bind(("", 0))
            membership = socket.inet_aton(GROUP) + loopback
            here.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
            here.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, loopback)
            here.settimeout(1)
            here.sendto(b"is anybody there?", (GROUP, here.getsockname()[1]))
            return here.recv(100) == b"is anybody there?"
        except OSError:
            return False


def test_nodes_find_each_other_in_the_local_network(tmp_path: Path) -> None:
    if not has_multicast():
        pytest.skip("this machine has no multicast on loopback")

    async def main() -> None:
        async with (
            Node(data=tmp_path / "a", listen=[LOOPBACK], mdns=True) as a,
            Node(data=tmp_path / "b", listen=[LOOPBACK], mdns=True) as b,
        ):
            await eventually(lambda: holds(a.peers(), lambda peers: peers == b.addresses))
            await eventually(lambda: holds(b.peers(), lambda peers: peers == a.addresses))
            async with b.subscribe("rain") as events:
                await a.publish("rain", b"here too")
                assert (await anext(events)).payload == b"here too"

    run(main)
    assert [each.name for each in threading.enumerate() if "zeroconf" in each.name] == []


def test_a_network_that_cannot_be_looked_through_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(**_: object) -> None:
        raise OSError(19, "No such device")

    monkeypatch.setattr(mdns, "Zeroconf", fail)

    async def main() -> None:
        with pytest.raises(MdnsError, match="No such device; run the node without mdns"):
            async with Node(data=tmp_path, listen=[LOOPBACK], mdns=True):
                await trio.sleep_forever()

    run(main)


def test_a_node_without_ipv4_cannot_look_around() -> None:
    async def main() -> None:
        own = contact_at(f"/ip6/::1/tcp/4001/p2p/{OWN}")
        with pytest.raises(MdnsError, match="needs an address of IPv4"):
            await mdns.look_around(own, lambda _: trio.sleep(0))

    run(main)
