"""Events as an application gets them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from smartpubsub.node.api.payloads import JSON, PayloadError, Serializer, read_payload
from smartpubsub.node.errors import NodeError
from smartpubsub.node.identity import peer_text
from smartpubsub.node.signing import is_signed_event
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.blocks import cid_of, cid_text
from smartpubsub.protocols.event_blocks import event_block, read_event_block
from smartpubsub.protocols.publication import Publication
from smartpubsub.protocols.pubsub import Delivery

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Event:
    """An event, as a subscription delivers it."""

    id: str
    publisher: str
    predicate: Predicate
    payload: bytes
    hops: int
    created: datetime | None = field(default=None, kw_only=True)
    """When it was published, by its publisher's clock; None if the event does not say."""
    dropped_before: int = field(default=0, kw_only=True, compare=False)
    """The number of events that the subscription dropped immediately before this one."""
    signed: Publication | None = field(default=None, kw_only=True, repr=False, compare=False)
    """The event as its publisher has signed it."""
    serializer: Serializer = field(default=JSON, kw_only=True, repr=False, compare=False)
    """The serialiser with which `value` reads the payload."""

    def text(self) -> str:
        """Read the payload as UTF-8."""
        try:
            return self.payload.decode()
        except UnicodeDecodeError as error:
            raise PayloadError(f"the payload of the event {self.id} is not UTF-8") from error

    def json(self) -> Any:
        """Read the payload as JSON."""
        return read_payload(JSON, self.payload, self.id)

    def value(self) -> Any:
        """Read the payload with the serialiser of the node or client, which is JSON by default."""
        return read_payload(self.serializer, self.payload, self.id)

    @property
    def delivery(self) -> Delivery:
        """The event, as the protocol has delivered it."""
        assert self.signed is not None
        return Delivery(self.signed, (), self.hops)

    @classmethod
    def from_block(cls, block: bytes) -> Event:
        """Read a block, and verify the publisher's signature."""
        event = read_event_block(block)
        if not is_signed_event(event):
            raise NodeError("the block's event is not signed by its publisher")
        return event_of(event, 0)

    def to_block(self) -> bytes:
        """Write the event as a dag-cbor block, which `Event.from_block` verifies."""
        if self.signed is None or self.created is None:
            raise NodeError("an event without a time of publication cannot be written as a block")
        return event_block(self.signed)

    @property
    def cid(self) -> str | None:
        """The content id of that block; None for an event without a time."""
        return None if self.created is None else cid_text(cid_of(self.to_block()))


def event_of(event: Publication, hops: int, serializer: Serializer = JSON) -> Event:
    """Convert an event of a protocol."""
    return Event(
        str(event.id),
        peer_text(event.id.publisher),
        event.predicate,
        event.payload,
        hops,
        created=time_of(event.created_us) if event.created_us else None,
        signed=event,
        serializer=serializer,
    )


def time_of(at_us: int) -> datetime:
    """Convert microseconds since 1970."""
    return _EPOCH + timedelta(microseconds=at_us)


@dataclass(frozen=True)
class Entry(Event):
    """An event of a topic. Its id is its content id; `publisher` is the last node to sign it."""

    author: str
    created: datetime = field(kw_only=True)
    parents: tuple[str, ...]
    height: int
    block: bytes
    """The whole event with its signatures, which any node can verify."""

    @property
    def cid(self) -> str:
        """Its content id, which is its id."""
        return self.id

    def to_block(self) -> bytes:
        """Its block."""
        return self.block
