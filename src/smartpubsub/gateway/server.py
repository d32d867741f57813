"""Runs the gateway beside a node; no failure of the gateway ends the node."""

from __future__ import annotations

import errno
import logging
import socket
from collections.abc import Sequence

import anycorn
import trio
from starlette.types import ASGIApp
from trio_typing import TaskStatus

from smartpubsub.errors import SmartPubSubError
from smartpubsub.gateway.access import REQUESTS_PER_S_MAX, Access, is_loopback
from smartpubsub.gateway.app import application
from smartpubsub.gateway.connections import ConnectionLimits, Connections
from smartpubsub.gateway.control import ControlSessions
from smartpubsub.gateway.operations import BODY_BYTES_MAX
from smartpubsub.gateway.streams import StreamLimits, Streams
from smartpubsub.gateway.tokens import TokenFile
from smartpubsub.node.api.node import Node
from smartpubsub.node.config_values import Endpoint

RESTART_S_MIN = 1.0
RESTART_S_MAX = 60.0
HEADER_BYTES_MAX = 32 << 10
BACKLOG = 1_024
WEBSOCKET_PING_S = 15
NOTIFY_S_MAX = 2.0
"""How long an ending gateway waits until its streams have notified their readers."""
ENDING = "the node is ending; connect again when it runs, with Last-Event-ID to resume"

_log = logging.getLogger(__name__)


class GatewayError(SmartPubSubError):
    """A gateway that cannot be started."""


class Gateway:
    """The HTTP gateway of one node."""

    def __init__(
        self,
        node: Node,
        at: Endpoint,
        *,
        hosts: Sequence[str] = (),
        limits: StreamLimits | None = None,
        connections: ConnectionLimits | None = None,
        requests_per_s_max: int = REQUESTS_PER_S_MAX,
    ) -> None:
        self._node = node
        self._tokens = TokenFile(node.config.data)
        self._hosts = hosts
        self._limits = limits
        self._connections = connections
        self._requests_per_s_max = requests_per_s_max
        self._wanted = at
        self.at = at
        """Where it listens; the port is known when it runs."""
        self.failure_count = 0

    async def run(self, *, task_status: TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled; after a failure, begin again."""
        self._check_tokens()
        listener = listening(self._wanted)
        with listener:
            self.at = Endpoint(self._wanted.host, listener.getsockname()[1])
            task_status.started()
            pause_s = RESTART_S_MIN
            while True:
                began = trio.current_time()
                try:
                    await self._serve(listener.dup())
                except Exception:
                    self.failure_count += 1
                    _log.exception("the gateway has failed, and begins again")
                if trio.current_time() - began > RESTART_S_MAX:
                    pause_s = RESTART_S_MIN
                await trio.sleep(pause_s)
                pause_s = min(2 * pause_s, RESTART_S_MAX)

    def _check_tokens(self) -> None:
        if not is_loopback(self._wanted.host) and not self._tokens.all():
            raise GatewayError(
                f"a gateway on {self._wanted} can be reached by others, so it needs a token; make"
                f" one with: smartpubsub token create NAME --scope read --data"
                f" {self._node.config.data}"
            )

    async def _serve(self, listener: socket.socket) -> None:
        streams = Streams(self._limits)
        access = Access(
            self._wanted,
            self._tokens,
            hosts=self._hosts,
            requests_per_s_max=self._requests_per_s_max,
        )
        sessions = ControlSessions(self._node, access)
        app = application(self._node, streams, access, sessions)
        serving = trio.CancelScope(shield=True)
        async with trio.open_nursery() as whole:
            whole.start_soon(_end_streams_first, streams, serving)
            with serving:
                async with trio.open_nursery() as nursery:
                    await nursery.start(streams.run)
                    await nursery.start(sessions.run)
                    await serve_forever(app, listener, self._connections)
                    nursery.cancel_scope.cancel()
            whole.cancel_scope.cancel()


async def _end_streams_first(streams: Streams, serving: trio.CancelScope) -> None:
    """When cancelled, notify the readers of all streams first, and then end the server."""
    try:
        await trio.sleep_forever()
    finally:
        with trio.move_on_after(NOTIFY_S_MAX) as limit:
            limit.shield = True
            await streams.end(ENDING)
        serving.cancel()


async def serve_forever(
    app: ASGIApp, listener: socket.socket, limits: ConnectionLimits | None = None
) -> None:
    """Serve an application on a socket that listens."""
    config = anycorn.Config()
    config.accesslog = None
    config.errorlog = logging.getLogger(f"{__name__}.http")
    config.errorlog.setLevel(logging.WARNING)
    config.include_server_header = False
    config.h11_max_incomplete_size = HEADER_BYTES_MAX
    config.websocket_max_message_size = BODY_BYTES_MAX
    config.websocket_ping_interval = WEBSOCKET_PING_S
    config.keep_alive_timeout = 30
    await Connections(app, config, limits or ConnectionLimits()).serve(listener)


def listening(at: Endpoint) -> socket.socket:
    """Listen at an address."""
    try:
        return socket.create_server(
            (at.host, at.port),
            family=socket.AF_INET6 if ":" in at.host else socket.AF_INET,
            backlog=BACKLOG,
        )
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            problem = "the port is in use; choose another, or 0 for any that is free"
        else:
            problem = f"{error.strerror or error}; choose another address"
        raise GatewayError(f"cannot serve HTTP on {at}: {problem}") from None
