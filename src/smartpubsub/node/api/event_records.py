"""A node's records of the events that it has published, and of their publication keys.

The node remembers the last events of this run in memory. It also stores some of them: an event with
a key, in the transaction that publishes it, and an event that was not acknowledged in time, before
the caller gets its id. The stored record has the event's content until the event is acknowledged,
so that the node can send the same event again after a restart.
"""

from __future__ import annotations

import hashlib
import struct
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from smartpubsub.kademlia.settings import MINUTE
from smartpubsub.node.api.listing import EventState
from smartpubsub.node.errors import KeyConflictError, LimitError, PublishError
from smartpubsub.node.storage.kept import Change
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.blocks import decode, encode
from smartpubsub.protocols.publication import EventId
from smartpubsub.protocols.pubsub import Confirmed, Held, Published, Refused
from smartpubsub.protocols.runtime.bounded import BoundedDict
from smartpubsub.seam import Peer

PREFIX = b"published/"
RECENT_COUNT_MAX = 10_000
"""Events of this run that the node remembers."""
RECENT_COUNT_MIN = 100
RECENT_US = 5 * MINUTE
"""How long it remembers more than the last `RECENT_COUNT_MIN` events, if they have ended."""
KEY_BYTES_MAX = 200

_NUMBERS = struct.Struct(">QQ")
"""The incarnation and the number of an event."""


class Destination(NamedTuple):
    """Where an event is published: for all subscribers, or in a topic or a group."""

    kind: str = ""
    name: str = ""
    """The topic's content id, or the group's predicate. Each name has keys of its own, and the
    versions of a topic share theirs."""
    parents: tuple[str, ...] | None = None
    """The events to link to, in a topic."""
    everywhere: bool = False
    """Whether subscribers outside of the group get it too."""


EVERYWHERE = Destination()


class Content(NamedTuple):
    """The content of an event, and where it goes."""

    predicate: Predicate
    payload: bytes
    destination: Destination = EVERYWHERE

    @property
    def digest(self) -> bytes:
        """The hash of the content."""
        text = str(self.predicate).encode()
        content = len(text).to_bytes(4, "big") + text + self.payload
        if self.destination.kind:
            content = encode(_listed(self.destination)) + content
        return hashlib.sha256(content).digest()


@dataclass(eq=False)
class EventRecord:
    """An event that the node has published."""

    id: EventId
    created_us: int
    content: Content | None = None
    """Only for an event that is stored and not acknowledged."""
    key: str | None = None
    destination: Destination = EVERYWHERE
    digest: bytes = b""
    """The hash of the content; empty for an event that an older version stored without a key."""
    wants_all: bool = False
    state: EventState = EventState.PENDING
    held: tuple[Held, ...] = ()
    reason: str = ""
    is_sent: bool = True
    """Whether this run has handed the event to the protocol."""

    @property
    def is_acknowledged(self) -> bool:
        """Whether the network has the event."""
        return self.state in (EventState.ACKNOWLEDGED, EventState.CONFIRMED)

    def is_known_as_wanted(self, *, wants_all: bool) -> bool:
        """Whether a caller that waits for this event can stop waiting."""
        return self.state is EventState.CONFIRMED if wants_all else self.is_acknowledged

    @property
    def change(self) -> Change:
        """The record as it is stored."""
        content = {
            "created": self.created_us,
            "key": self.key,
            "destination": _listed(self.destination),
            "digest": self.digest,
            "wants_all": self.wants_all,
            "state": self.state.value,
            "held": [list(held) for held in self.held],
            "reason": self.reason,
            "predicate": None if self.content is None else str(self.content.predicate),
            "payload": None if self.content is None else self.content.payload,
        }
        return _stored_at(self.id), encode(content)


