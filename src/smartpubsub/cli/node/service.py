"""Running a node as a process."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import trio

from smartpubsub.cli.extras import needing
from smartpubsub.client.lines import NOTICE_S
from smartpubsub.node.api.lone_errors import lone_errors
from smartpubsub.node.api.node import Node
from smartpubsub.node.config_values import Endpoint
from smartpubsub.node.configuration import NodeConfig
from smartpubsub.node.control.server import Control
from smartpubsub.node.interpreter import clean_memory, tune_interpreter

_log = logging.getLogger(__name__)


OnReady = Callable[[Node, Endpoint | None], None]
"""Called with the node, and with the address of its HTTP gateway if it has one."""


def run_node(config: NodeConfig, on_ready: OnReady, on_wait: Callable[[str], None]) -> None:
    """Run a node, its control socket and its gateway, until SIGINT or SIGTERM.

    `on_wait` is called with what the node waits for, if starting takes longer than `NOTICE_S`.
    """
    tune_interpreter()
    with lone_errors():
        trio.run(_run, config, on_ready, on_wait)


async def _run(config: NodeConfig, on_ready: OnReady, on_wait: Callable[[str], None]) -> None:
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with trio.open_nursery() as whole:
            whole.start_soon(_end_at_signal, signals, whole.cancel_scope)
            whole.start_soon(clean_memory)
            _log.info("starting", extra={"fields": {"data": config.data}})
            node = Node(config=config)
            # Clients end before the node, so that it can still end their subscriptions.
            async with started(node, on_wait), trio.open_nursery() as clients:
                await clients.start(Control(node).serve)
                http_at = await _serve_http(node, clients)
                _log.info("ready", extra={"fields": {"peer": node.peer_id}})
                on_ready(node, http_at)
                await trio.sleep_forever()
    _log.info("ended")


async def _serve_http(node: Node, clients: trio.Nursery) -> Endpoint | None:
    if node.config.http is None:
        return None
    with needing("the gateway", "gateway"):
        from smartpubsub.gateway.server import Gateway
    gateway = Gateway(node, node.config.http, hosts=node.config.http_hosts)
    await clients.start(gateway.run)
    return gateway.at


@asynccontextmanager
async def started(node: Node, on_wait: Callable[[str], None]) -> AsyncIterator[None]:
    """Start a node; a thread reports what it waits for, because a core blocks while it loads."""
    is_over = threading.Event()

    def tell() -> None:
        reported = ""
        while not is_over.wait(NOTICE_S):
            if node.start_phase != reported:
                reported = node.start_phase
                on_wait(reported)

    threading.Thread(target=tell, daemon=True).start()
    try:
        async with node:
            is_over.set()
            yield
    finally:
        is_over.set()


async def _end_at_signal(signals: AsyncIterator[int], scope: trio.CancelScope) -> None:
    async for number in signals:
        _log.info("ending", extra={"fields": {"signal": signal.Signals(number).name}})
        scope.cancel()
