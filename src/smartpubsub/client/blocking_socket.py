"""Plain sockets as byte streams whose methods block, and the driver of coroutines on them."""

from __future__ import annotations

import os
import select

# Importing the module socket makes enums of all its constants, which takes longer than a
# request. Its class is this one with a few more methods.
from _socket import AF_UNIX, SHUT_RDWR, SHUT_WR, SOCK_STREAM, socket

from smartpubsub.node.control.limits import socket_path
from smartpubsub.node.errors import ControlError, NoNodeError

TYPE_CHECKING = False  # The import from typing takes as long as this whole module.
if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any, TypeVar

    T = TypeVar("T")

CONNECT_S_MAX = 10.0
FINISH_S_MAX = 10.0
"""How long a client waits for the node to end a subscription."""
_SEND_S_MAX = 150.0
_RECEIVE_BYTES = 64 << 10


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on blocking streams, where it never suspends."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    coroutine.close()
    raise AssertionError("a blocking call has suspended")


class BlockingStream:
    """A connection; its methods block."""

    def __init__(self, connected: socket) -> None:
        self._socket = connected

    async def send(self, data: bytes) -> None:
        """Send all bytes."""
        self._socket.settimeout(_SEND_S_MAX)
        self._socket.sendall(data)

    async def receive(self, timeout_s: float | None) -> bytes:
        """Receive some bytes, none at the end."""
        self._socket.settimeout(None if timeout_s is None else max(timeout_s, 0.000_001))
        return self._socket.recv(_RECEIVE_BYTES)

    async def finish(self) -> None:
        """End the sending side, and wait until the peer closes."""
        try:
            self._socket.shutdown(SHUT_WR)
            self._socket.settimeout(FINISH_S_MAX)
            while self._socket.recv(_RECEIVE_BYTES):
                pass
        except OSError:
            pass
        self._socket.close()

    async def close(self) -> None:
        """Close the connection; a thread that reads from it gets its end."""
        try:  # noqa: SIM105 (contextlib takes long to import)
            self._socket.shutdown(SHUT_RDWR)
        except OSError:
            pass
        self._socket.close()

    def is_stale(self) -> bool:
        """Whether the connection has something to read, or has ended."""
        return is_readable(self._socket.fileno())


def is_readable(file: int) -> bool:
    """Whether reading from a file would not wait."""
    poll = select.poll()
    poll.register(file, select.POLLIN)
    return bool(poll.poll(0))


class NoLimit:
    """A limit that allows any number of requests."""

    async def __aenter__(self) -> None:
        return None

    async def __aexit__(self, *_: object) -> None:
        return None


class BlockingNetwork:
    """Connects to the control socket of the node that runs in a data folder."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self.name = node_name(folder)

    async def connect(self) -> BlockingStream:
        """Open a connection."""
        made = socket(AF_UNIX, SOCK_STREAM)
        made.settimeout(CONNECT_S_MAX)
        try:
            made.connect(socket_path(self._folder))
        except OSError as error:
            made.close()
            raise unreachable(self._folder, error) from None
        return BlockingStream(made)

    def turn(self) -> NoLimit:
        """Do not limit requests: a thread makes one at a time."""
        return NoLimit()


def node_name(folder: str) -> str:
    """The node's name in errors."""
    return f"the node in {folder}"


def unreachable(folder: str, error: OSError) -> ControlError:
    """Make the error for a node that cannot be reached, with the remedy."""
    if isinstance(error, PermissionError):
        return ControlError(
            f"{folder} belongs to another user; run the program as the user who runs the node"
        )
    if isinstance(error, TimeoutError | BlockingIOError):
        return ControlError(f"the node in {folder} does not answer; try again")
    import shlex

    start = f"smartpubsub node run --data {shlex.quote(folder)}"
    return NoNodeError(f"no node runs in {folder}; start one with: {start}")


def _configured_folder(file: str) -> str | None:
    import tomllib

    try:
        with open(os.path.expanduser(file), "rb") as opened:  # noqa: PTH111, PTH123
            data = tomllib.load(opened).get("data")
    except (OSError, ValueError) as error:
        raise ControlError(f"{file}: the settings of the node cannot be read: {error}") from None
    return None if data is None else str(data)


def folder_of(data: str | os.PathLike[str] | None) -> str:
    """Choose the data folder: the given one, that of the settings, or the default.

    `pathlib` would take longer to import than everything else here.
    """
    given = data if data is not None else os.environ.get("SMARTPUBSUB_DATA")
    if given is None and (file := os.environ.get("SMARTPUBSUB_CONFIG")):
        given = _configured_folder(file)
    return os.path.expanduser(given or "~/.smartpubsub")  # noqa: PTH111
