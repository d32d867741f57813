"""The key of a private network: 32 secret bytes in a file that all its nodes have.

The file has the format of Kubo's `swarm.key`, so that other implementations of libp2p read it.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass, field
from pathlib import Path

from smartpubsub.errors import SmartPubSubError

KEY_BYTES = 32

_HEAD = ("/key/swarm/psk/1.0.0/", "/base16/")
_FILE_BYTES_MAX = 1024
_FOR_OTHERS = 0o077


class NetworkKeyError(SmartPubSubError):
    """A key of a network that cannot be read or written."""

    is_usage_error = True


@dataclass(frozen=True)
class NetworkKey:
    """The key; without it, no node can connect to a node of the network."""

    secret: bytes = field(repr=False)

    @classmethod
    def new(cls) -> NetworkKey:
        """Make a key."""
        return cls(secrets.token_bytes(KEY_BYTES))

    @classmethod
    def read(cls, path: Path) -> NetworkKey:
        """Read a key from its file."""
        try:
            with path.open("rb") as file:
                is_open_to_others = os.fstat(file.fileno()).st_mode & _FOR_OTHERS
                content = file.read(_FILE_BYTES_MAX)
        except OSError as error:
            raise NetworkKeyError(
                f"{path}: {error.strerror}; make a key with smartpubsub node network-key {path},"
                " or copy that of the network"
            ) from None
        if is_open_to_others:
            raise NetworkKeyError(f"{path}: other users can read it; run chmod 600 {path}")
        lines = content.decode("ascii", "replace").split()
        try:
            secret = bytes.fromhex(lines[2])
        except (ValueError, IndexError):
            secret = b""
        if tuple(lines[:2]) != _HEAD or len(lines) != len(_HEAD) + 1 or len(secret) != KEY_BYTES:
            raise NetworkKeyError(
                f"{path}: not the key of a network; it has the lines {_HEAD[0]}, {_HEAD[1]} and"
                f" {2 * KEY_BYTES} hexadecimal digits"
            )
        return cls(secret)

    def write(self, path: Path) -> None:
        """Write the key to a new file that only its owner can read."""
        text = "\n".join((*_HEAD, self.secret.hex(), ""))
        try:
            made = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            raise NetworkKeyError(f"{path} exists; a key is never overwritten") from None
        except OSError as error:
            raise NetworkKeyError(
                f"{path}: {error.strerror}; name a new file in a folder where you can create files"
            ) from None
        with os.fdopen(made, "w", encoding="ascii") as file:
            file.write(text)
