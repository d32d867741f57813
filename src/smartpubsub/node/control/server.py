"""The control socket: how a running node serves the programs of its user.

Both sides write lines of JSON. A request has an "id", which every line of its answer repeats, and
a "do":

    {"id": 1, "do": "info"}, "metrics", "peers" or "subscriptions"
    {"id": 2, "do": "publish", "event": "surf/price=15", "payload": "aGk=", "wait": "all"}
    {"id": 3, "do": "subscribe", "predicate": "surf", "keep": true, "limit": 10}
    {"id": 4, "do": "take", "subscription": 7, "event": "9f86d081884c7d65-1767225600-3"}
    {"id": 5, "do": "unsubscribe", "subscription": 7}
    {"id": 6, "do": "event", "event": "9f86d081884c7d65-1767225600-3"}
    {"id": 7, "do": "group-join", "group": "surf/price[0,9]", "owner": "/ip4/…/p2p/…"}

and "publish-all", "past-events", "journal-open", "journal-state", "journal-read", "journal-take";
"group-create", "group-list", "group-advertise", "group-invite", "group-search", "group-publish",
"group-leave", "group-end"; "topic-create", "topic-list", "topic-update", "topic-show", "topic-pin",
"topic-publish", "topic-subscribe", "topic-history", "topic-heads", "topic-range", "topic-export"
and "topic-import". Their fields are in node/control/requests.py. "payload" is in base 64. Fields
with a default may be left out.

The answer has "ok" or "error". The error of a publish has "event" with the event's "id" and
"state"; the id is null if there is no event. After the answer to "subscribe", "group-join",
"topic-subscribe" and "topic-history" come lines with "event", and after that to "topic-export"
lines with "block"; then one with "end" when no more will come. A subscribe with "since" (an event's
id, or a time) or "last" (a number) begins with history: "history" in the answer has the number of
these events, the time since which replicas keep events, and whether none is known to be missing.
"gaps" in the answer to a topic request lists missing history; null if none is missing.

The answers to "topic-range", "past-events" and "journal-read" have a page of blocks, as
node/control/pages.py writes it, in base 64 as "page". With "raw" in the request, the line has
"bytes" beside "ok", and the page follows the line as so many bytes. The HTTP gateway carries lines
only, and always has "page".

A subscription ends with its connection, unless it has "keep". The events of a kept subscription
wait on disk for the next one with "keep" and the same predicate or topic. The client acknowledges
them with "take", which also acknowledges all events before; events that it has not acknowledged
come again. "is_kept" in the answer says whether the client has to acknowledge.

A "group-create" with "asks" stays open: lines with "asked" are requests to join, each with a
"number", and {"do": "answer", "of": the id of the request, "number": 3, "reply": ""} decides; a
text that is not empty is the reason for a refusal. When the connection ends, the node refuses new
members.

With "window", the node sends so many events and then waits: each {"do": "more", "of": the id of the
request, "count": 10} allows more events, and has no answer.

The node waits for no client. If a client does not read, its events wait on disk if the subscription
has "keep" or the "overflow" policy "block". Otherwise the node drops the oldest: "dropped" in a
line counts all, and "dropped_before" in the event those immediately before it.

Limits: a line has at most `LINE_BYTES_MAX` bytes, and a longer one ends the connection; a payload
has at most `PAYLOAD_BYTES_MAX`; there are at most `CLIENT_COUNT_MAX` connections, and on each at
most `REQUEST_COUNT_MAX` open requests, subscriptions included, of `REQUEST_BYTES_MAX` bytes; the
node makes `PAGES_AT_ONCE_MAX` pages at once for each.
"""

from __future__ import annotations

import base64
import json
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from importlib import metadata
from math import inf
from typing import Any

import trio
from trio_typing import TaskStatus

