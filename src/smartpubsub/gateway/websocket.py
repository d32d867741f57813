"""One WebSocket for many streams.

Both sides send JSON texts. The client sends

    {"type": "authenticate", "token": "..."}     first, where a token is needed
    {"type": "subscribe", "id": "a", "filter": "surf", "since": "1h"}
    {"type": "unsubscribe", "id": "a"}

and the gateway answers with `subscribed`, `event`, `end-of-stored`, `gap`, `closed` and `error`,
each with the id of the subscription. The fields of "subscribe" are those of `GET /v1/events`, and
"after" is a position to resume at.
"""

from __future__ import annotations

from typing import Literal, cast

import msgspec
import trio
from starlette.websockets import WebSocket, WebSocketDisconnect

from smartpubsub.errors import SmartPubSubError
from smartpubsub.gateway.access import Access
from smartpubsub.gateway.cloudevents import CloudEvent
from smartpubsub.gateway.events import Last
from smartpubsub.gateway.operations import Scope
from smartpubsub.gateway.problems import ProblemError, problem_of
from smartpubsub.gateway.sources import FilterSource
from smartpubsub.gateway.streams import Closed, EndOfStored, Gap, Item, StreamItem, Streams
from smartpubsub.gateway.values import predicate_of
from smartpubsub.node.api.node import Node

SUBSCRIPTION_COUNT_MAX = 64
AUTHENTICATE_S_MAX = 10.0
TOO_SLOW = 'the client is too slow; subscribe again with "after" to resume'

_POLICY_VIOLATION = 1008
_UNSUPPORTED_DATA = 1003


class Authenticate(msgspec.Struct, tag="authenticate", forbid_unknown_fields=True):
    """The first message where a token is needed."""

    token: str


class Subscribe(msgspec.Struct, tag="subscribe", forbid_unknown_fields=True):
    """Open a stream."""

    id: str
    filter: str | None = None
    where: str | None = None
    since: str | None = None
    last: Last | None = None
    after: str | None = None


class Unsubscribe(msgspec.Struct, tag="unsubscribe", forbid_unknown_fields=True):
    """Close a stream."""

    id: str


ClientMessage = Authenticate | Subscribe | Unsubscribe


class Answer(msgspec.Struct, omit_defaults=True):
    """A message of the gateway, except events."""

    type: Literal["subscribed", "end-of-stored", "gap", "closed", "error"]
    id: str | None = None
    reason: str | None = None
    events: int | None = None
    is_whole: bool | None = None
    missed: int | None = None


class EventMessage(msgspec.Struct, tag="event"):
    """An event of a stream."""

    id: str
    position: str
    event: CloudEvent


async def next_text(socket: WebSocket) -> str:
    """Wait for the next message; one that is no text ends the connection."""
    text = cast("str | None", await socket.receive_text())
    if text is None:
        raise WebSocketDisconnect(_UNSUPPORTED_DATA)
    return text


class SocketSession:
    """One WebSocket."""

    def __init__(self, socket: WebSocket, node: Node, streams: Streams, access: Access) -> None:
        self._socket = socket
        self._node = node
        self._streams = streams
        self._access = access
        self._open: dict[str, trio.CancelScope] = {}
        self._one_at_a_time = trio.Lock()
        self._permit = access.permit(None, Scope.READ)

    async def serve(self) -> None:
        """Serve until the client leaves."""
        await self._socket.accept()
        try:
            await self._authenticate()
            async with trio.open_nursery() as nursery:
                while True:
                    await self._do(await self._received(), nursery)
        except* WebSocketDisconnect:
            pass
        except* ProblemError as problems:
            reason = str(problems.exceptions[0])
            with trio.move_on_after(1):
                await self._socket.close(_POLICY_VIOLATION, reason[:100])

    async def _authenticate(self) -> None:
        if not self._access.needs_token:
            return
        with trio.move_on_after(AUTHENTICATE_S_MAX):
            message = await self._received()
            if isinstance(message, Authenticate):
                self._access.check_token(message.token, Scope.READ)
                self._permit = self._access.permit(message.token, Scope.READ)
                return
        raise ProblemError(401, "authenticate first")

    async def _received(self) -> ClientMessage:
        while True:
            text = await next_text(self._socket)
            self._access.check_rate(self._socket)
            try:
                message: ClientMessage = msgspec.json.decode(text, type=ClientMessage)
            except (msgspec.DecodeError, RecursionError) as error:
                await self._say(Answer("error", reason=f"not a message: {error}"))
            else:
                return message

    async def _do(self, message: ClientMessage, nursery: trio.Nursery) -> None:
        match message:
            case Subscribe(id):
                if id in self._open:
                    await self._say(Answer("error", id, f"{id!r} is in use; unsubscribe first"))
                elif len(self._open) >= SUBSCRIPTION_COUNT_MAX:
                    reason = f"at most {SUBSCRIPTION_COUNT_MAX} subscriptions on one connection"
                    await self._say(Answer("error", id, reason))
                else:
                    scope = self._open[id] = trio.CancelScope()
                    nursery.start_soon(self._stream, message, scope)
            case Unsubscribe(id):
                if id in self._open:
                    self._open[id].cancel()
                else:
                    there = ", ".join(map(repr, self._open)) or "none"
                    await self._say(Answer("error", id, f"no such subscription; open: {there}"))
            case Authenticate():
                pass

    async def _stream(self, wanted: Subscribe, scope: trio.CancelScope) -> None:
        reason = "unsubscribed"
        try:
            with scope:
                reason = await self._send_events(wanted)
        except ProblemError as problem:
            reason = str(problem)
        except SmartPubSubError as error:
            reason = str(problem_of(error))
        finally:
            del self._open[wanted.id]
        await self._say(Answer("closed", wanted.id, reason))

    async def _send_events(self, wanted: Subscribe) -> str:
        source = FilterSource(self._node, predicate_of(wanted.filter, wanted.where, self._node))
        listening = self._streams.listen(
            source, since=wanted.since, last=wanted.last, resume=wanted.after
        )
        async with listening as listener:
            await self._say(Answer("subscribed", wanted.id))
            while not listener.is_too_slow:
                items = await self._streams.items_of(listener)
                self._permit.check()
                for item in items:
                    if isinstance(item, Closed):
                        return item.reason
                    await self._send(_message(wanted.id, item))
                await trio.sleep(self._streams.pace_s())
        return TOO_SLOW

    async def _say(self, answer: Answer) -> None:
        await self._send(msgspec.json.encode(answer))

    async def _send(self, message: bytes) -> None:
        async with self._one_at_a_time:
            await self._socket.send_text(message.decode())


def _message(id: str, item: StreamItem) -> bytes:
    match item:
        case Item(position, _, json):
            return b'{"type":"event","id":%b,"position":"%b","event":%b}' % (
                msgspec.json.encode(id),
                str(position).encode(),
                json,
            )
        case EndOfStored(count, is_whole):
            return msgspec.json.encode(Answer("end-of-stored", id, events=count, is_whole=is_whole))
        case Gap(reason, missed):
            return msgspec.json.encode(Answer("gap", id, reason, missed=missed))
        case Closed(reason):
            return msgspec.json.encode(Answer("closed", id, reason))
