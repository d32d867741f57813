"""Descriptors of events: payload, author, publisher, and links to earlier events.

An author signs a draft. A publisher, which may be another peer, assigns it a place in the topic.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, TypeAlias

from smartpubsub.predicates import Predicate
from smartpubsub.protocols.blocks import (
    Cid,
    cid_of,
    cid_text,
    encode,
    link,
    time_text,
)
from smartpubsub.protocols.lazy import Lazy
from smartpubsub.protocols.publication import SIGNATURE_BYTES, EventId, Publication, Signing
from smartpubsub.protocols.pulsarcast.fields import (
    PROTOCOL_VERSION,
    Reason,
    RefusalError,
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
from smartpubsub.protocols.runtime.bounded import SharedCache
from smartpubsub.seam import Peer

EVENT_BYTES_MAX = 1 << 20
PAYLOAD_BYTES_MAX = EVENT_BYTES_MAX - (1 << 14)
"""The size that the other fields leave."""
PARENTS_MAX = 8
READ_MAX = 1 << 12
"""How many parsed events the cache holds."""

Place: TypeAlias = tuple[int, Cid]
"""The place of an event in its topic's order: by height, then by content id."""

_FIELDS = frozenset(
    {"topic", "author", "publisher", "parents", "payload", "metadata", "signatures"}
)
_METADATA = frozenset({"created", "protocolVersion", "start", "number", "height"})
_DRAFT_FIELDS = frozenset({"topic", "author", "payload", "parents", "metadata", "signature"})
_DRAFT_METADATA = frozenset({"created", "protocolVersion", "start", "number"})

_SIGNATURE_BYTES_WRITTEN = len(encode(bytes(SIGNATURE_BYTES)))
_LIST = encode([])[0]
"""The first byte of an empty list; the length of a short list is added to it."""

_read: SharedCache[bytes, TopicEvent] = SharedCache(READ_MAX)


@dataclass(frozen=True, kw_only=True)
class Draft:
    """An event as its author signs it, before a publisher assigns it a place in the topic."""

    topic: Cid
    id: EventId
    """The author and its number for the event: events with one id are the same event."""
    created_us: int
    payload: bytes | Cid = field(repr=False)
    """In a meta topic, the version that it announces."""
    is_announcement: bool = False
    signature: bytes = field(repr=False, default=b"")
    parents: tuple[Cid, ...] | None = None
    """The links, if the topic lets authors choose them; the publisher's signature covers them."""

    def signed(self) -> bytes:
        """Return the bytes that the author signs."""
        return encode({**self.content, "metadata": self.metadata})

    @property
    def content(self) -> dict[str, Any]:
        """The fields of the author."""
        payload = link(self.payload) if self.is_announcement else self.payload
        return {"topic": link(self.topic), "author": self.id.publisher, "payload": payload}

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata of the author."""
        return {
            "created": time_text(self.created_us),
            "protocolVersion": PROTOCOL_VERSION,
            "start": self.id.incarnation,
            "number": self.id.number,
        }


@dataclass(frozen=True, kw_only=True, eq=False)
class TopicEvent:
    """An event with its place in a topic, and its block."""

    draft: Draft
    publisher: Peer
    parents: tuple[Cid, ...]
    height: int
    """One more than the height of its highest parent."""
    signature: bytes = field(repr=False)
    """The publisher's signature of all other fields."""
    block: bytes = field(repr=False)
    cid: Cid

    def signed(self) -> bytes:
        """Return the bytes that the publisher signs: the block without that signature.

        Signatures are at the end of a block, so the rest need not be encoded again.
        """
        others = len(_signatures_before(self.draft, self.publisher))
        without = _with_signatures(self.block, others + 1, others)
        return without[:-_SIGNATURE_BYTES_WRITTEN]

    @property
    def topic(self) -> Cid:
        """The version of the topic that it was published in."""
        return self.draft.topic

    @Lazy
    def id(self) -> EventId:
        """The author and its number for the event."""
        return self.draft.id

    @Lazy
    def place(self) -> Place:
        """The place in the topic's order, in which parents come first."""
        return self.height, self.cid

    @Lazy
    def publication(self) -> Publication:
        """The event as all protocols deliver events; its predicate names the topic."""
        return Publication.of(self.id, predicate_of(self.topic), self.draft.payload, self.signature)


@lru_cache(maxsize=1 << 10)
def predicate_of(topic: Cid) -> Predicate:
    """The predicate that names a topic."""
    return Predicate.of({cid_text(topic): True})


def sealed_draft(draft: Draft, signing: Signing) -> Draft:
    """Return a draft with its author's signature."""
    return replace(draft, signature=signing.sign_statement(draft.signed))


def new_event(
    draft: Draft, publisher: Peer, parents: tuple[Cid, ...], height: int, signing: Signing
) -> TopicEvent:
    """Assign a draft a place in its topic; the publisher is the peer that signs."""
    content = _content(draft, publisher, parents, height)
    before = _signatures_before(draft, publisher)
    signed = encode({**content, "signatures": before})
    signature = signing.sign_statement(lambda: signed)
    block = _with_signatures(signed, len(before), len(before) + 1) + encode(signature)
    return _remembered(
        TopicEvent(
            draft=draft,
            publisher=publisher,
            parents=parents,
            height=height,
            signature=signature,
            block=block,
            cid=cid_of(block),
        )
    )


