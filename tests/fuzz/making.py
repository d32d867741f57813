"""Makes arbitrary messages: of every type, plausible in some fields and absurd in others."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from enum import Enum
from functools import cache
from random import Random
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from smartpubsub.kademlia.keys import Contact
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.blocks import cid_of, encode
from smartpubsub.protocols.fastdelivery import messages as fast
from smartpubsub.protocols.publication import EventId, Publication
from smartpubsub.protocols.pulsarcast import messages as pulsar
from smartpubsub.protocols.pulsarcast.topics import META, Rules, new_meta_topic, new_topic
from smartpubsub.protocols.scoutsubs import messages as scout
from smartpubsub.seam import Peer
from smartpubsub.sim.kernel.signing import StandInSigning
from tests.fuzz.mutation import mutated

PREDICATES = [
    Predicate.parse(text)
    for text in (
        *("surf", "surf/price[0,10]", "surf/price=5", "a/b/c", "price[,]", "a=1e300"),
        # Enough different bounds for the indexes over them to grow, shrink and be rebuilt.
        *(f"surf/price={number}" for number in range(11, 40)),
    )
]
NAMES = ["surf", "a", "price", "surf\x1f1\x1f0", "\x1f", "é" * 500, "x"]
NUMBERS = [0, 1, 2, 3, 7, 127, 128, 1 << 16, 1 << 31, (1 << 32) - 1, 1 << 53, (1 << 63) - 1]
COUNTS = (0, 1, 1, 2, 5)
"""How many entries a list has; a few lists are much longer."""
LONG = 300
BYTES_MAX = 130
"""The longest bytes without a meaning: as long as a signature with some hashes after it."""
REMEMBERED_MAX = 64


class Maker:
    """Makes messages; values that the node itself has sent are used again and again."""

    def __init__(self, rng: Random, peers: Sequence[Peer]) -> None:
        self._rng = rng
        self.peers = peers
        self._seen: dict[type, deque[Any]] = {}
        self.blocks = self._some_blocks()

    def message(self, kind: type) -> Any:
        """A message of a type that has a codec."""
        rng = self._rng
        if kind is scout.Bundle:
            return scout.Bundle(tuple(self._part(scout) for _ in range(rng.randint(0, 3))))
        if kind is pulsar.Parcel:
            return pulsar.Parcel(tuple(self._part(pulsar) for _ in range(rng.randint(0, 3))))
        if kind is fast.Packet:
            return fast.Packet(self.value(int), self._part(fast))
        return self.value(kind)

    def _part(self, module: Any) -> Any:
        kinds = sorted(module.PART_KINDS, key=lambda kind: str(kind.__name__))
        return self.value(self._rng.choice(kinds))

    def notice(self, value: object) -> None:
        """Remember all values in a message that the node has sent."""
        if isinstance(value, tuple):
            for each in value:
                self.notice(each)
        if isinstance(value, int | str | bytes | Predicate | Publication | tuple):
            kept = self._seen.setdefault(type(value), deque(maxlen=REMEMBERED_MAX))
            kept.append(value)

    def value(self, hint: Any) -> Any:
        """A value of the type of a field."""
        rng, origin, inner = self._rng, get_origin(hint), get_args(hint)
        if origin is Annotated:
            return self.value(inner[0])
        if origin is tuple and inner[1:] == (Ellipsis,):
            count = LONG if rng.random() < 0.005 else rng.choice(COUNTS)
            return tuple(self.value(inner[0]) for _ in range(count))
        if origin is tuple:
            return tuple(map(self.value, inner))
        if origin in (Union, UnionType):
            options = [each for each in inner if each is not NoneType]
            is_none = NoneType in inner and rng.random() < 0.4
            return None if is_none else self.value(rng.choice(options))
        if self._seen.get(hint) and rng.random() < 0.5:
            return rng.choice(self._seen[hint])
        return self._new(hint)

    def _new(self, hint: Any) -> Any:
        rng = self._rng
        if hint is int:
            return rng.choice(NUMBERS) if rng.random() < 0.7 else rng.getrandbits(63)
        if hint is bool:
            return rng.random() < 0.5
        if hint is str:
            return rng.choice(NAMES)
        if hint is bytes:
            return self._some_bytes()
        if hint is Predicate:
            return rng.choice(PREDICATES)
        if hint is Contact:
            addresses = (b"", b"\x04\x7f\x00\x00\x01\x06\x0f\xa1", b"\xff" * 20)
            return Contact.of(rng.choice(self.peers), (rng.choice(addresses),))
        if hint is EventId:
            return EventId(rng.choice(self.peers), *rng.choices((0, 1, 2, (1 << 32) - 1), k=2))
        if hint is Publication:
            id: EventId = self.value(EventId)
            predicate, created_us = rng.choice(PREDICATES), rng.choice((0, 1, 1 << 50))
            signature = StandInSigning(id.publisher).sign(id, predicate, b"")
            return Publication.of(id, predicate, rng.randbytes(3), signature, created_us)
        if isinstance(hint, type) and issubclass(hint, Enum):
            return rng.choice(list(hint))
        fields = dict(_hints(hint))
        made = {name: self.value(fields[name]) for name in hint._fields}
        return hint.of(made["peer"], made["addresses"]) if hint is Contact else hint(**made)

    def _some_bytes(self) -> bytes:
        rng = self._rng
        if rng.random() < 0.2:
            return rng.randbytes(rng.randrange(BYTES_MAX))
        return rng.choice([*self.peers, *self.blocks, *map(cid_of, self.blocks), b""])

    def _some_blocks(self) -> list[bytes]:
        author = self.peers[0]
        signing = StandInSigning(author)
        meta = new_meta_topic("t/meta", author, signing, 1)
        topic = new_topic("t", author, Rules(), signing, 1, subtopics={META: meta.cid})
        return [meta.block, topic.block, encode({}), encode({"a": [1, None]}), b"\x81" * 50]

    def mutated(self, data: bytes) -> bytes:
        """Bytes with some changes."""
        return mutated(data, self._rng)


@cache
def _hints(message: Any) -> tuple[tuple[str, Any], ...]:
    return tuple(get_type_hints(message, include_extras=True).items())
