"""How to read the fields of descriptors, and the reasons for which a node refuses one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, NoReturn, TypeVar

from smartpubsub.errors import SmartPubSubError
from smartpubsub.protocols.blocks import BlockError, Cid, cid_of_link, decode, time_from_text
from smartpubsub.seam import Peer

PROTOCOL_VERSION = "2.0.0"
"""The version of descriptors; those of the first implementation had no signatures."""
PEER_BYTES_MAX = 128
PEERS_MAX = 1_000
"""How many peers a rule of a topic may name."""

NATURAL_END = 1 << 53
"""Heights and versions are below this, so that the next one is in range too."""

T = TypeVar("T")


class Reason(Enum):
    """What is wrong with a descriptor, or with the moment of its arrival."""

    MALFORMED = "malformed"
    """It is not a descriptor, or not in canonical form."""
    OVERSIZED = "oversized"
    FORGED = "forged"
    """A signature is not that of the peer it names."""
    UNAUTHORISED = "unauthorised"
    """The topic does not allow this publisher, or requests of this author."""
    CYCLIC = "cyclic"
    """Its height is not one more than that of the events it links to."""
    REPLAYED = "replayed"
    """It is older than all retained events, or a second event with the same author and number."""
    FUTURE_DATED = "future-dated"
    NO_ROOM = "no room"
    """It is valid, but pinned topics fill the storage."""
    ROLLED_BACK = "rolled-back"
    """It is a version that does not follow the newest, or only an older version allows it."""


class RefusalError(SmartPubSubError):
    """A descriptor that this node refuses, with the reason."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(f"{reason.value}: {detail}")
        self.reason = reason
        self.detail = detail


def malformed(detail: str) -> NoReturn:
    """Refuse a malformed descriptor."""
    raise RefusalError(Reason.MALFORMED, detail)


def value_in(block: bytes) -> Any:
    """Decode a block."""
    return _read(decode, block)


def stored_value_in(block: bytes) -> Any:
    """Decode a value that this node has stored, with any number of items."""
    return _read(lambda stored: decode(stored, len(stored)), block)


def cid_in(value: object) -> Cid:
    """Return the content id in a link."""
    return _read(cid_of_link, value)


def time_in(value: object) -> int:
    """Return a time in microseconds."""
    return _read(time_from_text, value)


def _read(read: Callable[[Any], T], value: object) -> T:
    try:
        return read(value)
    except BlockError as error:
        malformed(str(error))


def fields_of(value: object, what: str, names: frozenset[str]) -> dict[str, Any]:
    """Return a map that has exactly these fields."""
    if not isinstance(value, dict) or value.keys() != names:
        malformed(f"{what} is a map of {', '.join(sorted(names))}")
    return value


def typed(fields: Mapping[str, Any], name: str, kind: type[T]) -> T:
    """Return a field of a type; a bool is not an int here."""
    value = fields[name]
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        malformed(f"{name} is of another type")
    return value


def natural(fields: Mapping[str, Any], name: str) -> int:
    """Return a field that is an integer from 0 on, small enough to be incremented."""
    value = typed(fields, name, int)
    if not 0 <= value < NATURAL_END:
        malformed(f"{name} is out of range")
    return value


def peer_in(value: object) -> Peer:
    """Return a peer id."""
    if not isinstance(value, bytes) or not 1 <= len(value) <= PEER_BYTES_MAX:
        malformed("not a peer id")
    return value


def peers_in(value: object) -> tuple[Peer, ...]:
    """Return a list of peer ids."""
    if not isinstance(value, list) or len(value) > PEERS_MAX:
        malformed(f"not a list of at most {PEERS_MAX} peers")
    return tuple(map(peer_in, value))


def check_version(metadata: Mapping[str, Any]) -> None:
    """Refuse a descriptor of another version."""
    version = typed(metadata, "protocolVersion", str)
    if version != PROTOCOL_VERSION:
        malformed(f"protocolVersion {version!r}; known is {PROTOCOL_VERSION}")
