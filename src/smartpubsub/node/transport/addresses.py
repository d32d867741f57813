"""Where peers can be reached, as far as a host has heard."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from functools import lru_cache

import trio
from multiaddr import Multiaddr
from multiaddr.exceptions import Error as MultiaddrError
from multiaddr.protocols import P_P2P

from smartpubsub.seam import Peer

_UNSPECIFIED = frozenset({"0.0.0.0", "::"})
_HOSTS = ("ip4", "ip6", "dns", "dns4", "dns6")


class AddressBook:
    """The addresses of the peers that were heard of last.

    What a peer says of itself comes before what others say of it, and nothing that others say
    replaces it.
    """

    def __init__(self, peer_count_max: int, address_count_max: int, address_bytes_max: int) -> None:
        self._peer_count_max = peer_count_max
        self._address_count_max = address_count_max
        self._address_bytes_max = address_bytes_max
        self._awaited: dict[Peer, trio.Event] = {}
        self._own: OrderedDict[Peer, tuple[bytes, ...]] = OrderedDict()
        self._hearsay: OrderedDict[Peer, tuple[bytes, ...]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._own) + len(self._hearsay)

    def hear(self, peer: Peer, addresses: Sequence[bytes]) -> None:
        """Somebody says where a peer is; the latest that was said comes first."""
        if not addresses:
            return
        usable = self._usable(addresses)
        known = self._hearsay.get(peer, ())
        if usable and usable != known[: len(usable)]:
            usable += tuple(address for address in known if address not in usable)
            self._keep(self._hearsay, peer, usable)

    def learn(self, peer: Peer, addresses: Sequence[bytes]) -> tuple[bytes, ...]:
        """A peer itself says where it is; what of that is usable."""
        usable = self._usable(addresses)[: self._address_count_max]
        if usable:
            self._keep(self._own, peer, usable)
        return usable

    def of(self, peer: Peer) -> tuple[bytes, ...]:
        """Where to try to reach a peer, the best first."""
        own, hearsay = self._own.get(peer, ()), self._hearsay.get(peer, ())
        return own + tuple(address for address in hearsay if address not in own)

    async def wait_for(self, peer: Peer) -> None:
        """Until it is known where a peer is."""
        if not self.of(peer):
            await self._awaited.setdefault(peer, trio.Event()).wait()

    def _usable(self, addresses: Sequence[bytes]) -> tuple[bytes, ...]:
        short = [address for address in addresses if len(address) <= self._address_bytes_max]
        plain = [transport_address(address) for address in short[: 2 * self._address_count_max]]
        return tuple(dict.fromkeys(filter(None, plain)))

    def _keep(
        self,
        kept: OrderedDict[Peer, tuple[bytes, ...]],
        peer: Peer,
        addresses: tuple[bytes, ...],
    ) -> None:
        kept[peer] = addresses[: self._address_count_max]
        if peer in self._awaited:
            self._awaited.pop(peer).set()
        kept.move_to_end(peer)
        if len(kept) > self._peer_count_max:
            kept.popitem(last=False)


@lru_cache(maxsize=1 << 12)
def transport_address(address: bytes) -> bytes | None:
    """An address of TCP without the peer id that may be at its end; None if it is no such.

    >>> transport_address(Multiaddr("/ip4/10.0.0.1/tcp/4001").to_bytes()).hex()
    '040a000001060fa1'
    """
    try:
        parsed = Multiaddr(address)
        names = [protocol.name for protocol in parsed.protocols()]
        host = parsed.value_for_protocol(names[0]) if names else None
    except (MultiaddrError, ValueError, LookupError, TypeError):
        return None
    if names[:2] not in [[host_kind, "tcp"] for host_kind in _HOSTS] or host in _UNSPECIFIED:
        return None
    if names[2:] == ["p2p"]:
        plain: bytes = parsed.decapsulate_code(P_P2P).to_bytes()
        return plain
    return address if len(names) == 2 else None
