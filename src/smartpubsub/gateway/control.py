"""The node's control protocol over a WebSocket, for `smartpubsub.connect(url=...)`.

A session has the requests of one connection of the client, as on the control socket. It outlives
its WebSocket for a time, so a client whose connection breaks resumes it;
`client/numbered.py` describes how. Each request needs the scope that its operation over HTTP needs.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec
import trio
from starlette.websockets import WebSocket, WebSocketDisconnect
from trio_typing import TaskStatus

from smartpubsub.client.numbered import END, RECEIVED, NumberedLines
from smartpubsub.gateway.access import Access, Permit, bearer
from smartpubsub.gateway.operations import Scope
from smartpubsub.gateway.problems import ProblemError
from smartpubsub.gateway.websocket import next_text
from smartpubsub.node.api.node import Node
from smartpubsub.node.control.server import Control
from smartpubsub.node.errors import ControlError, LostNodeError, error_document

SESSION_COUNT_MAX = 1_024
TIDY_S = 12.0
LINGER_S = 120.0
"""How long a session waits for its client to connect again."""
WAITING_BYTES_MAX = 16 << 20
"""Bytes that wait for one client; beyond that, its events wait in their subscription."""

_PUBLISHING = frozenset({"publish", "publish-all", "group-publish", "topic-publish"})
_READING = frozenset(
    {
        *("metrics", "peers", "subscriptions", "event", "event-facts", "why"),
        *("subscribe", "more", "take", "group-list", "group-search", "group-join"),
        *("topic-list", "topic-show", "topic-subscribe", "topic-history", "topic-export"),
        *("topic-heads", "topic-range", "past-events", "journal-state", "journal-read"),
    }
)
_NORMAL = 1000
OPENING_S_MAX = 10.0
"""How long a WebSocket may take to say which session it belongs to."""
ALL_WAITING_BYTES_MAX = 64 << 20
"""Bytes that wait for all clients; then the session with the most of them ends."""
SHARE_BYTES = ALL_WAITING_BYTES_MAX // SESSION_COUNT_MAX
"""A session with fewer bytes never ends for that reason."""

Check: TypeAlias = Callable[[bytes], bytes | None]
"""Returns the answer to a request that is not allowed."""


class _Opening(msgspec.Struct, forbid_unknown_fields=True):
    session: str | None
    received: int


class _Received(msgspec.Struct):
    received: int


class _Asked(msgspec.Struct):
    """The fields of a request that its scope depends on; the node checks the others."""

    id: Any = None
    do: str = ""
    keep: bool = False


def scope_of(do: str, keep: bool) -> Scope | None:
    """The scope that a request needs; None if any token suffices."""
    if do == "info":
        return None
    if do in _PUBLISHING:
        return Scope.PUBLISH
    return Scope.READ if do in _READING and not keep else Scope.ADMIN


class _Session(trio.abc.Stream):
    """The lines of one client: a stream for the node's control, and at times a WebSocket."""

    def __init__(self, on_waiting: Callable[[], None]) -> None:
        self.lines = NumberedLines()
        self._on_waiting = on_waiting
        self.unused_since = trio.current_time()
        self._came, self._coming = trio.open_memory_channel[bytes](64)
        self._changed = trio.Event()
        self._part = bytearray()
        self._acknowledgement: bytes | None = None
        """The acknowledgement to send to the client, if one is due."""
        self._is_over = False
        self._attached = trio.CancelScope()
        self.is_attached = False
        self.permit: Permit | None = None
        """Of the client that was attached last."""

    # --- for the control ---

    async def receive_some(self, max_bytes: int | None = None) -> bytes:  # noqa: ARG002
        try:
            return await self._coming.receive()
        except trio.EndOfChannel:
            return b""

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        self._part += data
        while (end := self._part.find(b"\n")) >= 0:
            if self.lines.waiting_bytes > WAITING_BYTES_MAX and not self._is_over:
                await self._changed.wait()
                continue
            self._queue(bytes(self._part[:end]))
            del self._part[: end + 1]

    def _queue(self, line: bytes) -> None:
        """Have a line sent to the client."""
        self.lines.send(line)
        self._wake()
        if self.lines.waiting_bytes > SHARE_BYTES:
            self._on_waiting()

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        self.end()

    # --- for the WebSocket ---

    def end(self) -> None:
        """End the requests of the session."""
        self._is_over = True
        self._came.close()
        self._wake()

    def drop(self) -> None:
        """End the session, and forget what waits for the client."""
        self.lines = NumberedLines()
        self._attached.cancel()
        self.end()

    def detach(self) -> None:
        """Receive nothing more over the WebSocket that the client has abandoned.

        The client resends what the gateway has not counted, so nothing may be counted later.
        """
        self._attached.cancel()

    async def attach(self, socket: WebSocket, received: int, check: Check) -> None:
        """Exchange lines over a WebSocket until it ends."""
        self.detach()
        self._attached = scope = trio.CancelScope()
        self.lines.acknowledged(received)
        self._wake()  # The node may wait until the client has read enough.
        self.is_attached = True
        try:
            with scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._receive, socket, check, nursery.cancel_scope, scope)
                    await self._send(socket, received)
                    nursery.cancel_scope.cancel()
                if self._is_over:
                    await socket.close(_NORMAL)
        finally:
            if self._attached is scope:
                self.is_attached = False
                self.unused_since = trio.current_time()

    async def _send(self, socket: WebSocket, number: int) -> None:
        while True:
            changed = self._changed
            if self._acknowledgement is not None:
                acknowledgement, self._acknowledgement = self._acknowledgement, None
                await socket.send_text(acknowledgement.decode())
            for line in self.lines.after(number):
                await socket.send_text(line.decode())
                number += 1
            if self._is_over and number == self.lines.sent:
                return
            await changed.wait()

    async def _receive(
        self,
        socket: WebSocket,
        check: Check,
        scope: trio.CancelScope,
        attached: trio.CancelScope,
    ) -> None:
        try:
            while True:
                message = (await next_text(socket)).encode()
                if attached.cancel_called:
                    break
                await self._on(message, check)
        except WebSocketDisconnect as gone:
            if gone.code == _NORMAL:
                self.end()
        except (msgspec.DecodeError, trio.ClosedResourceError, trio.BrokenResourceError):
            self.end()  # Not a message, or a request after the end.
        scope.cancel()

    async def _on(self, message: bytes, check: Check) -> None:
        if message == END:
            self._came.close()  # The control ends the session after the open requests.
        elif message.startswith(RECEIVED):
            received = msgspec.json.decode(message, type=_Received)
            self.lines.acknowledged(received.received)
            self._wake()
        else:
            if (refusal := check(message)) is not None:
                self._queue(refusal)  # Waiting for room here would keep acknowledgements out.
            elif not self._is_over:
                await self._came.send(message + b"\n")
            if (acknowledgement := self.lines.came()) is not None:
                self._acknowledgement = acknowledgement
                self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = trio.Event()


