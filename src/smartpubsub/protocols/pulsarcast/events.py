"""Descriptors of events: what was said in a topic, by whom, and after what."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
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
from smartpubsub.protocols.publication import SIGNATURE_BYTES, EventId, Publication, Signing
from smartpubsub.protocols.pulsarcast.fields import (
    PROTOCOL_VERSION,
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
from smartpubsub.seam import Peer

EVENT_BYTES_MAX = 1 << 20
PAYLOAD_BYTES_MAX = EVENT_BYTES_MAX - (1 << 14)
"""What is left beside all other fields."""
PARENTS_MAX = 8
READ_MAX = 1 << 12
"""How many events that were read last are not read again."""

Place: TypeAlias = tuple[int, Cid]
"""Where an event stands in its topic's order: by height, and events of one height by name."""

_FIELDS = frozenset(
    {"topic", "author", "publisher", "parents", "payload", "metadata", "signatures"}
)
_METADATA = frozenset({"created", "protocolVersion", "start", "number", "height"})

_SIGNATURE_BYTES_WRITTEN = len(encode(bytes(SIGNATURE_BYTES)))
_LIST = encode([])[0]
"""How a list begins; what is added to it is how much is in the list, if that is little."""

_read: dict[bytes, TopicEvent] = {}


@dataclass(frozen=True, kw_only=True)
class Draft:
    """What an author says and signs, before somebody gives it a place in the topic."""

    topic: Cid
    id: EventId
    """The author, and which of its events this is: all with one id are one event."""
    created_us: int
    payload: bytes | Cid = field(repr=False)
    """In a meta topic, the version that it tells of."""
    is_announcement: bool = False
    signature: bytes = field(repr=False, default=b"")
    parents: tuple[Cid, ...] | None = None
    """What it is to link to, where that is for its author to say; whoever publishes it signs it."""

    def signed(self) -> bytes:
        """What the author signs."""
        return encode({**self.content, "metadata": self.metadata})

    @property
    def content(self) -> dict[str, Any]:
        """The fields that are the author's."""
        payload = link(self.payload) if self.is_announcement else self.payload
        return {"topic": link(self.topic), "author": self.id.publisher, "payload": payload}

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata that is the author's."""
        return {
            "created": time_text(self.created_us),
            "protocolVersion": PROTOCOL_VERSION,
            "start": self.id.incarnation,
            "number": self.id.number,
        }


@dataclass(frozen=True, kw_only=True, eq=False)
class TopicEvent:
    """An event that has its place, with its block."""

    draft: Draft
    publisher: Peer
    parents: tuple[Cid, ...]
    height: int
    """One more than the highest of those it links to has."""
    signature: bytes = field(repr=False)
    """The publisher's, of everything."""
    block: bytes = field(repr=False)
    cid: Cid

    def signed(self) -> bytes:
        """What the publisher signs: the block as it is without that signature.

        Signatures are what stands last in a block, so none of it has to be written again.
        """
        others = len(_signatures_before(self.draft, self.publisher))
        without = _with_signatures(self.block, others + 1, others)
        return without[:-_SIGNATURE_BYTES_WRITTEN]

    @property
    def topic(self) -> Cid:
        """The version of the topic that it was published in."""
        return self.draft.topic

    @cached_property
    def id(self) -> EventId:
        """Who says it, and which of its events it is."""
        return self.draft.id

    @cached_property
    def place(self) -> Place:
        """Where it stands in the topic's order, which is one that links never go against."""
        return self.height, self.cid

    @cached_property
    def publication(self) -> Publication:
        """The event as all protocols deliver theirs; its predicate names the topic."""
        predicate = Predicate.of({cid_text(self.topic): True})
        return Publication.of(self.id, predicate, self.draft.payload, self.signature)


def sealed_draft(draft: Draft, signing: Signing) -> Draft:
    """A draft with its author's signature."""
    return replace(draft, signature=signing.vouch(draft.signed))


def new_event(
    draft: Draft, publisher: Peer, parents: tuple[Cid, ...], height: int, signing: Signing
) -> TopicEvent:
    """A draft that is given its place by the peer that signs."""
    content = _content(draft, publisher, parents, height)
    before = _signatures_before(draft, publisher)
    signed = encode({**content, "signatures": before})
    signature = signing.vouch(lambda: signed)
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
    """Something that ends in a list of signatures, with another number of them before these."""
    head = len(written) - count * _SIGNATURE_BYTES_WRITTEN - 1
    return written[:head] + bytes([_LIST + said]) + written[head + 1 :]


def _signatures_before(draft: Draft, publisher: Peer) -> list[bytes]:
    """The author's own signature is there where somebody else publishes."""
    return [] if publisher == draft.id.publisher else [draft.signature]


def read_event(block: bytes) -> TopicEvent:
    """The event that a block describes; nobody has looked at its signatures yet."""
    event = _read.get(block)
    if event is None:
        event = _remembered(_event_in(block))
    return event


def _remembered(event: TopicEvent) -> TopicEvent:
    """Read an event once, though it may come several times."""
    if len(_read) >= READ_MAX:
        del _read[next(iter(_read))]
    _read[event.block] = event
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
        id=EventId(
            peer_in(fields["author"]), natural(metadata, "start"), natural(metadata, "number")
        ),
        created_us=time_in(metadata["created"]),
        payload=cid_in(fields["payload"]) if is_announcement else fields["payload"],
        is_announcement=is_announcement,
        signature=signatures[0] if len(signatures) > 1 else b"",
    )
    publisher = peer_in(fields["publisher"])
    if (publisher != draft.id.publisher) != (len(signatures) > 1):
        malformed("an event has its publisher's signature, and before it another author's")
    if time_text(draft.created_us) != metadata["created"]:
        malformed("created is not written as signed times are, with microseconds and Z")
    return TopicEvent(
        draft=draft,
        publisher=publisher,
        parents=parents_in(fields),
        height=natural(metadata, "height"),
        signature=signatures[-1],
        block=block,
        cid=cid_of(block),
    )


def _signatures(fields: dict[str, Any]) -> list[bytes]:
    signatures = typed(fields, "signatures", list)
    if not 1 <= len(signatures) <= 2 or not all(
        isinstance(one, bytes) and len(one) == SIGNATURE_BYTES for one in signatures
    ):
        malformed(f"signatures are one or two of {SIGNATURE_BYTES} bytes")
    return signatures


def parents_in(fields: dict[str, Any]) -> tuple[Cid, ...]:
    """The events that one links to, in its fields."""
    parents = tuple(map(cid_in, typed(fields, "parents", list)))
    if len(parents) > PARENTS_MAX:
        raise RefusalError(Reason.OVERSIZED, f"an event that links to {len(parents)} others")
    if len(set(parents)) != len(parents):
        raise RefusalError(Reason.CYCLIC, "an event that links twice to the same")
    return parents
