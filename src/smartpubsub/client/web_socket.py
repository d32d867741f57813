"""A connection to a node through its HTTP gateway: lines over a WebSocket, which resumes.

If the connection breaks, the client connects again to the same session of the gateway: nothing that
either side has sent is lost or comes twice. As the other modules, this one is asynchronous and does
no I/O of its own.
"""

from __future__ import annotations

import json
import time
from collections import deque
from contextlib import AbstractContextManager, suppress
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from urllib.parse import urlsplit

from wsproto import ConnectionType, WSConnection
from wsproto.connection import ConnectionState
from wsproto.events import (
    CloseConnection,
    Event,
    Ping,
    RejectConnection,
    RejectData,
    Request,
    TextMessage,
)
from wsproto.utilities import LocalProtocolError, RemoteProtocolError

from smartpubsub.client.blocking_socket import FINISH_S_MAX
from smartpubsub.client.numbered import END, RECEIVED, NumberedLines
from smartpubsub.node.errors import ControlError, LostNodeError, NoNodeError, error_of

if TYPE_CHECKING:
    from smartpubsub.client.lines import ByteStream

PATH = "/v1/control"
SILENCE_S_MAX = 45.0
"""The gateway sends something more often than this, so a silent connection is lost."""
OPEN_S_MAX = 20.0
RESUME_S_MAX = 60.0
"""How long a client tries to connect again; the gateway keeps a session for longer."""

_PAUSE_S_MIN, _PAUSE_S_MAX = 0.05, 2.0
_NORMAL = 1000
_POLICY_VIOLATION = 1008


