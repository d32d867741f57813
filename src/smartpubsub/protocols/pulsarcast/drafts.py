"""Drafts as they travel to whoever is asked to publish them."""

from __future__ import annotations

from smartpubsub.protocols.blocks import (
    encode,
    link,
    time_text,
)
from smartpubsub.protocols.publication import SIGNATURE_BYTES, EventId
from smartpubsub.protocols.pulsarcast.events import EVENT_BYTES_MAX, Draft, parents_in
from smartpubsub.protocols.pulsarcast.fields import (
    check_version,
    cid_in,
    fields_of,
    malformed,
    natural,
    peer_in,
    time_in,
    typed,
    value_in,
)
from smartpubsub.protocols.pulsarcast.refusals import Reason, RefusalError

_FIELDS = frozenset({"topic", "author", "payload", "parents", "metadata", "signature"})
_METADATA = frozenset({"created", "protocolVersion", "start", "number"})


def draft_block(draft: Draft) -> bytes:
    """A draft and its author's signature."""
    fields = {
        **draft.content,
        "parents": None if draft.parents is None else [link(cid) for cid in draft.parents],
        "metadata": draft.metadata,
        "signature": draft.signature,
    }
    return encode(fields)


def read_draft(block: bytes) -> Draft:
    """The draft that a block holds; nobody has looked at its signature yet."""
    if len(block) > EVENT_BYTES_MAX:
        raise RefusalError(Reason.OVERSIZED, f"a request of {len(block)} bytes")
    fields = fields_of(value_in(block), "a request", _FIELDS)
    metadata = fields_of(fields["metadata"], "a request's metadata", _METADATA)
    check_version(metadata)
    signature = typed(fields, "signature", bytes)
    created_us = time_in(metadata["created"])
    if len(signature) != SIGNATURE_BYTES or time_text(created_us) != metadata["created"]:
        malformed("a request is not written as it is signed")
    return Draft(
        topic=cid_in(fields["topic"]),
        id=EventId(
            peer_in(fields["author"]), natural(metadata, "start"), natural(metadata, "number")
        ),
        created_us=created_us,
        payload=typed(fields, "payload", bytes),
        signature=signature,
        parents=None if fields["parents"] is None else parents_in(fields),
    )
