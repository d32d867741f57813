"""Reading the fields of a descriptor, with a refusal for each that is not as it should be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeVar

from smartpubsub.protocols.blocks import BlockError, Cid, cid_of_link, decode, time_from_text
from smartpubsub.protocols.pulsarcast.refusals import Reason, RefusalError
from smartpubsub.seam import Peer

PROTOCOL_VERSION = "2.0.0"
"""Of the descriptors; the first implementation's had no signatures."""
PEER_BYTES_MAX = 128
PEERS_MAX = 1_000
"""How many peers a rule of a topic may name."""

T = TypeVar("T")


def malformed(detail: str) -> NoReturn:
    """Refuse a descriptor that is none."""
    raise RefusalError(Reason.MALFORMED, detail)


def value_in(block: bytes) -> Any:
    """The value of a block."""
    return _read(decode, block)


def cid_in(value: object) -> Cid:
    """What a link points to."""
    return _read(cid_of_link, value)


def time_in(value: object) -> int:
    """The microseconds that a time means."""
    return _read(time_from_text, value)


def _read(read: Callable[[Any], T], value: object) -> T:
    try:
        return read(value)
    except BlockError as error:
        malformed(str(error))


def fields_of(value: object, what: str, names: frozenset[str]) -> dict[str, Any]:
    """A map that has these fields and no others."""
    if not isinstance(value, dict) or value.keys() != names:
        malformed(f"{what} is a map of {', '.join(sorted(names))}")
    return value


def typed(fields: Mapping[str, Any], name: str, kind: type[T]) -> T:
    """A field of a type; True is no number."""
    value = fields[name]
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        malformed(f"{name} is of another type")
    return value


def natural(fields: Mapping[str, Any], name: str) -> int:
    """A field that is a whole number from 0 on."""
    value = typed(fields, name, int)
    if not 0 <= value < 1 << 63:
        malformed(f"{name} is out of range")
    return value


def peer_in(value: object) -> Peer:
    """A peer id."""
    if not isinstance(value, bytes) or not 1 <= len(value) <= PEER_BYTES_MAX:
        malformed("something that is no peer id")
    return value


def peers_in(value: object) -> tuple[Peer, ...]:
    """A list of peer ids."""
    if not isinstance(value, list) or len(value) > PEERS_MAX:
        malformed(f"something that is no list of at most {PEERS_MAX} peers")
    return tuple(map(peer_in, value))


def check_version(metadata: Mapping[str, Any]) -> None:
    """Refuse what was written for another form of descriptors."""
    version = typed(metadata, "protocolVersion", str)
    if version != PROTOCOL_VERSION:
        malformed(f"protocolVersion {version!r}; known is {PROTOCOL_VERSION}")
