"""Serves a node's metrics over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import h11
import trio
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from trio_typing import TaskStatus

from smartpubsub.node.config_values import Endpoint
from smartpubsub.node.control.host_names import HostNames
from smartpubsub.node.errors import NodeError

PATH = "/metrics"
CLIENT_COUNT_MAX = 8
"""Connections at once; further ones are closed."""
CLIENT_S_MAX = 10.0
"""How long one request may take."""

_RECEIVE_BYTES = 4096
_OK, _NOT_FOUND, _NOT_ALLOWED, _MISDIRECTED, _BUSY = 200, 404, 405, 421, 503
_REASONS = {
    _NOT_FOUND: f"metrics are at {PATH}\n",
    _NOT_ALLOWED: "only GET is served\n",
    _MISDIRECTED: "call this server by its address, or list the name in the setting http_hosts\n",
    _BUSY: "too many clients; try later\n",
}


class MetricsError(NodeError):
    """An address on which metrics cannot be served."""


class MetricsServer:
    """Answers one request on each connection, and closes it."""

    def __init__(self, text: Callable[[], bytes], hosts: Sequence[str] = ()) -> None:
        self._text = text
        self._hosts = HostNames(hosts)
        self._client_count = 0

    async def serve(
        self, at: Endpoint, *, task_status: TaskStatus[Endpoint] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Serve until cancelled; report the address, because port 0 stands for any free port."""
        try:
            listeners = await trio.open_tcp_listeners(at.port, host=at.host)
        except OSError as error:
            problem = error.strerror or error
            raise MetricsError(
                f"cannot serve metrics on {at}: {problem}; choose another address"
            ) from None
        port = listeners[0].socket.getsockname()[1]
        task_status.started(Endpoint(at.host, port))
        await trio.serve_listeners(self._welcome, listeners)

    async def _welcome(self, stream: trio.SocketStream) -> None:
        self._client_count += 1
        try:
            with trio.move_on_after(CLIENT_S_MAX):
                async with stream:
                    await self._answer(stream)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # The client has disconnected.
        finally:
            self._client_count -= 1

    async def _answer(self, stream: trio.SocketStream) -> None:
        http = h11.Connection(h11.SERVER)
        try:
            request = await _request(stream, http)
        except h11.RemoteProtocolError:
            return  # The client does not speak HTTP, and would not understand an answer.
        if request is None:
            return
        status = self._status_for(request)
        body = self._text() if status == _OK else _REASONS[status].encode()
        kind = CONTENT_TYPE_LATEST if status == _OK else "text/plain; charset=utf-8"
        response = h11.Response(
            status_code=status,
            headers=[
                ("Content-Type", kind),
                ("Content-Length", str(len(body))),
                ("Connection", "close"),
            ],
        )
        for event in (response, h11.Data(body), h11.EndOfMessage()):
            await stream.send_all(http.send(event) or b"")

    def _status_for(self, request: h11.Request) -> int:
        if self._client_count > CLIENT_COUNT_MAX:
            return _BUSY
        if not self._hosts.has(dict(request.headers).get(b"host", b"").decode("latin-1")):
            return _MISDIRECTED
        if request.target.partition(b"?")[0] != PATH.encode():
            return _NOT_FOUND
        return _OK if request.method == b"GET" else _NOT_ALLOWED


async def _request(stream: trio.SocketStream, http: h11.Connection) -> h11.Request | None:
    while (event := http.next_event()) is h11.NEED_DATA:
        http.receive_data(await stream.receive_some(_RECEIVE_BYTES))
    return event if isinstance(event, h11.Request) else None
