"""The libp2p connections of a node: listening, dialling and streams."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from socket import AF_INET, AF_INET6, AF_UNSPEC, SOCK_STREAM, AddressFamily, gaierror
from typing import Any, TypeAlias

import trio
from libp2p.abc import INetConn, INetStream, INetwork, INotifee
from libp2p.crypto.ed25519 import create_new_key_pair
from libp2p.custom_types import StreamHandlerFn, TProtocol
from libp2p.peer.id import ID
from libp2p.protocol_muxer.multiselect import Multiselect
from libp2p.protocol_muxer.multiselect_communicator import MultiselectCommunicator
from libp2p.tools.anyio_service import background_trio_service
from libp2p.utils.address_validation import get_available_interfaces
from multiaddr import Multiaddr
from trio_typing import TaskStatus

from smartpubsub.errors import SmartPubSubError
from smartpubsub.node.identity import Identity
from smartpubsub.node.transport import identify
from smartpubsub.node.transport.addresses import transport_address
from smartpubsub.node.transport.bans import Bans
from smartpubsub.node.transport.counts import Counts
from smartpubsub.node.transport.host_settings import HostSettings
from smartpubsub.node.transport.select import QuickClient
from smartpubsub.node.transport.streams import (
    STREAM_ERRORS,
    BannedError,
    ConnectionsRefusedError,
    Stream,
    StreamRefusedError,
    UnreachableError,
    end,
    shielded,
)
from smartpubsub.node.transport.swarm import (
    LOOPBACK,
    NEIGHBOURHOOD_BITS,
    MakeTcp,
    make_swarm,
    prefix_of,
)
from smartpubsub.seam import Peer

PING = "/ipfs/ping/1.0.0"
_PING_BYTES = 32

OnStream: TypeAlias = Callable[[Peer, Stream], Awaitable[None]]
OnConnection: TypeAlias = Callable[[Peer, bool], None]
"""Called when the first connection to a peer opens, and when the last one closes."""

OnFailure: TypeAlias = Callable[[Peer, Exception], None]
"""Called if reading from a peer has raised an exception, which it may raise again."""


class ListenError(SmartPubSubError):
    """An address on which the node cannot listen."""


class Connections:
    """All connections of a node."""

    def __init__(
        self,
        identity: Identity,
        settings: HostSettings,
        on_connection: OnConnection,
        counts: Counts | None = None,
        make_tcp: MakeTcp | None = None,
        bans: Bans | None = None,
        on_failure: OnFailure | None = None,
    ) -> None:
        self.peer = identity.peer
        self.addresses: tuple[bytes, ...] = ()
        """The node's addresses."""
        self._settings = settings
        self._counts = counts or Counts()
        self._on_connection = on_connection
        self._on_failure = on_failure or raise_again
        self._bans = bans or Bans(settings.ban_s, settings.peer_count_max)
        self._keys = create_new_key_pair(identity.seed)
        self._reported: dict[Peer, None] = {}
        """The peers reported as connected."""
        self._swarm = make_swarm(ID(identity.peer), self._keys, settings, self._counts, make_tcp)
        self._swarm.register_notifee(_Notifee(self._on_opened, self._on_closed))
        self._swarm.set_stream_handler(self._on_stream)
        self._select = Multiselect()
        self._select_client = QuickClient()
        self.serve(identify.PROTOCOL, self._say_who_this_is)
        self.serve(PING, _echo)

    def serve(self, protocol: str, on_stream: OnStream) -> None:
        """Set the handler for streams of a protocol; a stream ends when its handler returns."""

        async def handle(stream: INetStream) -> None:
            await on_stream(peer_of(stream), stream)

        self._select.add_handler(TProtocol(protocol), handle)

    async def run(
        self,
        listen: Sequence[str],
        announce: Sequence[str] = (),
        *,
        task_status: TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Listen until cancelled; announce these addresses, or those that the node listens on."""
        ending = trio.Event()
        async with trio.open_nursery() as nursery:
            # In its own task, because the start may be cancelled too.
            nursery.start_soon(_set_at_end, ending)
            await nursery.start(self._serve, listen, announce, ending)
            task_status.started()

    async def _serve(
        self,
        listen: Sequence[str],
        announce: Sequence[str],
        ending: trio.Event,
        *,
        task_status: TaskStatus[None],
    ) -> None:
        # A cancelled swarm leaves its sockets open, so close it instead.
        with trio.CancelScope(shield=True) as scope:
            try:
                async with background_trio_service(self._swarm):
                    await self._listen(listen, announce)
                    task_status.started()
                    await ending.wait()
                    scope.deadline = trio.current_time() + self._settings.close_s
                    await self._close_all()
            finally:
                with shielded(self._settings.close_s):
                    for listener in self._swarm.listeners.values():
                        await listener.close()

    async def _listen(self, listen: Sequence[str], announce: Sequence[str]) -> None:
        for address in listen:
            if not await self._swarm.listen(_parsed(address)):
                raise ListenError(
                    f"cannot listen on {address}; is the port in use, or the address that of"
                    " another machine?"
                )
        listeners = self._swarm.listeners.values()
        bound = [address for listener in listeners for address in listener.get_addrs()]
        chosen = [_parsed(address) for address in announce] or [
            a for b in bound for a in _spread(b)
        ]
        usable = [transport_address(address.to_bytes()) for address in chosen]
        self.addresses = tuple(dict.fromkeys(filter(None, usable)))

    async def _close_all(self) -> None:
        async with trio.open_nursery() as nursery:
            for connection in self._swarm.get_connections():
                nursery.start_soon(connection.close)

    # --- peers ---

    @property
    def count(self) -> int:
        """The number of connections."""
        return self._swarm.get_total_connections()

    def __contains__(self, peer: Peer) -> bool:
        return bool(self._open_to(peer))

    def _open_to(self, peer: Peer) -> list[INetConn]:
        return [c for c in self._swarm.get_connections(ID(peer)) if not c.is_closed]

    def prefix_of(self, peer: Peer) -> str:
        """The address prefix of a peer's connection; empty if no limit applies to it."""
        for connection in self._open_to(peer):
            muxed: Any = connection.muxed_conn
            host, _ = muxed.get_remote_address() or ("", 0)
            prefix = prefix_of(host, NEIGHBOURHOOD_BITS)
            return "" if prefix == LOOPBACK and self._settings.loopback_is_exempt else prefix
        return ""

    async def dial(self, peer: Peer, address: bytes) -> None:
        """Connect to a peer at an address."""
        if self._bans.is_banned(peer, trio.current_time()):
            raise BannedError(f"{ID(peer)} is banned")
        try:
            with trio.fail_after(self._settings.dial_s):
                await self._dial_any(peer, await resolved(Multiaddr(address)))
        except STREAM_ERRORS as error:
            kind = ConnectionsRefusedError if _is_refusal(error) else UnreachableError
            raise kind(f"no connection to {ID(peer)}: {error}") from error

    async def _dial_any(self, peer: Peer, places: Sequence[Multiaddr]) -> None:
        for place in places[:-1]:
            with suppress(*STREAM_ERRORS):
                await self._swarm.dial_addr(place, ID(peer))
                return
        await self._swarm.dial_addr(places[-1], ID(peer))

    async def problem_at(self, address: bytes) -> str:
        """Why no connection to an address can be opened; empty if it can."""
        place = Multiaddr(address)
        try:
            with trio.fail_after(self._settings.dial_s):
                host, port = _host_of(place), int(place.value_for_protocol("tcp"))
                stream = await trio.open_tcp_stream(host, port)
        except trio.TooSlowError:
            return f"no answer within {self._settings.dial_s:g} seconds"
        except gaierror as error:
            return f"{host}: {error.strerror}"
        except (OSError, ValueError, LookupError) as error:
            return _reason(error)
        await stream.aclose()
        return ""

    async def is_refused(self, address: bytes) -> bool:
        """Whether the machine at an address refuses connections; closes one that it accepts."""
        place = Multiaddr(address)
        try:
            host, port = _host_of(place), int(place.value_for_protocol("tcp"))
            with trio.fail_after(self._settings.dial_s):
                stream = await trio.open_tcp_stream(host, port)
        except (OSError, ValueError, LookupError, trio.TooSlowError) as error:
            return _is_refusal(error)
        await stream.aclose()
        return False

    async def open(self, peer: Peer, protocol: str) -> Stream:
        """Open a stream on an existing connection."""
        connections = self._open_to(peer)
        if not connections:
            raise UnreachableError(f"there is no connection to {ID(peer)}")
        try:
            with trio.fail_after(self._settings.negotiate_s):
                stream = await connections[-1].new_stream()
                await self._negotiate(stream, protocol)
        except STREAM_ERRORS as error:
            raise UnreachableError(f"no stream for {protocol} to {ID(peer)}: {error}") from error
        return stream

    async def _negotiate(self, stream: INetStream, protocol: str) -> None:
        is_agreed = False
        try:
            await self._select_client.select_one_of(
                [TProtocol(protocol)], MultiselectCommunicator(stream)
            )
            is_agreed = True
        finally:
            if not is_agreed:
                await end(stream, self._settings.close_s, politely=False)

    async def close(self, peer: Peer) -> None:
        """Close all connections to a peer."""
        await self._swarm.close_peer(ID(peer))

    @property
    def protocols(self) -> list[str]:
        """The ids of the protocols that this node serves."""
        return [str(protocol) for protocol in self._select.get_protocols() if protocol]

    async def ask_identity(self, peer: Peer) -> identify.Identified:
        """Ask a connected peer for its addresses and protocols."""
        stream = await self.open(peer, identify.PROTOCOL)
        try:
            return await identify.read(stream, self._settings.identify_bytes_max)
        finally:
            await end(stream, self._settings.close_s, politely=True)

    # --- callbacks of libp2p ---

    def _on_opened(self, peer: Peer) -> None:
        if peer not in self._reported:
            self._reported[peer] = None
            self._on_connection(peer, True)

    def _on_closed(self, peer: Peer) -> None:
        """Report the end of a peer's last connection, unless its begin was never reported."""
        if peer in self._reported and peer not in self:
            del self._reported[peer]
            self._on_connection(peer, False)

    async def _on_stream(self, stream: INetStream) -> None:
        """Serve a stream; an exception here would end the swarm, and a peer may have caused it."""
        connection: Any = stream
        if self._bans.is_banned(peer_of(stream), trio.current_time()):
            self._counts.refused_banned += 1
            await end(stream, self._settings.close_s, politely=False)
            return
        if len(connection.swarm_conn.get_streams()) > self._settings.stream_count_max:
            self._counts.refused_streams += 1
            await end(stream, self._settings.close_s, politely=False)
            return
        is_served = False
        try:
            handle = await self._agreed(stream)
            await handle(stream)
            is_served = True
        except (*STREAM_ERRORS, SmartPubSubError):
            pass
        except Exception as error:
            self._on_failure(peer_of(stream), error)
        finally:
            await end(stream, self._settings.close_s, politely=is_served)

    async def _agreed(self, stream: INetStream) -> StreamHandlerFn:
        """Find the handler of the protocol that the peer asks for."""
        wanted = MultiselectCommunicator(stream)
        try:
            _, handle = await self._select.negotiate(wanted, int(self._settings.negotiate_s))
        except UnicodeDecodeError:
            handle = None
        if handle is None:
            raise StreamRefusedError("the peer proposes no protocol")
        return handle

    async def _say_who_this_is(self, _: Peer, stream: Stream) -> None:
        key = self._keys.public_key.serialize()
        said = identify.written(key, self.addresses, self.protocols, _seen_at(stream))
        await stream.write(said)


class _Notifee(INotifee):
    """Reports connections that open and close."""

    def __init__(self, on_made: Callable[[Peer], None], on_gone: Callable[[Peer], None]) -> None:
        self._on_opened = on_made
        self._on_closed = on_gone

    async def connected(self, network: INetwork, conn: INetConn) -> None:  # noqa: ARG002
        self._on_opened(conn.muxed_conn.peer_id.to_bytes())

    async def disconnected(self, network: INetwork, conn: INetConn) -> None:  # noqa: ARG002
        self._on_closed(conn.muxed_conn.peer_id.to_bytes())

    async def opened_stream(self, network: INetwork, stream: INetStream) -> None:
        pass

    async def closed_stream(self, network: INetwork, stream: INetStream) -> None:
        pass

    async def listen(self, network: INetwork, multiaddr: Multiaddr) -> None:
        pass

    async def listen_close(self, network: INetwork, multiaddr: Multiaddr) -> None:
        pass


def _host_of(address: Multiaddr) -> str:
    return str(address.value_for_protocol(next(iter(address.protocols())).name))


async def resolved(address: Multiaddr) -> list[Multiaddr]:
    """The IP addresses of an address with a host name, by the system's resolver.

    libp2p asks name servers only, which know neither the hosts file nor the names of containers.
    """
    kind = address.protocols()[0].name
    if not kind.startswith("dns"):
        return [address]
    families = {"dns4": AF_INET, "dns6": AF_INET6}
    name, port = address.value_for_protocol(kind), int(address.value_for_protocol("tcp"))
    try:
        found = await trio.socket.getaddrinfo(
            name, port, family=families.get(kind, AF_UNSPEC), type=SOCK_STREAM
        )
    except gaierror as error:
        raise UnreachableError(f"{name}: {error.strerror}") from error
    kinds = {AF_INET: "ip4", AF_INET6: "ip6"}
    return [Multiaddr(f"/{kinds[AddressFamily(f)]}/{to[0]}/tcp/{port}") for f, *_, to in found]


def _reason(error: BaseException) -> str:
    """The text of the system's error, which trio may have wrapped in a group or a cause."""
    inner: BaseException | None = error
    while inner is not None and getattr(inner, "strerror", None) is None:
        inner = inner.exceptions[0] if isinstance(inner, BaseExceptionGroup) else inner.__cause__
    return str(getattr(inner, "strerror", None) or error)


def _is_refusal(error: BaseException | None) -> bool:
    """Whether a dial failed because no process listens there; libp2p wraps the system's error."""
    while error is not None:
        if isinstance(error, ConnectionRefusedError):
            return True
        if isinstance(error, BaseExceptionGroup):
            return all(map(_is_refusal, error.exceptions))
        error = error.__cause__ or error.__context__
    return False


def raise_again(_: Peer, error: Exception) -> None:
    """Raise an error again, so that it ends the host; for tests."""
    raise error


def peer_of(stream: INetStream) -> Peer:
    """The peer at the other end."""
    return stream.muxed_conn.peer_id.to_bytes()


async def _set_at_end(ending: trio.Event) -> None:
    try:
        await trio.sleep_forever()
    finally:
        ending.set()


async def _echo(_: Peer, stream: Stream) -> None:
    while some := await stream.read(_PING_BYTES):
        await stream.write(some)


def _seen_at(stream: Any) -> bytes:
    host, port = stream.get_remote_address() or ("", 0)
    if not host:
        return b""
    seen: bytes = Multiaddr(f"/{'ip6' if ':' in host else 'ip4'}/{host}/tcp/{port}").to_bytes()
    return seen


def _parsed(address: str) -> Multiaddr:
    try:
        return Multiaddr(address)
    except ValueError as error:
        raise ListenError(f"{address} is no address") from error


def _spread(address: Multiaddr) -> list[Multiaddr]:
    """Replace a wildcard address by the addresses of the machine."""
    name = next(iter(address.protocols())).name
    if address.value_for_protocol(name) not in ("0.0.0.0", "::"):
        return [address]
    every = get_available_interfaces(int(address.value_for_protocol("tcp") or 0))
    return [one for one in every if next(iter(one.protocols())).name == name]
