"""Payloads that only the members of a circle can read, with keys that its owner distributes.

A circle is a set of nodes that share a key, for a topic, a group or any events. Its owner
distributes the key in a letter: the key, sealed for each member (`sealed.py`), under the owner's
signature. All members can read and write with it, and only the owner needs to know who they are.
When a member is removed, the owner makes a new key and distributes it to the remaining members.
Some payloads of the owner carry the letter, so members learn a new key from the events themselves.

    5 bytes                 ff 53 50 53 02
    8 bytes                 the id of the key, the beginning of its BLAKE2b hash
    4 bytes                 the length of the letter; 0 if there is none
    the letter              a signature of 64 bytes, the number of the key in 4, the sealed key
    the rest                a nonce of 24 bytes, and the encrypted value
"""

from __future__ import annotations

import fcntl
import json
import os
import struct
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from nacl.exceptions import BadSignatureError, CryptoError
from nacl.secret import SecretBox
from nacl.signing import SigningKey, VerifyKey
from nacl.utils import random

from smartpubsub.node.api.payloads import JSON, PayloadError, Serializer
from smartpubsub.node.api.sealed import READER_COUNT_MAX, peer_of, seal, unseal
from smartpubsub.node.identity import identity_in, peer_text, public_key_in
from smartpubsub.node.storage.folder import made_folder, sync_folder
from smartpubsub.seam import Peer

FOLDER = "circles"
LETTER_EVERY = 100
"""One payload of the owner in this many carries the letter, and the first after each change."""

_MAGIC = b"\xffSPS\x02"
_SIGNED = b"smartpubsub-circle:"
_LENGTH = struct.Struct(">I")
_NUMBER = struct.Struct(">I")
_ID_BYTES = 8
_SIGNATURE_BYTES = 64
_NOT_MEMBER = (
    "its key is not known here: this node is no member of the circle, or has missed the letter"
)


class _State(NamedTuple):
    """The state of a circle, as a node stores it."""

    number: int = 0
    """The number of the latest key; 0 if there is none."""
    keys: Mapping[bytes, bytes] = MappingProxyType({})
    """All keys by their ids, the latest last."""
    members: tuple[Peer, ...] = ()
    """All members but the owner; only the owner knows them."""


