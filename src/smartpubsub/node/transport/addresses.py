"""The address book of a host."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from functools import lru_cache
from itertools import zip_longest
from typing import TypeVar

import trio
from multiaddr import Multiaddr
from multiaddr.protocols import P_P2P

from smartpubsub.seam import Peer

T = TypeVar("T")

_UNSPECIFIED = frozenset({"0.0.0.0", "::"})
_HOSTS = ("ip4", "ip6", "dns", "dns4", "dns6")


class AddressBook:
    """The addresses of the latest peers.

    Addresses that a peer states itself come before those that other peers state, and are not
    replaced by them. Other peers may lie, so each of them has a share: what one peer states neither
    replaces what another has stated, nor comes before all of it.
    """

    def __init__(self, peer_count_max: int, address_count_max: int, address_bytes_max: int) -> None:
        self._peer_count_max = peer_count_max
        self._address_count_max = address_count_max
        self._address_bytes_max = address_bytes_max
        self._awaited: dict[Peer, trio.Event] = {}
        self._own: OrderedDict[Peer, tuple[bytes, ...]] = OrderedDict()
        self._hearsay: OrderedDict[Peer, dict[Peer, tuple[bytes, ...]]] = OrderedDict()
        """The addresses of each peer by the peer that has stated them, the latest one last."""

    def __len__(self) -> int:
        return len(self._own) + len(self._hearsay) + len(self._awaited)

    def hear(self, peer: Peer, addresses: Sequence[bytes], source: Peer = b"") -> None:
        """Record addresses that another peer, or the core, states; the latest come first."""
        if not addresses:
            return
        usable = self._usable(addresses)
        stated = self._hearsay.get(peer, {})
        known = stated.get(source, ())
        if usable and usable != known[: len(usable)]:
            usable += tuple(address for address in known if address not in usable)
            others = {each: kept for each, kept in stated.items() if each != source}
            self._keep(self._hearsay, peer, self._trimmed(others | {source: usable}))

    def _trimmed(self, stated: dict[Peer, tuple[bytes, ...]]) -> dict[Peer, tuple[bytes, ...]]:
        """As many addresses as a peer may have: the peer that has stated most loses its oldest."""
        trimmed = {source: kept[: self._address_count_max] for source, kept in stated.items()}
        while sum(map(len, trimmed.values())) > self._address_count_max:
            largest = max(trimmed, key=lambda source: len(trimmed[source]))
            trimmed[largest] = trimmed[largest][:-1]
            if not trimmed[largest]:
                del trimmed[largest]
        return trimmed

    def learn(self, peer: Peer, addresses: Sequence[bytes]) -> tuple[bytes, ...]:
        """Record addresses that a peer states itself; return the usable ones."""
        usable = self._usable(addresses)[: self._address_count_max]
        if usable:
            self._keep(self._own, peer, usable)
        return usable

    def of(self, peer: Peer) -> tuple[bytes, ...]:
        """The addresses of a peer, the best first."""
        own, stated = self._own.get(peer, ()), self._hearsay.get(peer, {})
        in_turn = zip_longest(*reversed(stated.values()))
        hearsay = [address for turn in in_turn for address in turn if address is not None]
        return tuple(dict.fromkeys((*own, *hearsay)))

    def sources_of(self, peer: Peer, address: bytes) -> list[Peer]:
        """The other peers that have stated an address of a peer.

        There are none if the peer has stated addresses itself.
        """
        if peer in self._own:
            return []
        stated = self._hearsay.get(peer, {})
        return [source for source, kept in stated.items() if source and address in kept]

    async def wait_for(self, peer: Peer) -> None:
        """Wait until an address of a peer is known."""
        if self.of(peer):
            return
        is_known = self._awaited.setdefault(peer, trio.Event())
        try:
            await is_known.wait()
        finally:
            # Other peers invent peers without addresses, so those must not stay here.
            if self._awaited.get(peer) is is_known and not is_known.statistics().tasks_waiting:
                del self._awaited[peer]

    def _usable(self, addresses: Sequence[bytes]) -> tuple[bytes, ...]:
        short = [address for address in addresses if len(address) <= self._address_bytes_max]
        plain = [transport_address(address) for address in short[: 2 * self._address_count_max]]
        return tuple(dict.fromkeys(filter(None, plain)))

    def _keep(self, kept: OrderedDict[Peer, T], peer: Peer, addresses: T) -> None:
        kept[peer] = addresses
        if peer in self._awaited:
            self._awaited.pop(peer).set()
        kept.move_to_end(peer)
        if len(kept) > self._peer_count_max:
            kept.popitem(last=False)


@lru_cache(maxsize=1 << 12)
def transport_address(address: bytes) -> bytes | None:
    """A TCP address without the peer id at its end, if any; None if it is no TCP address.

    >>> transport_address(Multiaddr("/ip4/10.0.0.1/tcp/4001").to_bytes()).hex()
    '040a000001060fa1'
    """
    try:
        parsed = Multiaddr(address)
        names = [protocol.name for protocol in parsed.protocols()]
        host = parsed.value_for_protocol(names[0]) if names else None
        str(parsed)  # The last part of an address is not checked before it is used.
    except Exception:  # The library passes on errors of everything that it uses.
        return None
    if names[:2] not in [[host_kind, "tcp"] for host_kind in _HOSTS] or host in _UNSPECIFIED:
        return None
    if names[2:] == ["p2p"]:
        plain: bytes = parsed.decapsulate_code(P_P2P).to_bytes()
        return plain
    return address if len(names) == 2 else None
