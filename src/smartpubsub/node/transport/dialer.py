"""Dialling: connects to peers that the node has messages for."""

from __future__ import annotations

from collections.abc import Callable, Collection

import trio

from smartpubsub.node.transport.addresses import AddressBook
from smartpubsub.node.transport.backoff import Backoff
from smartpubsub.node.transport.connections import Connections
from smartpubsub.node.transport.counts import Counts
from smartpubsub.node.transport.hearsay import Hearsay
from smartpubsub.node.transport.host_settings import HostSettings
from smartpubsub.node.transport.streams import (
    BannedError,
    ConnectionsRefusedError,
    Stream,
    UnreachableError,
)
from smartpubsub.seam import Peer


class Dialer:
    """Dials each peer once at a time, with backoff after failures."""

    def __init__(
        self,
        connections: Connections,
        book: AddressBook,
        backoff: Backoff,
        hearsay: Hearsay,
        settings: HostSettings,
        counts: Counts,
        on_failure: Callable[[Peer], None],
        on_departed: Callable[[Peer], None],
        on_unknown: Callable[[Peer], None],
    ) -> None:
        self._connections = connections
        self._book = book
        self._backoff = backoff
        self._hearsay = hearsay
        self._settings = settings
        self._counts = counts
        self._on_failure = on_failure
        self._on_departed = on_departed
        self._on_unknown = on_unknown
        self._dialling: dict[Peer, trio.Event] = {}
        self._at_once = trio.CapacityLimiter(settings.dial_count_max)

    async def open(self, peer: Peer, protocol: str) -> Stream:
        """Open a stream to a peer; connect first if necessary."""
        if not self._backoff.is_over((peer, protocol), trio.current_time()):
            raise UnreachableError("the peer did not speak the protocol a moment ago")
        await self.connect(peer)
        try:
            return await self._opened(peer, protocol)
        except UnreachableError:
            if peer in self._connections:
                raise
        # The connection had died unnoticed, so a new one may work.
        await self.connect(peer)
        return await self._opened(peer, protocol)

    async def _opened(self, peer: Peer, protocol: str) -> Stream:
        try:
            stream = await self._connections.open(peer, protocol)
        except UnreachableError:
            if peer in self._connections:
                self._backoff.fail((peer, protocol), trio.current_time())
            raise
        self._backoff.succeed((peer, protocol))
        return stream

    async def connect(self, peer: Peer) -> None:
        """Connect to a peer; a failure is reported once."""
        try:
            await self._have_connection(peer)
        except ConnectionsRefusedError:
            self._on_departed(peer)
            raise
        except UnreachableError:
            self._on_failure(peer)
            raise

    async def is_gone(self, peer: Peer) -> bool:
        """Whether no process listens any more at any address of a peer without a connection."""
        addresses = self._book.of(peer)[: self._settings.address_tries_max]
        if not addresses or peer in self._connections:
            return False
        for address in addresses:
            if not await self._connections.is_refused(address):
                return False
        return peer not in self._connections

    async def _have_connection(self, peer: Peer) -> None:
        while peer not in self._connections:
            under_way = self._dialling.get(peer)
            if under_way is None:
                await self._dial(peer)
            else:
                await under_way.wait()

    async def _dial(self, peer: Peer) -> None:
        if not self._backoff.is_over(peer, trio.current_time()):
            raise UnreachableError("the peer could not be reached a moment ago")
        self._dialling[peer] = done = trio.Event()
        try:
            await self._have_address(peer)
            async with self._at_once:
                await self._try_addresses(peer)
            self._backoff.succeed(peer)
        except UnreachableError:
            self._counts.failed_dials += 1
            self._backoff.fail(peer, trio.current_time())
            raise
        finally:
            del self._dialling[peer]
            done.set()

    async def _have_address(self, peer: Peer) -> None:
        """Give the overlay time to find the peer's address."""
        if not self._book.of(peer):
            self._on_unknown(peer)
            with trio.move_on_after(self._settings.find_s):
                await self._book.wait_for(peer)

    async def _try_addresses(self, peer: Peer) -> None:
        failures: dict[bytes, UnreachableError] = {}
        while (address := self._next_address(peer, failures)) is not None:
            try:
                await self._connections.dial(peer, address)
                return
            except BannedError:
                raise  # No other peer is to blame for that.
            except UnreachableError as error:
                failures[address] = error
                sources = self._book.sources_of(peer, address)
                self._hearsay.on_failure(sources, trio.current_time())
        if peer in self._connections:
            return  # The peer has dialled this node meanwhile.
        if not failures:
            raise UnreachableError("no address of the peer is known")
        # A peer has left only if no process listens at any of its addresses.
        errors = list(failures.values())
        others = [error for error in errors if not isinstance(error, ConnectionsRefusedError)]
        raise (others or errors)[-1]

    def _next_address(self, peer: Peer, tried: Collection[bytes]) -> bytes | None:
        """An address not tried yet; it may have become known since the last try."""
        tries_max = self._settings.address_tries_max
        if len(tried) >= tries_max:
            return None  # Other peers could name ever new addresses, and occupy the dialler.
        known = self._book.of(peer)[:tries_max]
        left = (address for address in known if address not in tried)
        return next((address for address in left if self._is_heeded(peer, address)), None)

    def _is_heeded(self, peer: Peer, address: bytes) -> bool:
        """Whether the peer has stated an address itself, or a peer that this node heeds has."""
        sources, now = self._book.sources_of(peer, address), trio.current_time()
        return not sources or any(self._hearsay.is_heeded(source, now) for source in sources)