from smartpubsub.errors import SmartPubSubError
from smartpubsub.node.api.listing import SubscriptionInfo
from smartpubsub.node.api.node import Node
from smartpubsub.node.api.subscription import EventStream
from smartpubsub.node.control import socket as control_socket
from smartpubsub.node.control.batches import BatchRequests
from smartpubsub.node.control.documents import WriteEvent, event_document, time_document
from smartpubsub.node.control.groups import GroupRequests
from smartpubsub.node.control.limits import LINE_BYTES_MAX
from smartpubsub.node.control.pages import joined
from smartpubsub.node.control.requests import Request, RequestError, RequestId, request_of
from smartpubsub.node.control.topics import TopicRequests
from smartpubsub.node.errors import OverflowedError, PublishError, error_document
from smartpubsub.protocols.registry import spec_of

CLIENT_COUNT_MAX = 64
REQUEST_COUNT_MAX = 64
REQUEST_BYTES_MAX = 4 * LINE_BYTES_MAX
"""The bytes of a client's open requests."""
FREEING = frozenset({"more", "take", "unsubscribe", "journal-take"})
"""Requests that let others end or go on: refused with them, these would wait for ever."""
FREEING_BYTES_MAX = 4 << 10
"""The length of such a request; longer ones are counted as others."""
PAGES_AT_ONCE_MAX = 2
"""Pages that a client gets at once: each takes some megabytes until the client has read it."""

_RECEIVE_BYTES = 8 << 10
"""Few, because each read takes a block of this size from the heap and shrinks it."""
_GONE = (trio.BrokenResourceError, trio.ClosedResourceError)
_log = logging.getLogger(__name__)


class Control:
    """Serves one node to the programs of its user."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._client_count = 0

    async def serve(self, *, task_status: TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled."""
        folder = self._node.config.data
        listener = control_socket.listening(folder)
        try:
            listeners = [trio.SocketListener(trio.socket.from_stdlib_socket(listener))]
            task_status.started()
            await trio.serve_listeners(self._welcome, listeners)
        finally:
            listener.close()
            control_socket.remove(folder)

    async def serve_one(self, stream: trio.abc.Stream) -> None:
        """Serve a client without the limit of clients, over a stream that carries lines only."""
        await _Client(self._node, stream, has_lines_only=True).serve()

    async def _welcome(self, stream: trio.SocketStream) -> None:
        client = _Client(self._node, stream)
        self._client_count += 1
        try:
            if self._client_count > CLIENT_COUNT_MAX:
                await client.refuse(f"at most {CLIENT_COUNT_MAX} clients are served at once")
            else:
                await client.serve()
        finally:
            self._client_count -= 1


