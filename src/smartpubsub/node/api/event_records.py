"""What a node knows of the events that it has published, and the keys that they were published by.

The node remembers the last events of this run in memory. Events with a key are also on disk: the
record is in the same transaction as the publication, and is updated in the transaction in which the
protocol learns of the acknowledgement.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from smartpubsub.node.api.receipts import held_document, read_held
from smartpubsub.node.errors import KeyConflictError, LimitError
from smartpubsub.node.storage.kept import Change
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.publication import EventId
from smartpubsub.protocols.pubsub import Confirmed, Held, Published, Refused
from smartpubsub.protocols.runtime.bounded import BoundedDict
from smartpubsub.seam import Peer

PREFIX = b"published/"
RECENT_COUNT_MAX = 10_000
"""Events of this run that the node remembers."""
KEY_BYTES_MAX = 200


class EventState(Enum):
    """The state of an event, as far as one node knows."""

    PENDING = "pending"
    """This node has published it, and no rendezvous has acknowledged it yet."""
    ACKNOWLEDGED = "acknowledged"
    """The network has it."""
    CONFIRMED = "confirmed"
    """All subscribers at the time of publication have it."""
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class EventInfo:
    """What a node knows of an event."""

    id: str
    state: EventState
    held: tuple[Held, ...] = ()
    """The replicas that have acknowledged it, with their signatures."""
    reason: str = ""
    """Why it was refused."""
    key: str | None = None
    waiting_in: tuple[int, ...] = ()
    """The subscriptions of this node for whose readers it waits on disk."""

    def document(self) -> dict[str, Any]:
        """Convert to JSON."""
        return {
            "id": self.id,
            "state": self.state.value,
            "held": [held_document(held) for held in self.held],
            "reason": self.reason,
            "key": self.key,
            "waiting_in": list(self.waiting_in),
        }


@dataclass(eq=False)
class EventRecord:
    """An event that the node has published."""

    id: EventId
    created_us: int
    state: EventState = EventState.PENDING
    held: tuple[Held, ...] = ()
    reason: str = ""
    wants_all: bool = False
    key: str | None = None
    digest: str = ""
    """Of the content, for events with a key."""
    is_sent: bool = True
    """Whether the protocol was given the event in this run."""

    @property
    def is_acknowledged(self) -> bool:
        """Whether the network has the event."""
        return self.state in (EventState.ACKNOWLEDGED, EventState.CONFIRMED)

    def is_known_as_wanted(self, *, wants_all: bool) -> bool:
        """Whether a publisher that waits for this has nothing left to wait for."""
        return self.state is EventState.CONFIRMED if wants_all else self.is_acknowledged

    @property
    def change(self) -> Change:
        """What is stored of an event with a key."""
        assert self.key is not None
        content = {
            "incarnation": self.id.incarnation,
            "number": self.id.number,
            "created_us": self.created_us,
            "state": self.state.value,
            "held": [held_document(held) for held in self.held],
            "reason": self.reason,
            "digest": self.digest,
        }
        return _stored_at(self.key), json.dumps(content).encode()


class EventRecords:
    """The events that a node has published."""

    def __init__(self, key_count_max: int, key_age_us_max: int) -> None:
        self._key_count_max = key_count_max
        self._key_age_us_max = key_age_us_max
        self._recent: BoundedDict[str, EventRecord] = BoundedDict(RECENT_COUNT_MAX)
        self._by_key: dict[str, EventRecord] = {}
        """Oldest first."""
        self._keyed: dict[str, EventRecord] = {}
        """The same by the event's id."""

    def load(self, publisher: Peer, stored: Sequence[tuple[bytes, bytes]]) -> None:
        """Read the records of earlier runs."""
        records = [_record(publisher, key, value) for key, value in stored]
        for record in sorted(records, key=lambda record: record.created_us):
            self._add_key(record)

    def add(
        self, id: EventId, created_us: int, *, wants_all: bool, key: str | None, digest: str
    ) -> list[Change]:
        """Remember an event; the changes to store in the transaction that publishes it."""
        record = EventRecord(id, created_us, wants_all=wants_all, key=key, digest=digest)
        if key is None:
            self._recent[str(id)] = record
            return []
        self._add_key(record)
        return [record.change, *self._forget_old(created_us)]

    def _add_key(self, record: EventRecord) -> None:
        assert record.key is not None
        self._by_key[record.key] = self._keyed[str(record.id)] = record

    def _forget_old(self, now: int) -> list[Change]:
        changes: list[Change] = []
        for record in list(self._by_key.values()):
            is_old = record.created_us < now - self._key_age_us_max
            if len(self._by_key) <= self._key_count_max and not is_old:
                break
            assert record.key is not None
            del self._by_key[record.key], self._keyed[str(record.id)]
            changes.append((_stored_at(record.key), None))
        return changes

    def with_key(self, key: str, digest: str, now: int) -> EventRecord | None:
        """Find the event that was published by a key; its content has to be the same."""
        record = self._by_key.get(key)
        if record is None or record.created_us < now - self._key_age_us_max:
            return None
        if record.digest != digest:
            raise KeyConflictError(
                f"the key {key!r} belongs to the event {record.id}, which has another content;"
                " publish this event by another key"
            )
        return record

    def get(self, id: str) -> EventRecord | None:
        """Find an event by its id."""
        return self._keyed.get(id) or self._recent.get(id)

    def journal(self, item: object, _now: int) -> list[Change]:
        """Update the record of an event that the protocol tells of; the changes to store."""
        match item:
            case Published(id, held):
                return self._update(id, EventState.ACKNOWLEDGED, held=held)
            case Confirmed(id):
                return self._update(id, EventState.CONFIRMED)
            case Refused(id, reason):
                return self._update(id, EventState.REFUSED, reason=reason)
        return []

    def _update(
        self, id: EventId, state: EventState, *, held: Iterable[Held] = (), reason: str = ""
    ) -> list[Change]:
        record = self.get(str(id))
        if record is None:
            return []
        if not (record.state is EventState.CONFIRMED and state is EventState.ACKNOWLEDGED):
            record.state = state
        record.held, record.reason = tuple(held) or record.held, reason
        return [] if record.key is None else [record.change]


def checked_key(key: str) -> str:
    """Check a publication key."""
    try:
        length = len(key.encode())
    except UnicodeEncodeError:
        length = 0
    if not 1 <= length <= KEY_BYTES_MAX:
        raise LimitError(f"a key has 1 to {KEY_BYTES_MAX} bytes of UTF-8")
    return key


def digest_of(predicate: Predicate, payload: bytes) -> str:
    """Hash the content of an event."""
    text = str(predicate).encode()
    return hashlib.sha256(len(text).to_bytes(4, "big") + text + payload).hexdigest()


def _stored_at(key: str) -> bytes:
    return PREFIX + key.encode()


def _record(publisher: Peer, key: bytes, value: bytes) -> EventRecord:
    content = json.loads(value)
    return EventRecord(
        EventId(publisher, content["incarnation"], content["number"]),
        content["created_us"],
        EventState(content["state"]),
        tuple(map(read_held, content["held"])),
        content["reason"],
        key=key[len(PREFIX) :].decode(),
        digest=content["digest"],
        is_sent=False,
    )
