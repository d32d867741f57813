"""libp2p's mDNS discovery: each peer in the local network has a TXT record with its addresses."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from socket import inet_aton

import trio
from multiaddr import Multiaddr
from trio_typing import TaskStatus
from zeroconf import ServiceBrowser, ServiceInfo, ServiceListener, Zeroconf

from smartpubsub.errors import SmartPubSubError
from smartpubsub.kademlia.keys import Contact
from smartpubsub.node.config_values import PEER_ADDRESSES
from smartpubsub.node.transport.contacts import contact_at, text_of
from smartpubsub.node.transport.streams import shielded
from smartpubsub.seam import Peer

SERVICE = "_p2p._udp.local."
ATTRIBUTE = b"dnsaddr="
ADDRESS_COUNT_MAX = 8
STRING_BYTES_MAX = 255
FOUND_COUNT_MAX = 64
"""Peers found and not met yet; peers beyond the limit are found again later."""
CLOSE_S_MAX = 5.0


class MdnsError(SmartPubSubError):
    """mDNS does not work here."""


def record_of(addresses: Sequence[str]) -> bytes:
    """The TXT record of a peer with these addresses.

    >>> record_of(["/ip4/10.0.0.1/tcp/4001/p2p/12D3KooW"])
    b'+dnsaddr=/ip4/10.0.0.1/tcp/4001/p2p/12D3KooW'
    """
    strings = [ATTRIBUTE + address.encode() for address in addresses[:ADDRESS_COUNT_MAX]]
    return b"".join(
        bytes([len(string)]) + string for string in strings if len(string) <= STRING_BYTES_MAX
    )


def contact_in(record: bytes, own: Peer) -> Contact | None:
    """Read the peer in a TXT record; None if it is unusable or this node."""
    addresses: list[bytes] = []
    peer: Peer | None = None
    while record and len(addresses) < ADDRESS_COUNT_MAX:
        string, record = record[1 : 1 + record[0]], record[1 + record[0] :]
        contact = _contact(string)
        # A record describes one peer, the first that it names.
        if contact is not None and peer in (None, contact.peer):
            peer = contact.peer
            addresses += contact.addresses
    if peer is None or peer == own:
        return None
    return Contact.of(peer, tuple(addresses))


def _contact(string: bytes) -> Contact | None:
    if not string.startswith(ATTRIBUTE):
        return None
    with suppress(ValueError):
        (address,) = PEER_ADDRESSES.read([string[len(ATTRIBUTE) :].decode()])
        return contact_at(address)
    return None


async def look_around(
    own: Contact,
    meet: Callable[[Contact], Awaitable[None]],
    *,
    task_status: TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Announce this node, and meet the peers that announce themselves, until cancelled."""
    found, finding = trio.open_memory_channel[Contact](FOUND_COUNT_MAX)
    zeroconf = await _open(_interfaces(own))
    browser: ServiceBrowser | None = None
    try:
        listener = _Listener(own.peer, found, trio.lowlevel.current_trio_token())
        browser = await trio.to_thread.run_sync(ServiceBrowser, zeroconf, SERVICE, listener)
        task_status.started()
        await trio.to_thread.run_sync(zeroconf.register_service, _service(own))
        async for contact in finding:
            await meet(contact)
    finally:
        with shielded(CLOSE_S_MAX):
            await trio.to_thread.run_sync(_close, zeroconf, browser)


async def _open(interfaces: list[str]) -> Zeroconf:
    if not interfaces:
        raise MdnsError("mdns needs an address of IPv4 to listen on, such as /ip4/0.0.0.0/tcp/4001")
    try:
        return await trio.to_thread.run_sync(partial(Zeroconf, interfaces=interfaces))
    except OSError as error:
        raise MdnsError(
            f"mDNS cannot search the local network: {error.strerror or error};"
            " run the node without mdns"
        ) from error


def _close(zeroconf: Zeroconf, browser: ServiceBrowser | None) -> None:
    if browser is not None:
        browser.cancel()  # Its thread would run for ever.
    zeroconf.close()


def _interfaces(own: Contact) -> list[str]:
    """The networks in which this node has an address."""
    parsed = [Multiaddr(address) for address in own.addresses]
    hosts = [a.value_for_protocol("ip4") for a in parsed if a.protocols()[0].name == "ip4"]
    return list(dict.fromkeys(hosts))


def _service(own: Contact) -> ServiceInfo:
    # A random name for each start, as the specification requires.
    name = secrets.token_hex(16)
    return ServiceInfo(
        SERVICE,
        f"{name}.{SERVICE}",
        addresses=[inet_aton(host) for host in _interfaces(own)],
        port=int(Multiaddr(own.addresses[0]).value_for_protocol("tcp") or 0),
        properties=record_of([text_of(own.peer, address) for address in own.addresses]),
        server=f"{name}.local.",
    )


class _Listener(ServiceListener):
    """Receives services, in zeroconf's thread."""

    def __init__(
        self,
        own: Peer,
        found: trio.MemorySendChannel[Contact],
        token: trio.lowlevel.TrioToken,
    ) -> None:
        self._own = own
        self._found = found
        self._token = token

    def add_service(self, zc: Zeroconf, type_: str, name: str) -> None:
        """Report a new peer."""
        service = zc.get_service_info(type_, name)
        contact = contact_in(service.text, self._own) if service and service.text else None
        if contact is not None:
            with suppress(trio.RunFinishedError):
                self._token.run_sync_soon(self._report, contact)

    def _report(self, contact: Contact) -> None:
        with suppress(trio.WouldBlock, trio.ClosedResourceError, trio.BrokenResourceError):
            self._found.send_nowait(contact)

    def update_service(self, zc: Zeroconf, type_: str, name: str) -> None:
        """Report a peer with new addresses."""
        self.add_service(zc, type_, name)

    def remove_service(self, zc: Zeroconf, type_: str, name: str) -> None:
        """Ignore a peer that leaves: its connections close."""