@dataclass(eq=False)
class _Client:
    """One connection."""

    node: Node
    stream: trio.abc.Stream
    has_lines_only: bool = False
    """Whether the stream cannot carry other bytes between lines."""
    _one_at_a_time: trio.Lock = field(default_factory=trio.Lock)
    _pages: trio.CapacityLimiter = field(
        default_factory=lambda: trio.CapacityLimiter(PAGES_AT_ONCE_MAX)
    )
    _request_count: int = 0
    _request_bytes: int = 0
    _freeing_count: int = 0
    _windows: dict[RequestId, _Window] = field(default_factory=dict)
    """How many events the client is ready to receive, by request."""
    _scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    _actions: dict[str, Callable[[Request], Awaitable[None]]] = field(init=False)

    def __post_init__(self) -> None:
        self._actions = {
            "info": self._info,
            "metrics": self._metrics,
            "peers": self._peers,
            "subscriptions": self._subscriptions,
            "publish": self._publish,
            "subscribe": self._subscribe,
            "more": self._more,
            "take": self._take,
            "unsubscribe": self._unsubscribe,
            "event": self._event_state,
            "event-facts": self._event_facts,
            "why": self._why,
            **BatchRequests(self.node, self._say, self._say_page).actions,
            **GroupRequests(self.node, self._say, self._send_events).actions,
            **TopicRequests(self.node, self._say, self._say_page, self._send_events).actions,
        }

    async def serve(self) -> None:
        async with self.stream, trio.open_nursery() as nursery:
            self._scope = nursery.cancel_scope
            async for line in self._lines():
                try:
                    request = request_of(line)
                    self._limit_requests(request, len(line))
                except RequestError as error:
                    _log.warning("bad request", extra={"fields": {"problem": error}})
                    await self._say(error.id, error=str(error), kind=error.kind)
                else:
                    self._count(request, len(line), 1)
                    nursery.start_soon(self._do, request, len(line))
            self._scope.cancel()

    async def refuse(self, problem: str) -> None:
        async with self.stream:
            await self._say(None, error=problem)

    # --- lines ---

    async def _lines(self) -> AsyncIterator[bytes]:
        waiting = bytearray()
        while piece := await self._received():
            searched = len(waiting)
            waiting += piece
            while (end := waiting.find(b"\n", searched)) >= 0 and end < LINE_BYTES_MAX:
                yield bytes(waiting[:end])
                del waiting[: end + 1]
                searched = 0
            if len(waiting) > LINE_BYTES_MAX:
                await self._say(None, error=f"a line has at most {LINE_BYTES_MAX} bytes")
                return

    async def _received(self) -> bytes:
        try:
            return bytes(await self.stream.receive_some(_RECEIVE_BYTES))
        except _GONE:
            return b""

    async def _say(self, id: RequestId, **content: object) -> None:
        await self._send(_line({"id": id, **content}))

    async def _say_page(
        self, request: Request, about: dict[str, Any], blocks: Sequence[bytes]
    ) -> None:
        content = joined(blocks)
        if request.fields["raw"] and not self.has_lines_only:
            line = _line({"id": request.id, "ok": about, "bytes": len(content)})
            await self._send(line, content)
        else:
            await self._say(request.id, ok={**about, "page": base64.b64encode(content).decode()})

    async def _send(self, *parts: bytes) -> None:
        try:
            async with self._one_at_a_time:
                for part in parts:
                    await self.stream.send_all(part)
        except _GONE:
            self._scope.cancel()

    def _limit_requests(self, request: Request, size: int) -> None:
        is_freeing, id = _is_freeing(request, size), request.id
        if (self._freeing_count if is_freeing else self._request_count) >= REQUEST_COUNT_MAX:
            raise RequestError(f"at most {REQUEST_COUNT_MAX} requests are served at once", id)
        if not is_freeing and self._request_bytes + size > REQUEST_BYTES_MAX:
            raise RequestError(
                f"requests of at most {REQUEST_BYTES_MAX} bytes are served at once", id
            )

    def _count(self, request: Request, size: int, change: int) -> None:
        if _is_freeing(request, size):
            self._freeing_count += change
        else:
            self._request_count += change
            self._request_bytes += change * size

    # --- requests ---

    async def _do(self, request: Request, size: int) -> None:
        try:
            async with self._pages if request.has_page else nullcontext():
                await self._actions[request.do](request)
        except PublishError as error:
            about = {"id": error.id, "state": error.state}
            await self._say(request.id, event=about, **error_document(error))
        except SmartPubSubError as error:
            await self._say(request.id, **error_document(error))
        except Exception as error:  # A request must not end the node for all other clients.
            _log.exception("a request failed", extra={"fields": {"do": request.do}})
            problem = f"the node failed to do this: {type(error).__name__}; its log says where"
            await self._say(request.id, error=problem)
        finally:
            self._count(request, size, -1)

    async def _info(self, request: Request) -> None:
        node, config = self.node, self.node.config
        info = {
            "peer_id": node.peer_id,
            "addresses": node.addresses,
            "protocol": config.protocol,
            "variant": spec_of(config.protocol).variant(config.variant or None) or None,
            "network": "public" if config.network_key is None else "private",
            "data": str(config.data.absolute()),
            "process": os.getpid(),
            "version": metadata.version("smartpubsub"),
            "peers": len(await node.peers()),
            "failures": node.failures()._asdict(),
            "distrusted": [each._asdict() for each in node.distrusted()],
            "ledger": [account._asdict() for account in node.ledger()],
            "subscriptions": [_info_of(info) for info in await node.subscriptions()],
        }
        await self._say(request.id, ok=info)

    async def _metrics(self, request: Request) -> None:
        await self._say(request.id, ok=(await self.node.metrics()).decode())

    async def _peers(self, request: Request) -> None:
        await self._say(request.id, ok=await self.node.peers())

    async def _subscriptions(self, request: Request) -> None:
        infos = await self.node.subscriptions()
        await self._say(request.id, ok=[_info_of(info) for info in infos])

    async def _publish(self, request: Request) -> None:
        wanted = request.fields
        receipt = await self.node.publish(
            wanted["event"],
            wanted["payload"],
            wait=wanted["wait"],
            key=wanted["key"],
            id=wanted["again"],
            replicas_min=wanted["replicas_min"],
            deadline_s=wanted["deadline_s"],
        )
        await self._say(request.id, ok=receipt.document())

    async def _event_state(self, request: Request) -> None:
        known = await self.node.event(request.fields["event"])
        await self._say(request.id, ok=known.document())

    async def _more(self, request: Request) -> None:
        window = self._windows.get(request.fields["of"])
        if window is not None:
            window.widen(request.fields["count"])

    async def _event_facts(self, request: Request) -> None:
        facts = await self.node.event_facts(request.fields["event"])
        await self._say(request.id, ok=facts.document())

    async def _why(self, request: Request) -> None:
        wanted = request.fields
        found = await self.node.why(
            wanted["event"],
            subscription=wanted["subscription"],
            filter=wanted["filter"],
            publisher_facts=wanted["publisher_facts"],
        )
        await self._say(request.id, ok=found.document())

    async def _take(self, request: Request) -> None:
        wanted = request.fields
        await self.node.take(wanted["subscription"], wanted["event"])
        await self._say(request.id, ok={"subscription": wanted["subscription"]})

    async def _unsubscribe(self, request: Request) -> None:
        number = request.fields["subscription"]
        await self.node.unsubscribe(number)
        await self._say(request.id, ok={"subscription": number})

    async def _subscribe(self, request: Request) -> None:
        wanted = request.fields
        subscription = self.node.subscribe(
            wanted["predicate"],
            since=wanted["since"],
            last=wanted["last"],
            overflow=wanted["overflow"],
            keep=wanted["keep"],
            buffer_count_max=wanted["buffer_count_max"],
        )
        has_history = wanted["since"] is not None or wanted["last"] is not None
        async with subscription as events:
            events.acknowledges = not events.is_kept  # The client acknowledges with "take".
            await self._say(request.id, ok=_begun(events, has_history))
            await self._send_events(request, events, event_document)
        await self._say(request.id, end=True)

    async def _send_events(
        self, request: Request, events: EventStream, written: WriteEvent
    ) -> None:
        """Send events as they come, as many as the client wants and is ready to receive."""
        window = self._windows[request.id] = _Window(request.fields["window"])
        sent, limit, with_proof = 0, request.fields["limit"], request.fields["proof"]
        try:
            while sent != limit:
                await window.is_open()
                try:
                    event = await events.next()
                except OverflowedError as error:  # The reader can go on after it.
                    await self._say(request.id, **error_document(error))
                    continue
                if event is None:
                    break
                window.left -= 1
                content = written(event, with_proof)
                await self._say(request.id, event=content, dropped=events.dropped)
                sent += 1
        finally:
            self._windows.pop(request.id, None)


