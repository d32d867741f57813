"""Events as blocks that contain everything needed to verify them.

A publisher signs an event as encoded by libp2p's pubsub. A block has the fields of that encoding,
from which it can be computed again.
"""

from __future__ import annotations

from typing import Any

from smartpubsub.predicates import Predicate, PredicateError
from smartpubsub.protocols.baselines.messages import RpcLimits
from smartpubsub.protocols.blocks import BlockError, decode, encode, time_from_text, time_text
from smartpubsub.protocols.evidence import EVIDENCE_BYTES_MAX
from smartpubsub.protocols.publication import SIGNATURE_BYTES, EventId, Publication

VERSION = "1.0.0"
"""The version of a block whose event has a signature of its own."""
SHARED_VERSION = "1.1.0"
"""The version of a block whose event shares its signature with others."""

_FIELDS = {"publisher": bytes, "predicate": str, "payload": bytes, "signature": bytes}
_METADATA = {"created": str, "protocolVersion": str, "start": int, "number": int}
_NUMBER_END = 1 << 32


def event_block(event: Publication) -> bytes:
    """Convert an event with a publication time to a block."""
    return encode(
        {
            "publisher": event.id.publisher,
            "predicate": str(event.predicate),
            "payload": event.payload,
            "metadata": {
                "created": time_text(event.created_us),
                "protocolVersion": _version_of(event.signature),
                "start": event.id.incarnation,
                "number": event.id.number,
            },
            "signature": event.signature,
        }
    )


def read_event_block(block: bytes) -> Publication:
    """Read the event of a block, without verifying its signature."""
    fields = _checked(decode(block), "an event", {**_FIELDS, "metadata": dict})
    metadata = _checked(fields["metadata"], "an event's metadata", _METADATA)
    id = EventId(fields["publisher"], metadata["start"], metadata["number"])
    try:
        predicate = Predicate.parse(fields["predicate"], attributes_max=len(fields["predicate"]))
    except PredicateError as error:
        raise BlockError(f"a predicate that cannot be read: {error}") from None
    created_us = time_from_text(metadata["created"])
    event = Publication.of(id, predicate, fields["payload"], fields["signature"], created_us)
    is_whole = 1 <= len(id.publisher) <= RpcLimits().peer_bytes_max and created_us > 0
    is_numbered = 0 <= id.incarnation < _NUMBER_END and 0 <= id.number < _NUMBER_END
    is_signed = SIGNATURE_BYTES <= len(event.signature) <= EVIDENCE_BYTES_MAX
    if not (is_whole and is_numbered and is_signed) or event_block(event) != block:
        raise BlockError("an event whose fields or encoding are not canonical")
    return event


def _version_of(signature: bytes) -> str:
    return VERSION if len(signature) == SIGNATURE_BYTES else SHARED_VERSION


def _checked(value: object, what: str, types: dict[str, type]) -> dict[str, Any]:
    """Check that a map has exactly these fields with these types; a bool is not a number."""
    if not isinstance(value, dict) or value.keys() != types.keys():
        raise BlockError(f"{what} is a map of {', '.join(sorted(types))}")
    for name, kind in types.items():
        if type(value[name]) is not kind:
            raise BlockError(f"{name} is of another type")
    return value