class EventRecords:
    """The events that a node has published."""

    def __init__(self, key_count_max: int, key_age_us_max: int) -> None:
        self._stored_count_max = key_count_max
        self._stored_age_us_max = key_age_us_max
        self._recent: BoundedDict[str, EventRecord] = BoundedDict(RECENT_COUNT_MAX)
        self._stored: OrderedDict[str, EventRecord] = OrderedDict()
        """The stored records by id, the oldest first."""
        self._by_key: dict[tuple[str, str, str], EventRecord] = {}
        """The records with a key, by the kind and the name of the destination, and the key."""

    def load(self, publisher: Peer, stored: Sequence[tuple[bytes, bytes]]) -> None:
        """Read the records of earlier runs."""
        records = [_record(publisher, key, value) for key, value in stored]
        for record in sorted(records, key=lambda record: record.created_us):
            self._add_stored(record)

    def unsent(self) -> list[EventRecord]:
        """The events of earlier runs that are not acknowledged, the oldest first."""
        return [
            record
            for record in self._stored.values()
            if record.state is EventState.PENDING and record.content and not record.is_sent
        ]

    def add(
        self, id: EventId, created_us: int, content: Content, key: str | None, *, wants_all: bool
    ) -> list[Change]:
        """Remember an event; return the changes to store in the transaction that publishes it."""
        destination, digest = content.destination, content.digest
        if key is None:
            self._recent[str(id)] = EventRecord(
                id, created_us, destination=destination, digest=digest, wants_all=wants_all
            )
            self._forget_recent(created_us)
            return []
        record = EventRecord(id, created_us, content, key, destination, digest, wants_all)
        return self._store(record, created_us)

    def _forget_recent(self, now: int) -> None:
        while len(self._recent) > RECENT_COUNT_MIN:
            id, oldest = next(iter(self._recent.items()))
            if oldest.state is EventState.PENDING or oldest.created_us >= now - RECENT_US:
                return
            del self._recent[id]

    def store(self, id: EventId, content: Content, now: int) -> list[Change]:
        """Store an event whose id the caller gets although it is not acknowledged."""
        record = self._recent.get(str(id))
        if record is None or str(id) in self._stored or record.state is not EventState.PENDING:
            return []
        record.content = content
        return self._store(record, now)

    def _store(self, record: EventRecord, now: int) -> list[Change]:
        self._add_stored(record)
        return [record.change, *self._forget_old(now)]

    def _add_stored(self, record: EventRecord) -> None:
        self._stored[str(record.id)] = record
        if record.key is not None:
            self._by_key[*record.destination[:2], record.key] = record

    def _forget_old(self, now: int) -> list[Change]:
        changes: list[Change] = []
        while self._stored:
            id, record = next(iter(self._stored.items()))
            is_old = record.created_us < now - self._stored_age_us_max
            if len(self._stored) <= self._stored_count_max and not is_old:
                break
            del self._stored[id]
            place = (*record.destination[:2], record.key or "")
            if self._by_key.get(place) is record:  # A later event may have the same key.
                del self._by_key[place]
            changes.append((_stored_at(record.id), None))
        return changes

    def has_key(self, key: str, destination: Destination) -> bool:
        """Whether an event was published by a key at a destination."""
        return (*destination[:2], key) in self._by_key

    def with_key(self, key: str, content: Content, now: int) -> EventRecord | None:
        """Find the event that was published by a key; its content has to be the same."""
        record = self._by_key.get((*content.destination[:2], key))
        if record is None or record.created_us < now - self._stored_age_us_max:
            return None
        if record.digest != content.digest:
            raise KeyConflictError(f"the key {key!r}", str(record.id))
        return record

    def with_id(self, id: str, content: Content) -> EventRecord:
        """Find an event by its id, to publish it again; its content has to be the same."""
        record = self.get(id)
        if record is None:
            raise PublishError(
                f"this node has not published the event {id}, or does not remember it; to publish"
                " a new event, leave the id out",
                id,
                EventState.UNKNOWN.value,
            )
        if record.digest != content.digest:
            raise PublishError(
                f"the event {id} has another content; to publish a new event, leave the id out",
                id,
                record.state.value,
            )
        return record

    def get(self, id: str) -> EventRecord | None:
        """Find an event by its id."""
        return self._stored.get(id) or self._recent.get(id)

    def journal(self, item: Published | Confirmed | Refused, _now: int) -> list[Change]:
        """Update an event's record from a notice of the protocol; return the changes to store."""
        match item:
            case Published(id, held):
                return self._update(id, EventState.ACKNOWLEDGED, held=held)
            case Confirmed(id):
                return self._update(id, EventState.CONFIRMED)
            case Refused(id, reason):
                return self._update(id, EventState.REFUSED, reason=reason)

    def _update(
        self, id: EventId, state: EventState, *, held: Iterable[Held] = (), reason: str = ""
    ) -> list[Change]:
        record = self.get(str(id))
        if record is None:
            return []
        if not (record.state is EventState.CONFIRMED and state is EventState.ACKNOWLEDGED):
            record.state = state
        record.held, record.reason = tuple(held) or record.held, reason
        record.content = None
        return [record.change] if str(id) in self._stored else []


def checked_key(key: str) -> str:
    """Check a publication key."""
    try:
        length = len(key.encode())
    except UnicodeEncodeError:
        length = 0
    if not 1 <= length <= KEY_BYTES_MAX:
        raise LimitError(f"a key has 1 to {KEY_BYTES_MAX} bytes of UTF-8")
    return key


def _listed(destination: Destination) -> list[Any]:
    """Convert a destination to values that a block can contain."""
    parents = None if destination.parents is None else list(destination.parents)
    return [destination.kind, destination.name, parents, destination.everywhere]


def _stored_at(id: EventId) -> bytes:
    return PREFIX + _NUMBERS.pack(id.incarnation, id.number)


def _record(publisher: Peer, key: bytes, value: bytes) -> EventRecord:
    stored = decode(value)
    kind, name, parents, everywhere = stored["destination"]
    destination = Destination(kind, name, None if parents is None else tuple(parents), everywhere)
    content = None
    if stored["predicate"] is not None:
        text = stored["predicate"]
        predicate = Predicate.parse(text, attributes_max=len(text))
        content = Content(predicate, stored["payload"], destination)
    return EventRecord(
        EventId(publisher, *_NUMBERS.unpack(key[len(PREFIX) :])),
        stored["created"],
        content,
        stored["key"],
        destination,
        stored["digest"] or (b"" if content is None else content.digest),
        stored["wants_all"],
        EventState(stored["state"]),
        tuple(Held(*held) for held in stored["held"]),
        stored["reason"],
        is_sent=False,
    )
