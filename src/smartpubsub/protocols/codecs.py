"""How to encode and decode each type of message, and what a host has to know about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from smartpubsub.kademlia import messages as kad
from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.messages import Kind, Message
from smartpubsub.kademlia.settings import Settings
from smartpubsub.predicates import ATTRIBUTES_MAX
from smartpubsub.protocols import departure
from smartpubsub.protocols.departure import Goodbye
from smartpubsub.protocols.publication import EventId

KADEMLIA = "/smartpubsub/kad/2.0.0"
NODE = "/smartpubsub/node/1.0.0"


def _never(_: Any) -> bool:
    return False


def _no_contacts(_: Any) -> Iterable[Contact]:
    return ()


def _as_it_is(message: Any) -> Any:
    return message


def _its_type(message: Any) -> Mapping[str, int]:
    return {type(message).__name__.lower(): 1}


@dataclass(frozen=True, kw_only=True)
class Codec:
    """One type of message: how to encode and decode it, and what a host can read from it."""

    message: type
    protocol: str
    """The protocol id of the streams that carry it."""
    encode: Callable[[Any], bytes]
    """Encode a message, with its length before it as a varint."""
    decode: Callable[[bytes], Any]
    """Decode one message; raise `WireError` if it is malformed or exceeds a limit."""
    message_bytes_max: int
    is_question: Callable[[Any], bool] = _never
    """Whether a received message that answers no request wants an answer on the same stream."""
    is_last: bool = False
    """Whether it is the last message of a peer: the host handles all earlier ones first."""
    contacts: Callable[[Any], Iterable[Contact]] = _no_contacts
    """The peers that a message names and that its receiver may have to reach."""
    without_contacts: Callable[[Any], Any] = _as_it_is
    """The same message without the peers that it names."""
    decode_pieces: Callable[[bytes], Iterable[Any]] | None = None
    """Decode one long message as several with the same content in the same order, each small enough
    to be decoded and handled at once; None if it is always small."""
    kinds: Callable[[Any], Mapping[str, int]] = _its_type
    """What a message contains, counted by kind; a host limits and counts rates by kind."""
    rare_kinds: frozenset[str] = frozenset()
    """The kinds that are not about single events; peers send only few of these."""
    spread_kinds: frozenset[str] = frozenset()
    """The kinds that other nodes have work with too: the receiver passes them on."""
    event_kinds: frozenset[str] = frozenset()
    """The kinds that bring an event to a node."""
    event_ids: Callable[[Any], Iterable[EventId]] | None = None
    """The events that a message brings to its receiver, without retransmissions; None if never."""
    at_once: Callable[[Any], tuple[Any, Any]] | None = None
    """Split a message into the part that need not wait until the changes of the same input are on
    disk, and the part that must; either may be None. None if every message has to wait."""
    wire_bytes: Callable[[Any], int] | None = None
    """The length of an encoded message, without encoding it; None to encode it."""

    def pieces(self, data: bytes) -> Iterator[Any]:
        """Decode one message as one or several, one at a time."""
        if self.decode_pieces is None:
            yield self.decode(data)
        else:
            yield from self.decode_pieces(data)

    @property
    def is_gathered(self) -> bool:
        """Whether a receiver may decode and handle several messages together."""
        return self.decode_pieces is None and self.is_question is _never and not self.is_last

    def size(self, message: Any) -> int:
        """The length of a message on the wire."""
        return len(self.encode(message)) if self.wire_bytes is None else self.wire_bytes(message)


@dataclass(frozen=True, kw_only=True)
class WireLimits:
    """The limits on received messages that a user can configure."""

    message_bytes_max: int = 4 << 20
    """Of any message; a protocol may have a lower limit."""
    attribute_count_max: int = ATTRIBUTES_MAX
    """Of a predicate."""


def kademlia_codec(settings: Settings) -> Codec:
    """The codec of Kademlia, under an id of its own: this is not the public network of IPFS."""
    return Codec(
        message=Message,
        protocol=KADEMLIA,
        encode=kad.encode,
        decode=lambda data: kad.decode(data, settings),
        message_bytes_max=settings.message_bytes_max,
        is_question=lambda message: message.kind is not Kind.ADD_PROVIDER,
        contacts=lambda message: (*message.closer, *message.providers),
        without_contacts=lambda message: message._replace(closer=(), providers=()),
        kinds=lambda message: {f"kad/{message.kind.name.lower()}": 1},
        rare_kinds=frozenset(f"kad/{kind.name.lower()}" for kind in Kind),
        wire_bytes=kad.wire_bytes,
    )


def node_codec() -> Codec:
    """The codec of the goodbye, which nodes of all protocols send."""
    return Codec(
        message=Goodbye,
        protocol=NODE,
        encode=departure.encode,
        decode=departure.decode,
        message_bytes_max=departure.GOODBYE_BYTES,
        is_last=True,
        wire_bytes=departure.wire_bytes,
    )


def common_codecs(settings: Settings) -> list[Codec]:
    """The codecs of the messages that nodes of all protocols send."""
    return [kademlia_codec(settings), node_codec()]