class Circle:
    """A serialiser whose payloads only the members of a circle can read.

    `data` is the data folder of the node that reads and writes, `name` the circle's name, and
    `owner` the peer id of its owner; without it, this node is the owner. `inside` writes the values
    themselves. Predicates stay readable for all nodes.
    """

    def __init__(
        self, data: str | Path, name: str, *, owner: str | None = None, inside: Serializer = JSON
    ) -> None:
        folder = Path(data).expanduser()
        self._identity = identity_in(folder)
        self._owner = self._identity.peer if owner is None else peer_of(owner)
        self._inside = inside
        self._name = name.encode()
        digest = blake2b(self._about(), digest_size=16).hexdigest()
        self._path = made_folder(folder / FOLDER) / f"{digest}.json"
        self._seen: tuple[int, int] | None = None
        self._state = _State()
        self._until_letter = 0
        """How many payloads of the owner come before the next one with a letter."""
        self._refresh()

    @property
    def is_owner(self) -> bool:
        """Whether this node owns the circle."""
        return self._owner == self._identity.peer

    @property
    def owner(self) -> str:
        """The peer id of the owner."""
        return peer_text(self._owner)

    @property
    def members(self) -> tuple[str, ...]:
        """The peer ids of the other members; only the owner knows them."""
        self._refresh()
        return tuple(map(peer_text, self._state.members))

    @property
    def number(self) -> int:
        """The number of the latest key that this node has; 0 if it has none."""
        self._refresh()
        return self._state.number

    # --- the owner ---

    def add(self, member: str) -> None:
        """Let a node read and write from now on."""
        self._check_owner()
        peer = peer_of(member)
        with self._changing():
            members = dict.fromkeys((*self._state.members, peer))
            if len(members) >= READER_COUNT_MAX:
                most = f"{READER_COUNT_MAX:,}"
                raise PayloadError(f"a circle has at most {most} nodes, with its owner")
            if peer != self._owner:
                self._store(self._state._replace(members=tuple(members)))

    def remove(self, member: str) -> None:
        """Make a new key, which a removed node does not get."""
        self._check_owner()
        peer = peer_of(member)
        with self._changing():
            if peer not in self._state.members:
                raise PayloadError(f"{member} is no member; the members are in Circle.members")
            self._replace_key(tuple(one for one in self._state.members if one != peer))

    def letter(self) -> bytes:
        """The letter with the latest key; members `take` it, or read a payload that carries it."""
        self._check_owner()
        number, members = _NUMBER.pack(self._state.number), self._state.members
        sealed = seal(self._latest()[1], (self._owner, *members))
        signature = SigningKey(self._identity.seed).sign(self._signed(number, sealed)).signature
        return signature + number + sealed

    def _check_owner(self) -> None:
        if not self.is_owner:
            raise PayloadError(f"only its owner, {self.owner}, hands out the keys of a circle")
        self._prepare()

    def _prepare(self) -> None:
        """Read the stored state; an owner makes the first key."""
        self._refresh()
        if self.is_owner and not self._state.number:
            with self._changing():
                if not self._state.number:
                    self._replace_key(())

    def _replace_key(self, members: tuple[Peer, ...]) -> None:
        key = random(SecretBox.KEY_SIZE)
        keys = {**self._state.keys, _id_of(key): key}
        self._store(_State(self._state.number + 1, keys, members))

    # --- members ---

    def take(self, letter: bytes) -> None:
        """Store the key in a letter; PayloadError unless it is by the owner and for this node."""
        self._refresh()
        try:
            self._take(letter)
        except ValueError as error:
            raise PayloadError(
                f"a letter of another circle, or not for this node: {error}"
            ) from None

    def _take(self, letter: bytes) -> None:
        signature, rest = letter[:_SIGNATURE_BYTES], letter[_SIGNATURE_BYTES:]
        packed, sealed = rest[: _NUMBER.size], rest[_NUMBER.size :]
        public = public_key_in(self._owner)
        assert public is not None
        try:
            VerifyKey(public).verify(self._signed(packed, sealed), signature)
        except (BadSignatureError, ValueError, TypeError):
            raise ValueError("the owner has not signed it") from None
        key = unseal(sealed, self._identity)
        (number,) = _NUMBER.unpack(packed)
        with self._changing():
            state = self._state
            if _id_of(key) in state.keys and number <= state.number:
                return
            latest = {_id_of(key): key}
            # An old letter may come again after later ones; its key reads old payloads.
            keys = {**state.keys, **latest} if number > state.number else {**latest, **state.keys}
            self._store(state._replace(number=max(number, state.number), keys=keys))

    # --- payloads ---

    def dumps(self, value: Any, /) -> bytes:
        """Write a value for the members."""
        self._prepare()
        content = self._inside.dumps(value)
        if not self._state.keys:
            raise ValueError(_NOT_MEMBER)
        id, key = self._latest()
        letter = b""
        if self.is_owner and self._state.members:
            if not self._until_letter:
                self._until_letter, letter = LETTER_EVERY, self.letter()
            self._until_letter -= 1
        box = SecretBox(key).encrypt(content)
        return b"".join((_MAGIC, id, _LENGTH.pack(len(letter)), letter, box))

    def loads(self, payload: bytes, /) -> Any:
        """Read a value; ValueError if this node does not have its key, or it was changed."""
        self._refresh()
        head = len(_MAGIC) + _ID_BYTES + _LENGTH.size
        if not payload.startswith(_MAGIC) or len(payload) < head:
            raise ValueError("it is not of a circle")
        id = payload[len(_MAGIC) : len(_MAGIC) + _ID_BYTES]
        end = head + _LENGTH.unpack_from(payload, len(_MAGIC) + _ID_BYTES)[0]
        if id not in self._state.keys and end > head:
            try:
                self._take(payload[head:end])
            except ValueError as error:
                raise ValueError(f"{_NOT_MEMBER} ({error})") from None
        key = self._state.keys.get(id)
        if key is None:
            raise ValueError(_NOT_MEMBER)
        try:
            return self._inside.loads(SecretBox(key).decrypt(payload[end:]))
        except CryptoError:
            raise ValueError("it has been changed") from None

    def _latest(self) -> tuple[bytes, bytes]:
        return list(self._state.keys.items())[-1]

    def _about(self) -> bytes:
        return _SIGNED + _LENGTH.pack(len(self._owner)) + self._owner + self._name

    def _signed(self, number: bytes, sealed: bytes) -> bytes:
        """The content that the owner signs; the name is hashed because it may have any length."""
        return _SIGNED + blake2b(self._about(), digest_size=32).digest() + number + sealed

    # --- the file ---

    def _refresh(self) -> None:
        """Read the file if another process has changed it."""
        try:
            status = self._path.stat()
        except FileNotFoundError:
            return
        seen = (status.st_mtime_ns, status.st_ino)
        if seen != self._seen:
            # A file that cannot be read stays unseen: the next call must not replace it.
            self._state = _read(self._path)
            self._seen, self._until_letter = seen, 0

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Read the stored state, and keep other processes from changing it meanwhile."""
        with self._path.with_suffix(".lock").open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._refresh()
            yield

    def _store(self, state: _State) -> None:
        document = {
            "name": self._name.decode(),
            "owner": self.owner,
            "number": state.number,
            "keys": [key.hex() for key in state.keys.values()],
            "members": [peer_text(peer) for peer in state.members],
        }
        descriptor, name = tempfile.mkstemp(prefix=f"{self._path.name}.", dir=self._path.parent)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:  # Other users cannot read it.
            json.dump(document, file)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(self._path)
        sync_folder(self._path.parent)
        self._refresh()


def _read(path: Path) -> _State:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        keys = [bytes.fromhex(key) for key in document["keys"]]
        if any(len(key) != SecretBox.KEY_SIZE for key in keys):
            raise ValueError("a key of another length")
        return _State(
            int(document["number"]),
            {_id_of(key): key for key in keys},
            tuple(map(peer_of, _texts(document["members"]))),
        )
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise PayloadError(
            f"{path}: the keys of a circle cannot be read ({error}); put a backup in its place"
        ) from None


def _texts(values: Iterable[object]) -> list[str]:
    return [str(value) for value in values]


def _id_of(key: bytes) -> bytes:
    return blake2b(key, digest_size=_ID_BYTES).digest()
