"""A node that runs as a process of its own until it is told to end."""

from __future__ import annotations

import logging
import signal
from collections.abc import AsyncIterator, Callable

import trio

from smartpubsub.node.api.lone_errors import lone_errors
from smartpubsub.node.api.node import Node
from smartpubsub.node.configuration import NodeConfig
from smartpubsub.node.control.server import Control

_log = logging.getLogger(__name__)


def run_node(config: NodeConfig, on_ready: Callable[[Node], None]) -> None:
    """Run a node and serve it to its user, until Ctrl-C or a request to terminate."""
    with lone_errors():
        trio.run(_run, config, on_ready)


async def _run(config: NodeConfig, on_ready: Callable[[Node], None]) -> None:
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with trio.open_nursery() as whole:
            whole.start_soon(_end_when_told, signals, whole.cancel_scope)
            _log.info("starting", extra={"fields": {"data": config.data}})
            # Clients go before the node does, so that it can still end their subscriptions.
            async with Node(config=config) as node, trio.open_nursery() as clients:
                await clients.start(Control(node).serve)
                _log.info("ready", extra={"fields": {"peer": node.peer_id}})
                on_ready(node)
                await trio.sleep_forever()
    _log.info("ended")


async def _end_when_told(signals: AsyncIterator[int], scope: trio.CancelScope) -> None:
    async for number in signals:
        _log.info("ending", extra={"fields": {"signal": signal.Signals(number).name}})
        scope.cancel()
