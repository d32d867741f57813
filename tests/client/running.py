"""A node in a thread of the test, with its control socket and its gateway, as `node run` has it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import trio

from smartpubsub import Node
from smartpubsub.gateway.server import Gateway
from smartpubsub.node.config_values import Endpoint
from smartpubsub.node.control.server import Control
from tests.node.hosts import LOOPBACK


@contextmanager
def running_node(folder: Path, *bootstrap: str, http: int = 0, **settings: Any) -> Iterator[str]:
    """Run a node; return the URL of its gateway."""
    node = Node(data=folder, listen=[LOOPBACK], bootstrap=bootstrap, **settings)
    gateway = Gateway(node, Endpoint("127.0.0.1", http))
    is_ready = threading.Event()
    stop: list[tuple[trio.lowlevel.TrioToken, trio.CancelScope]] = []
    errors: list[BaseException] = []

    async def live() -> None:
        async with node, trio.open_nursery() as clients:
            await clients.start(Control(node).serve)
            await clients.start(gateway.run)
            stop.append((trio.lowlevel.current_trio_token(), clients.cancel_scope))
            is_ready.set()

    def run() -> None:
        try:
            trio.run(live)
        except BaseException as error:
            errors.append(error)
        is_ready.set()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert is_ready.wait(30)
    try:
        if not errors:
            yield f"http://{gateway.at}"
    finally:
        if stop:
            stop[0][0].run_sync_soon(stop[0][1].cancel)
        thread.join(30)
        if errors:
            raise errors[0]
