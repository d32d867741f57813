"""The control socket of a node: a Unix socket in the data folder, which only its user can open.

Paths of Unix sockets are limited to about a hundred bytes. If the data folder's path is too long,
the socket is in a temporary folder, and a symbolic link in the data folder points to it.
"""

from __future__ import annotations

import errno
import os
import socket
import tempfile
from contextlib import suppress
from pathlib import Path

from smartpubsub.node.control.limits import SOCKET, socket_path
from smartpubsub.node.errors import ControlError

_NAME_BYTES_MAX = 100
"""Linux takes 107 bytes, others a few less."""
_FOLDER_PREFIX = "smartpubsub-"
_BACKLOG = 16
_USER_ONLY = 0o600


def socket_in(folder: Path) -> Path:
    """The path of the control socket of a data folder."""
    return Path(socket_path(str(folder)))


def listening(folder: Path) -> socket.socket:
    """Make a listening socket. The caller holds the lock of the folder."""
    remove(folder)  # A killed node leaves it behind.
    place = (folder / SOCKET).absolute()
    try:
        if len(os.fsencode(place)) <= _NAME_BYTES_MAX:
            return _bound(place)
        return _bound(_linked(place))
    except OSError as error:
        remove(folder)
        remedy = "move away what is in its place"
        if error.errno not in (errno.EADDRINUSE, errno.EEXIST):
            remedy = "look whether the folder is writable and the disk has room"
        raise ControlError(
            f"{place}: {error.strerror}; the node needs a control socket there: {remedy}"
        ) from None


def remove(folder: Path) -> None:
    """Remove the socket, and its temporary folder and link if it has them."""
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
        path.chmod(_USER_ONLY)  # No client can connect before it listens.
        made.listen(_BACKLOG)
    except BaseException:
        made.close()
        raise
    return made


def _linked(place: Path) -> Path:
    """Make a symbolic link to a short path; return that path."""
    path = Path(_short_folder()) / SOCKET
    try:
        place.symlink_to(path)
    except OSError:
        path.parent.rmdir()
        raise
    return path


def _short_folder() -> str:
    """Make a folder with a short path that only this user can open."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    is_usable = Path(runtime).is_absolute() and os.access(runtime, os.W_OK | os.X_OK)
    return tempfile.mkdtemp(prefix=_FOLDER_PREFIX, dir=runtime if is_usable else None)
