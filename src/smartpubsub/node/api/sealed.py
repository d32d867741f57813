"""Payloads that only chosen nodes can read.

Each payload is encrypted with a random key of its own, and that key with the public key of each
reader, which is in the reader's peer id. So there is no key to distribute, and a removed reader
cannot read later payloads. The ciphers are libsodium's: secret boxes for payloads, sealed boxes for
keys.

    5 bytes                 ff 53 50 53 01
    2 bytes                 the number of readers
    for each reader         8 bytes by which it finds its place, and 80 bytes with the key
    the rest                a nonce of 24 bytes, and the encrypted value
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path
from typing import Any

import base58
from nacl.exceptions import CryptoError
from nacl.public import PublicKey, SealedBox
from nacl.secret import SecretBox
from nacl.signing import SigningKey, VerifyKey
from nacl.utils import random

from smartpubsub.node.api.payloads import JSON, PayloadError, Serializer
from smartpubsub.node.identity import Identity, identity_in, peer_text, public_key_in
from smartpubsub.seam import Peer

READER_COUNT_MAX = 1_000

_MAGIC = b"\xffSPS\x01"
_COUNT = struct.Struct(">H")
_PLACE_BYTES = 8
_SEALED_BYTES = 80
_READER_BYTES = _PLACE_BYTES + _SEALED_BYTES


class Sealed:
    """A serialiser whose payloads only chosen nodes can read.

    `data` is the data folder of the node that reads and writes, `to` are the peer ids of the other
    readers, and `inside` writes the values themselves. Predicates stay readable for all nodes.
    """

    def __init__(
        self, data: str | Path, to: str | Iterable[str] = (), *, inside: Serializer = JSON
    ) -> None:
        self._identity = identity_in(Path(data).expanduser())
        self._inside = inside
        self._readers: dict[Peer, None] = {self._identity.peer: None}
        for reader in [to] if isinstance(to, str) else to:
            self.add(reader)

    @property
    def readers(self) -> tuple[str, ...]:
        """The peer ids of all readers, this node's first."""
        return tuple(map(peer_text, self._readers))

    def add(self, reader: str) -> None:
        """Let a node read what is written from now on."""
        peer = peer_of(reader)
        if len(self._readers | {peer: None}) > READER_COUNT_MAX:
            raise PayloadError(f"at most {READER_COUNT_MAX:,} nodes can read a payload")
        self._readers[peer] = None

    def remove(self, reader: str) -> None:
        """Keep a node from reading what is written from now on."""
        self._readers.pop(peer_of(reader), None)

    def dumps(self, value: Any, /) -> bytes:
        """Write a value for the readers."""
        return seal(self._inside.dumps(value), self._readers)

    def loads(self, payload: bytes, /) -> Any:
        """Read a value; ValueError if it is not for this node, or was changed."""
        return self._inside.loads(unseal(payload, self._identity))


def seal(content: bytes, readers: Iterable[Peer]) -> bytes:
    """Encrypt bytes for some nodes."""
    key = random(SecretBox.KEY_SIZE)
    box = SecretBox(key).encrypt(content)
    found = []
    for peer in readers:
        public = _curve_key(peer)
        found.append(_place(public, box.nonce) + SealedBox(public).encrypt(key))
    # In a fixed order, payloads would show which places belong to the same reader.
    found.sort()
    return b"".join((_MAGIC, _COUNT.pack(len(found)), *found, box))


def unseal(sealed: bytes, reader: Identity) -> bytes:
    """Decrypt bytes that are for a node; ValueError if they are not."""
    start = len(_MAGIC) + _COUNT.size
    if not sealed.startswith(_MAGIC) or len(sealed) < start:
        raise ValueError("it is not encrypted")
    end = start + _COUNT.unpack_from(sealed, len(_MAGIC))[0] * _READER_BYTES
    secret = SigningKey(reader.seed).to_curve25519_private_key()
    place = _place(secret.public_key, sealed[end : end + SecretBox.NONCE_SIZE])
    for at in range(start, end, _READER_BYTES):
        if sealed[at : at + _PLACE_BYTES] != place:
            continue
        try:
            key = SealedBox(secret).decrypt(sealed[at + _PLACE_BYTES : at + _READER_BYTES])
            return SecretBox(key).decrypt(sealed[end:])
        except (CryptoError, ValueError):
            raise ValueError("it has been changed") from None
    raise ValueError("this node is not one of its readers")


class NotPeerIdError(PayloadError):
    """A text that is not the peer id of a node with a key to encrypt for."""

    is_usage_error = True


def peer_of(text: str) -> Peer:
    """Read the peer id of a node."""
    try:
        peer = base58.b58decode(text)
        _curve_key(peer)
    except ValueError:
        raise NotPeerIdError(f"{text!r} is not the peer id of a node, such as 12D3KooW…") from None
    return peer


def _curve_key(peer: Peer) -> PublicKey:
    public = public_key_in(peer)
    if public is None:
        raise ValueError
    try:
        return VerifyKey(public).to_curve25519_public_key()
    except (CryptoError, RuntimeError) as error:
        raise ValueError from error


def _place(public: PublicKey, nonce: bytes) -> bytes:
    """The mark of a reader's place; it differs in each payload, so it does not show who reads."""
    return blake2b(bytes(public), key=nonce, digest_size=_PLACE_BYTES).digest()