def _is_allowed(session: _Session) -> bool:
    """Whether the token of a session is still good: its subscriptions go on without requests."""
    try:
        if session.permit is not None:
            session.permit.check()
    except ProblemError:
        return False
    return True


class ControlSessions:
    """All sessions of a gateway."""

    def __init__(self, node: Node, access: Access) -> None:
        self._control = Control(node)
        self._access = access
        self._sessions: dict[str, _Session] = {}
        self._nursery: trio.Nursery

    async def run(self, *, task_status: TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve requests, and end unused sessions, until cancelled."""
        async with trio.open_nursery() as self._nursery:
            task_status.started()
            while True:
                await trio.sleep(TIDY_S)
                oldest = trio.current_time() - LINGER_S
                for id, session in list(self._sessions.items()):
                    if not _is_allowed(session):
                        del self._sessions[id]
                        session.drop()
                    elif not session.is_attached and session.unused_since < oldest:
                        # Its requests take a while to end. A client that returns meanwhile gets
                        # an error, and does not resume them.
                        del self._sessions[id]
                        session.end()

    async def serve(self, socket: WebSocket) -> None:
        """Serve a WebSocket."""
        token = bearer(socket)
        try:
            self._access.check_place(socket)
            if self._access.needs_token:
                self._access.check_token(token, None)
        except ProblemError as problem:
            await socket.send_denial_response(problem.response())
            return
        await socket.accept()
        try:
            with trio.fail_after(OPENING_S_MAX):
                text = await next_text(socket)
            opening = msgspec.json.decode(text, type=_Opening)
            id, session = self._session(opening.session)
        except (WebSocketDisconnect, trio.TooSlowError):
            return
        except msgspec.DecodeError as error:
            await self._refuse(socket, ControlError(f"not a session: {error}"))
            return
        except ControlError as error:
            await self._refuse(socket, error)
            return
        session.detach()
        begun = {"session": id, "received": session.lines.received}
        await socket.send_text(msgspec.json.encode(begun).decode())

        def check(request: bytes) -> bytes | None:
            return self._refusal(socket, token, request)

        session.permit = self._access.permit(token, None)
        await session.attach(socket, opening.received, check)

    async def _refuse(self, socket: WebSocket, error: ControlError) -> None:
        await socket.send_text(msgspec.json.encode(error_document(error)).decode())
        await socket.close(_NORMAL)

    def _session(self, id: str | None) -> tuple[str, _Session]:
        if id is not None:
            if id not in self._sessions:
                raise LostNodeError(
                    "the gateway has been started again, or has waited too long for this client,"
                    " and has ended its requests; subscribe again, with since= the last event"
                )
            return id, self._sessions[id]
        if len(self._sessions) >= SESSION_COUNT_MAX:
            raise ControlError(f"at most {SESSION_COUNT_MAX} requests and subscriptions at once")
        id = secrets.token_hex(16)
        session = self._sessions[id] = _Session(self._limit_waiting)
        self._nursery.start_soon(self._serve_requests, id, session)
        return id, session

    def _limit_waiting(self) -> None:
        waiting = {id: session.lines.waiting_bytes for id, session in self._sessions.items()}
        if sum(waiting.values()) > ALL_WAITING_BYTES_MAX:
            # The client may have stopped reading, or asks for much; others must not notice.
            self._sessions.pop(max(waiting, key=waiting.__getitem__)).drop()

    async def _serve_requests(self, id: str, session: _Session) -> None:
        try:
            await self._control.serve_one(session)
        finally:
            self._sessions.pop(id, None)

    def _refusal(self, socket: WebSocket, token: str | None, request: bytes) -> bytes | None:
        try:
            asked = msgspec.json.decode(request, type=_Asked)
        except (msgspec.DecodeError, RecursionError):
            asked = _Asked()  # The node's answer says what is wrong with it.
        try:
            if b"\n" in request:
                # The node would read each line as a request, and only one line was checked.
                raise ProblemError(400, "a message is one line; write its JSON without line breaks")
            self._access.check_rate(socket)
            if self._access.needs_token:
                self._access.check_token(token, scope_of(asked.do, asked.keep))
        except ProblemError as problem:
            document = error_document(ControlError(str(problem)))
            return msgspec.json.encode({"id": asked.id, **document})
        return None
