"""The systems compared with, where they are installed: Zenoh and NATS, over loopback."""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
import threading
import time
from importlib import import_module
from typing import Any

EVENT = "surf"
WAIT_S_MAX = 20.0
POLL_S = 0.02
ABSENT = "absent"
NATS_SERVER = "nats-server"


def zenoh_rate(event_count: int, payload_bytes: int) -> float | None:
    """Events per second from one Zenoh peer to another; None if Zenoh is not installed."""
    zenoh = _module("zenoh")
    if zenoh is None:
        return None
    endpoint = f"tcp/127.0.0.1:{_free_port()}"
    received = _Countdown(event_count)
    with (
        zenoh.open(_zenoh_config(zenoh, "listen", endpoint)) as here,
        zenoh.open(_zenoh_config(zenoh, "connect", endpoint)) as there,
    ):
        subscriber = here.declare_subscriber(EVENT, lambda _: received.down())
        publisher = there.declare_publisher(EVENT, congestion_control=zenoh.CongestionControl.BLOCK)
        _wait_until(lambda: publisher.matching_status.matching)
        start = time.perf_counter()
        for _ in range(event_count):
            publisher.put(bytes(payload_bytes))
        received.wait()
        seconds = time.perf_counter() - start
        subscriber.undeclare()
    return event_count / seconds


def nats_rate(event_count: int, payload_bytes: int) -> float | None:
    """Events per second from one NATS client to another through a server; None if not installed."""
    nats = _module("nats")
    if nats is None or shutil.which(NATS_SERVER) is None:
        return None
    port = _free_port()
    command = [NATS_SERVER, "--addr", "127.0.0.1", "--port", str(port)]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, stdout=quiet, stderr=quiet) as server:
        try:
            _wait_until(lambda: _is_listening(port))
            return asyncio.run(_nats_rate(nats, port, event_count, payload_bytes))
        finally:
            server.kill()


async def _nats_rate(nats: Any, port: int, event_count: int, payload_bytes: int) -> float:
    here, there = [await nats.connect(f"nats://127.0.0.1:{port}") for _ in range(2)]
    left, all_received = event_count, asyncio.Event()

    async def on_event(_: object) -> None:
        nonlocal left
        left -= 1
        if not left:
            all_received.set()

    await here.subscribe(EVENT, cb=on_event)
    await here.flush()
    start = time.perf_counter()
    for _ in range(event_count):
        await there.publish(EVENT, bytes(payload_bytes))
    await there.flush()
    await asyncio.wait_for(all_received.wait(), WAIT_S_MAX)
    seconds = time.perf_counter() - start
    for client in (here, there):
        await client.close()
    return event_count / seconds


class _Countdown:
    """Waits in one thread until a number of events has arrived in another."""

    def __init__(self, count: int) -> None:
        self._left = count
        self._is_over = threading.Event()

    def down(self) -> None:
        self._left -= 1
        if not self._left:
            self._is_over.set()

    def wait(self) -> None:
        if not self._is_over.wait(WAIT_S_MAX):
            raise TimeoutError(f"{self._left} events have not arrived within {WAIT_S_MAX:g} s")


def _module(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        return None


def _zenoh_config(zenoh: Any, role: str, endpoint: str) -> Any:
    config = zenoh.Config()
    for key, value in {
        "mode": '"peer"',
        "scouting/multicast/enabled": "false",  # Peers elsewhere in the network must not take part.
        "listen/endpoints": "[]",
        f"{role}/endpoints": f'["{endpoint}"]',
    }.items():
        config.insert_json5(key, value)
    return config


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def _is_listening(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


def _wait_until(condition: Any) -> None:
    end = time.monotonic() + WAIT_S_MAX
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"it was not ready within {WAIT_S_MAX:g} s")
        time.sleep(POLL_S)