class Place(NamedTuple):
    """Where a gateway is."""

    url: str
    host: str
    port: int
    is_encrypted: bool
    path: str
    token: str | None

    @classmethod
    def of(cls, url: str, token: str | None) -> Place:
        """Read a URL."""
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise ControlError(f"url={url!r}: {error}") from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ControlError(f"url={url!r}: name a gateway, such as http://127.0.0.1:8080")
        if parts.username or parts.query or parts.fragment:
            raise ControlError(f"url={url!r}: a token goes into token=, and never into a URL")
        is_encrypted = parts.scheme == "https"
        default = 443 if is_encrypted else 80
        path = parts.path.rstrip("/") + PATH
        return cls(url, parts.hostname, port or default, is_encrypted, path, token)

    @property
    def name(self) -> str:
        """The node's name in errors."""
        return f"the node at {self.url}"

    @property
    def authority(self) -> str:
        """The value of the header Host."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def unreachable(self, error: OSError) -> NoNodeError:
        """Make the error for a gateway that cannot be reached, with the remedy."""
        reason = error.strerror or str(error) or "no answer"
        return NoNodeError(
            f"{self.url}: {reason}; is a node running there, with smartpubsub node run --http"
            f" {self.authority}?"
        )


class WebNetwork(Protocol):
    """Connects to a gateway, and waits."""

    async def dial(self, place: Place) -> ByteStream:
        """Open a connection; OSError if there is none."""
        ...

    async def pause(self, s: float) -> None:
        """Wait."""
        ...

    def shielded(self) -> AbstractContextManager[object]:
        """Shield a block from cancellation, for a limited time."""
        ...


class WebStream:
    """A session, as a stream of lines."""

    def __init__(self, place: Place, network: WebNetwork) -> None:
        self._place = place
        self._network = network
        self._lines = NumberedLines()
        self._session: str | None = None
        self._connection: ByteStream | None = None
        """The WebSocket; None while it is lost, or while a message is being sent."""
        self._socket = WSConnection(ConnectionType.CLIENT)
        self._part = ""
        self._begun: dict[str, Any] | None = None
        """The gateway's first message on this connection."""
        self._messages: deque[bytes] = deque()
        self._lost_at: float | None = None
        """Since when there is no connection, if a call has not restored it in its time."""
        self._is_closed = False

    @classmethod
    async def opened(cls, place: Place, network: WebNetwork) -> WebStream:
        """Begin a session."""
        stream = cls(place, network)
        try:
            await stream._attach()
        except OSError as error:
            raise place.unreachable(error) from None
        return stream

    # --- the stream ---

    async def send(self, data: bytes) -> None:
        """Send a line."""
        line = data.rstrip(b"\n")
        self._lines.send(line)
        try:
            await self._send(TextMessage(line.decode()))
        except OSError:
            await self._resume()  # Resuming sends the line too.

    async def receive(self, timeout_s: float | None) -> bytes:
        """Receive a line, none at the end; TimeoutError if none comes in time."""
        until = inf if timeout_s is None else time.monotonic() + timeout_s
        while not self._messages:
            if self._is_closed:
                return b""
            try:
                if not await self._read(min(until - time.monotonic(), SILENCE_S_MAX)):
                    return b""
            except OSError:
                if time.monotonic() >= until:
                    raise TimeoutError from None
                if self._is_closed:
                    return b""
                await self._resume(until)
        return self._messages.popleft() + b"\n"

    async def finish(self) -> None:
        """End the sending side, and wait until the node has ended the session."""
        until = time.monotonic() + FINISH_S_MAX
        with self._network.shielded(), suppress(OSError, ControlError):
            if self._connection is None:
                await self._resume(time.monotonic() + _PAUSE_S_MAX)
            await self._send(TextMessage(END.decode()))
            while await self._read(until - time.monotonic()):
                self._messages.clear()
        await self.close()

    async def close(self) -> None:
        """End the session; a thread that reads from it gets its end."""
        self._is_closed = True
        connection, self._connection = self._connection, None
        if connection is not None:
            with self._network.shielded():
                with suppress(OSError, LocalProtocolError):
                    await connection.send(self._socket.send(CloseConnection(_NORMAL)))
                await connection.close()

    def is_stale(self) -> bool:
        """Whether the connection has something to read, or has ended."""
        return self._connection is None or self._connection.is_stale()

    # --- messages ---

    async def _read(self, timeout_s: float) -> bool:
        """Read some messages; False if the gateway has ended the session."""
        connection = self._connection
        if connection is None:
            raise ConnectionResetError
        piece = await connection.receive(max(timeout_s, 0.000_001))
        try:
            self._socket.receive_data(piece or None)
            for event in self._socket.events():
                if not await self._on(event):
                    return False
        except RemoteProtocolError:
            await self._drop()
        return True

    async def _on(self, event: Event) -> bool:
        match event:
            case TextMessage(data=text, message_finished=is_whole):
                self._part += text
                if is_whole:
                    whole, self._part = self._part.encode(), ""
                    await self._on_message(whole)
            case Ping():
                await self._send(event.response())
            case CloseConnection(code=code, reason=reason):
                if code == _NORMAL:
                    return False
                await self._drop()
                if code == _POLICY_VIOLATION:
                    raise ControlError(f"{self._place.url}: {reason}")
        return True

    async def _on_message(self, message: bytes) -> None:
        if self._begun is None:
            self._begun = json.loads(message)
        elif message.startswith(RECEIVED):
            self._lines.acknowledged(json.loads(message)["received"])
        else:
            self._messages.append(message)
            if (acknowledgement := self._lines.came()) is not None:
                await self._send(TextMessage(acknowledgement.decode()))

    async def _send(self, event: Event) -> None:
        # A cancelled call may have sent half of a message; then the connection is useless.
        connection, self._connection = self._connection, None
        if connection is None:
            raise ConnectionResetError
        try:
            await connection.send(self._socket.send(event))
        except BaseException:
            await connection.close()
            raise
        self._connection = connection

    async def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    # --- connecting ---

    async def _resume(self, until: float = inf) -> None:
        """Connect again, and resend what the gateway has not received.

        Raise `TimeoutError` at the time `until`, and `LostNodeError` if the connection has been
        lost for too long.
        """
        await self._drop()
        if self._lost_at is None:
            self._lost_at = time.monotonic()
        lost_until = self._lost_at + RESUME_S_MAX
        pause_s = _PAUSE_S_MIN
        while not self._is_closed:
            try:
                await self._attach()
                self._lost_at = None
                return
            except OSError:
                now = time.monotonic()
                if now >= lost_until:
                    raise LostNodeError(
                        f"{self._place.name} cannot be reached any more; start it again"
                    ) from None
                if now >= until:
                    raise TimeoutError from None
                await self._network.pause(min(pause_s, lost_until - now, until - now))
                pause_s = min(2 * pause_s, _PAUSE_S_MAX)
        raise ConnectionResetError

    async def _attach(self) -> None:
        connection = await self._network.dial(self._place)
        try:
            await self._shake_hands(connection)
        except BaseException as error:
            self._connection = None
            await connection.close()
            if isinstance(error, RemoteProtocolError):
                raise ControlError(f"{self._place.url} is no gateway of this version") from None
            raise

    async def _shake_hands(self, connection: ByteStream) -> None:
        until = time.monotonic() + OPEN_S_MAX
        await self._upgrade(connection, until)
        begun = {"session": self._session, "received": self._lines.received}
        await connection.send(self._socket.send(TextMessage(json.dumps(begun))))
        self._connection = connection
        while self._begun is None:
            if not await self._read(until - time.monotonic()):
                raise ConnectionResetError
        if "error" in self._begun:
            raise error_of(self._begun)
        self._session = self._begun["session"]
        received: int = self._begun["received"]
        self._lines.acknowledged(received)
        for line in self._lines.after(received):
            await self._send(TextMessage(line.decode()))

    async def _upgrade(self, connection: ByteStream, until: float) -> None:
        self._socket = WSConnection(ConnectionType.CLIENT)
        self._part, self._begun = "", None
        token = self._place.token
        headers = [] if token is None else [(b"Authorization", f"Bearer {token}".encode())]
        request = Request(self._place.authority, self._place.path, extra_headers=headers)
        await connection.send(self._socket.send(request))
        refusal: list[bytes] = []
        while self._socket.state is not ConnectionState.OPEN:
            piece = await connection.receive(max(until - time.monotonic(), 0.000_001))
            if not piece:
                raise ConnectionResetError
            self._socket.receive_data(piece)
            for event in self._socket.events():
                if isinstance(event, RejectData):
                    refusal.append(bytes(event.data))
                if isinstance(event, RejectData) and event.body_finished:
                    raise self._refused(b"".join(refusal))
                if isinstance(event, RejectConnection) and not event.has_body:
                    raise self._refused(b"")

    def _refused(self, body: bytes) -> ControlError:
        try:
            detail = json.loads(body)["detail"]
        except (ValueError, KeyError, TypeError):
            detail = "it is no gateway of a node, or one of another version"
        return ControlError(f"{self._place.url}: {detail}")