def _content(
    draft: Draft, publisher: Peer, parents: tuple[Cid, ...], height: int
) -> dict[str, Any]:
    return {
        **draft.content,
        "publisher": publisher,
        "parents": [link(cid) for cid in parents],
        "metadata": {**draft.metadata, "height": height},
    }


def _with_signatures(written: bytes, count: int, said: int) -> bytes:
    """Return bytes that end in `count` signatures with another length in the list's header."""
    head = len(written) - count * _SIGNATURE_BYTES_WRITTEN - 1
    return written[:head] + bytes([_LIST + said]) + written[head + 1 :]


def _signatures_before(draft: Draft, publisher: Peer) -> list[bytes]:
    """Return the author's signature if another peer publishes the event."""
    return [] if publisher == draft.id.publisher else [draft.signature]


def read_event(block: bytes) -> TopicEvent:
    """Return the event that a block describes, without a check of its signatures."""
    event = _read.get(block)
    if event is None:
        event = _remembered(_event_in(block))
    return event


def _remembered(event: TopicEvent) -> TopicEvent:
    """Add an event to the cache, because most events arrive several times."""
    _read.put(event.block, event)
    return event


def _event_in(block: bytes) -> TopicEvent:
    if len(block) > EVENT_BYTES_MAX:
        raise RefusalError(Reason.OVERSIZED, f"an event of {len(block)} bytes")
    fields = fields_of(value_in(block), "an event", _FIELDS)
    metadata = fields_of(fields["metadata"], "an event's metadata", _METADATA)
    check_version(metadata)
    signatures = _signatures(fields)
    is_announcement = not isinstance(fields["payload"], bytes)
    draft = Draft(
        topic=cid_in(fields["topic"]),
        id=_id_in(fields, metadata),
        created_us=time_in(metadata["created"]),
        payload=cid_in(fields["payload"]) if is_announcement else fields["payload"],
        is_announcement=is_announcement,
        signature=signatures[0] if len(signatures) > 1 else b"",
    )
    publisher = peer_in(fields["publisher"])
    if (publisher != draft.id.publisher) != (len(signatures) > 1):
        malformed("an event has its publisher's signature, and before it another author's")
    if time_text(draft.created_us) != metadata["created"]:
        malformed("created is not in the form of signed times, with microseconds and Z")
    return TopicEvent(
        draft=draft,
        publisher=publisher,
        parents=parents_in(fields),
        height=natural(metadata, "height"),
        signature=signatures[-1],
        block=block,
        cid=cid_of(block),
    )


def _id_in(fields: dict[str, Any], metadata: dict[str, Any]) -> EventId:
    start, number = natural(metadata, "start"), natural(metadata, "number")
    return EventId(peer_in(fields["author"]), start, number)


def _signatures(fields: dict[str, Any]) -> list[bytes]:
    signatures = typed(fields, "signatures", list)
    if not 1 <= len(signatures) <= 2 or not all(
        isinstance(one, bytes) and len(one) == SIGNATURE_BYTES for one in signatures
    ):
        malformed(f"signatures are one or two of {SIGNATURE_BYTES} bytes")
    return signatures


def parents_in(fields: dict[str, Any]) -> tuple[Cid, ...]:
    """Return the links among an event's fields."""
    parents = tuple(map(cid_in, typed(fields, "parents", list)))
    if len(parents) > PARENTS_MAX:
        raise RefusalError(Reason.OVERSIZED, f"an event that links to {len(parents)} others")
    if len(set(parents)) != len(parents):
        raise RefusalError(Reason.CYCLIC, "an event that links twice to the same")
    return parents


def draft_block(draft: Draft) -> bytes:
    """Encode a draft with its author's signature, to send it to a publisher."""
    fields = {
        **draft.content,
        "parents": None if draft.parents is None else [link(cid) for cid in draft.parents],
        "metadata": draft.metadata,
        "signature": draft.signature,
    }
    return encode(fields)


def read_draft(block: bytes) -> Draft:
    """Return the draft that a block describes, without a check of its signature."""
    if len(block) > EVENT_BYTES_MAX:
        raise RefusalError(Reason.OVERSIZED, f"a request of {len(block)} bytes")
    fields = fields_of(value_in(block), "a request", _DRAFT_FIELDS)
    metadata = fields_of(fields["metadata"], "a request's metadata", _DRAFT_METADATA)
    check_version(metadata)
    signature = typed(fields, "signature", bytes)
    created_us = time_in(metadata["created"])
    if len(signature) != SIGNATURE_BYTES or time_text(created_us) != metadata["created"]:
        malformed("a request does not have the form that is signed")
    return Draft(
        topic=cid_in(fields["topic"]),
        id=_id_in(fields, metadata),
        created_us=created_us,
        payload=typed(fields, "payload", bytes),
        signature=signature,
        parents=None if fields["parents"] is None else parents_in(fields),
    )