def _is_freeing(request: Request, size: int) -> bool:
    return request.do in FREEING and size <= FREEING_BYTES_MAX


def _line(content: dict[str, Any]) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode() + b"\n"


class _Window:
    """How many events a client is ready to receive."""

    def __init__(self, count: int | None) -> None:
        self.left: float = inf if count is None else count
        self._changed = trio.Event()

    def widen(self, count: int) -> None:
        self.left += count
        self._changed.set()

    async def is_open(self) -> None:
        while self.left < 1:
            self._changed = trio.Event()
            await self._changed.wait()


def _begun(events: EventStream, has_history: bool) -> dict[str, Any]:
    begun: dict[str, Any] = {
        "subscription": events.number,
        "was_there": events.was_there,
        "is_kept": events.is_kept,
    }
    if has_history:
        begun["history"] = {
            "events": events.recalled,
            "kept_since": time_document(events.kept_since),
            "is_whole": events.is_whole,
        }
    return begun


def _info_of(info: SubscriptionInfo) -> dict[str, Any]:
    return {
        "subscription": info.number,
        "predicate": str(info.predicate),
        "state": info.state.value,
        "is_taken": info.is_taken,
        "waiting": info.waiting,
        "is_kept": info.is_kept,
        "dropped": info.dropped,
    }
