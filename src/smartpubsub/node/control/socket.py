"""The socket over which the programs of its user talk to a running node.

It lies in the node's data folder, and only its user can open it. The names of sockets have to be
short, about a hundred bytes: if the folder's is too long, the socket lies in a folder of its own
among temporary files, and a symbolic link in the data folder says where.
"""

from __future__ import annotations

import os
import socket
import tempfile
from contextlib import suppress
from pathlib import Path

from smartpubsub.errors import SmartPubSubError

SOCKET = "control.sock"
LINE_BYTES_MAX = 8 << 20
"""Of a request, an answer or an event."""

_NAME_BYTES_MAX = 100
"""Linux takes 107 bytes, others a few less."""
_FOLDER_PREFIX = "smartpubsub-"
_BACKLOG = 16
_USER_ONLY = 0o600


class ControlError(SmartPubSubError):
    """A node that cannot be talked to, or that could not do what it was asked for."""


def socket_in(folder: Path) -> Path:
    """Where the socket of the node with a data folder lies, if the node runs."""
    link = folder / SOCKET
    return link.readlink() if link.is_symlink() else link


def listening(folder: Path) -> socket.socket:
    """A socket that waits for clients. Nobody else may be using the folder."""
    remove(folder)  # A node that was killed has left it behind.
    path = (folder / SOCKET).absolute()
    try:
        if len(os.fsencode(path)) > _NAME_BYTES_MAX:
            link, path = path, Path(_short_folder()) / SOCKET
            link.symlink_to(path)
        return _bound(path)
    except OSError as error:
        remove(folder)
        raise ControlError(
            f"{path}: {error.strerror}; a node has to serve a socket there"
        ) from None


def remove(folder: Path) -> None:
    """Remove the socket, and all that was made for it."""
    with suppress(OSError):
        path = socket_in(folder)
        if (folder / SOCKET).is_symlink():
            (folder / SOCKET).unlink()
            if path.name == SOCKET and path.parent.name.startswith(_FOLDER_PREFIX):
                path.unlink(missing_ok=True)
                path.parent.rmdir()
        elif path.is_socket():
            path.unlink()


def _bound(path: Path) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        made.bind(str(path))
        path.chmod(_USER_ONLY)  # Until it listens, nobody can connect to it.
        made.listen(_BACKLOG)
    except BaseException:
        made.close()
        raise
    return made


def _short_folder() -> str:
    """A new folder that only its user can open."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    is_usable = Path(runtime).is_absolute() and os.access(runtime, os.W_OK | os.X_OK)
    return tempfile.mkdtemp(prefix=_FOLDER_PREFIX, dir=runtime if is_usable else None)
