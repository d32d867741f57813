"""The identity of a node: an Ed25519 key in its data folder, and the peer id made from it."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import base58
from nacl.signing import SigningKey

from smartpubsub.errors import SmartPubSubError
from smartpubsub.kademlia.id_work import has_work
from smartpubsub.node.storage.folder import made_folder, sync_folder
from smartpubsub.seam import Peer

KEY_FILE = "identity.key"
KEY_BYTES = 32

# A multihash that is the public key itself, in libp2p's protobuf message of a type and bytes.
_PEER_ID_HEAD = bytes.fromhex("002408011220")
_PRIVATE_HEAD = bytes.fromhex("080112")
_FILE_BYTES_MAX = 1024
_FOR_OTHERS = 0o077


class IdentityError(SmartPubSubError):
    """A key that cannot be read, or that other users can read."""


@dataclass(frozen=True)
class Identity:
    """A node's secret key, made from 32 random bytes."""

    seed: bytes = field(repr=False)
    peer: Peer

    @classmethod
    def of(cls, seed: bytes) -> Identity:
        """Make the identity of a seed."""
        return cls(seed, _PEER_ID_HEAD + bytes(SigningKey(seed).verify_key))

    @classmethod
    def new(cls, work_bits: int = 0) -> Identity:
        """Make a new identity, whose peer id has a proof of work of so many bits."""
        while True:
            identity = cls.of(bytes(SigningKey.generate()))
            if has_work(identity.peer, work_bits):
                return identity

    def __str__(self) -> str:
        return peer_text(self.peer)

    def written(self) -> bytes:
        """Write the key as libp2p does: a protobuf message of type, seed and public key."""
        content = self.seed + self.peer[len(_PEER_ID_HEAD) :]
        return _PRIVATE_HEAD + bytes([len(content)]) + content

    @classmethod
    def read(cls, written: bytes) -> Identity:
        """Read a key that an implementation of libp2p has written."""
        head, length, content = written[:3], written[3:4], written[4:]
        if head != _PRIVATE_HEAD or length != bytes([len(content) & 0xFF]):
            raise IdentityError("no Ed25519 key as libp2p writes it")
        seed, rest = content[:KEY_BYTES], content[KEY_BYTES:]
        if len(seed) != KEY_BYTES:
            raise IdentityError("an Ed25519 key that is too short")
        identity = cls.of(seed)
        public = identity.peer[len(_PEER_ID_HEAD) :]
        # py-libp2p leaves the public key out, and old versions of others write it twice.
        if rest not in (b"", public, public * 2):
            raise IdentityError("an Ed25519 key whose two halves do not belong together")
        return identity


@lru_cache(maxsize=1 << 12)
def peer_text(peer: Peer) -> str:
    """The text of a peer id, in base 58.

    >>> peer_text(bytes.fromhex("002408011220") + bytes(32))
    '12D3KooW9pNAk8aiBuGVQtWRdbkLmo5qVL3e2h5UxbN2Nz9ttwiw'
    """
    return base58.b58encode(peer).decode()


def public_key_in(peer: Peer) -> bytes | None:
    """The Ed25519 key in a peer id, if it has one."""
    key = peer[len(_PEER_ID_HEAD) :]
    is_made_of_it = peer.startswith(_PEER_ID_HEAD) and len(key) == KEY_BYTES
    return key if is_made_of_it else None


def identity_in(folder: Path, work_bits: int = 0) -> Identity:
    """Read the identity in a data folder, or make one with a proof of work of so many bits."""
    path = made_folder(folder) / KEY_FILE
    try:
        if not path.exists():
            _write_once(path, Identity.new(work_bits).written())
        written = _secret_content(path)
    except OSError as error:
        raise IdentityError(
            f"{path}: {error.strerror}; a node has to read it, or to create it in its data folder"
        ) from None
    try:
        identity = Identity.read(written)
    except IdentityError as error:
        raise IdentityError(
            f"{path}: {error}; put a backup in its place, or move it away to get a new peer id"
        ) from None
    if not has_work(identity.peer, work_bits):
        raise IdentityError(
            f"{path}: a peer id without the proof of work that id_work_bits = {work_bits} asks for;"
            " move it away to get a new peer id"
        )
    return identity


def keep_identity(folder: Path, identity: Identity) -> None:
    """Write an identity into a data folder that has none."""
    path = made_folder(folder) / KEY_FILE
    if not path.exists():
        _write_once(path, identity.written())


def _secret_content(path: Path) -> bytes:
    with path.open("rb") as file:
        mode = os.fstat(file.fileno()).st_mode & 0o777
        if mode & _FOR_OTHERS:
            raise IdentityError(
                f"{path} can be opened by others (mode {mode:04o}), and a secret key must not be;"
                f" chmod 600 {path}"
            )
        return file.read(_FILE_BYTES_MAX)


def _write_once(path: Path, content: bytes) -> None:
    """Write a file that only its user can read, unless it exists."""
    descriptor, name = tempfile.mkstemp(prefix=f"{path.name}.", dir=path.parent)
    unfinished = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        # A link, unlike a rename, does not replace a file that another process has written.
        path.hardlink_to(unfinished)
    except FileExistsError:
        pass
    finally:
        unfinished.unlink()
    sync_folder(path.parent)
