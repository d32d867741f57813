"""What a node stores so that it still has, after a crash, all that it has acknowledged.

Replicas exist on other nodes, but all nodes may crash at once, or there may be no others. A node
stores the events in its custody, those that it keeps as a replica, the filters of its children, its
convictions, and since when its subscriptions are in force.

A completed event that stays as history is not stored again but marked as done. If a crash loses the
mark, the node sends the event again, and other nodes recognise it; so the node stores the marks of
a second together. After a restart, newer state of other nodes replaces the stored state.
"""

from __future__ import annotations

import struct
from collections.abc import Container, Iterable, Sequence
from functools import lru_cache
from typing import TypeVar

from smartpubsub.kademlia.ledger import USER_SHARE, Ledger
from smartpubsub.kademlia.protobuf import WireError
from smartpubsub.kademlia.settings import SECOND
from smartpubsub.protocols.baselines.messages import RpcLimits
from smartpubsub.protocols.publication import Publication
from smartpubsub.protocols.runtime.messages import MessageLimits
from smartpubsub.protocols.scoutsubs.attestation import ScoutOutbox
from smartpubsub.protocols.scoutsubs.duplicates import EventKey
from smartpubsub.protocols.scoutsubs.messages import (
    NO_PEER,
    Bundle,
    ChildCopy,
    Convict,
    CopyTree,
    Part,
    Record,
    decode,
    encode,
    encode_lone,
)
from smartpubsub.protocols.scoutsubs.settings import ScoutSettings
from smartpubsub.protocols.scoutsubs.shard_names import EPOCH_MAX, NO_EPOCH
from smartpubsub.protocols.scoutsubs.timeouts import MS
from smartpubsub.seam import Load, Peer

STORED = b"scout/"
_RECORD = b"record/"
_DONE = b"done/"
_CHILD = b"child/"
_EPOCH = b"stage/"
_CONVICT = b"convict/"
_SINCE = b"since/"
_CHILD_BYTES_MAX = 4 << 20
"""A node does not store a child with longer filters, and relies on replicas."""
_USER_BYTES_MIN = 4 << 20
"""How much a publisher or a peer may have even if the storage is small."""
# A node reads everything that it once accepted, even if its limits are lower now.
_LIMITS = MessageLimits(message_bytes_max=8 << 20, events=RpcLimits(attributes_max=1_000))
MARKS_TIMER = "marks"
_MARKS_US = SECOND
"""The node stores the marks of this time together."""
_NUMBERS = struct.Struct(">II")
_NUMBER = struct.Struct(">Q")
_INT64 = struct.Struct(">q")
_LENGTH = struct.Struct(">H")

StoredPart = TypeVar("StoredPart", bound=Part)


class Persistence:
    """The stored values, and the loaded ones that have not been used yet."""

    def __init__(
        self, outbox: ScoutOutbox, settings: ScoutSettings, own: Peer, ledger: Ledger
    ) -> None:
        self._outbox = outbox
        self._settings = settings
        self._own = own
        self._uncharged = own, NO_PEER
        """In place of another rendezvous: the event counts for its publisher alone."""
        bytes_max = settings.stored_bytes_max
        user_bytes_max = max(bytes_max // USER_SHARE, min(bytes_max, _USER_BYTES_MIN))
        self._by_publisher = ledger.open("records of publishers", bytes_max, user_bytes_max)
        self._by_owner = ledger.open("records for rendezvous", bytes_max, user_bytes_max)
        self._by_child = ledger.open("filters of children", bytes_max, user_bytes_max)
        self._owners: dict[bytes, Peer] = {}
        """The nodes that have custody of stored events which are not completed."""
        self._sizes: dict[bytes, int] = {}
        self.bytes_held = 0
        self._marked_in: dict[bytes, bytes] = {}
        """The keys of completed events, and the keys under which their marks are stored."""
        self._marks: dict[bytes, dict[bytes, None]] = {}
        """By key: the keys of the events that are marked under it."""
        self._set_last_marks(0)
        self._records: list[tuple[Peer, Record]] = []
        """Loaded after a start: events, and the nodes that had custody of them."""
        self._children: dict[str, dict[Peer, ChildCopy]] = {}
        """Loaded after a start: children by attribute."""
        self._epochs: dict[str, int] = {}
        """The shard epochs of attributes that are or were split."""
        self._convictions: list[Convict] = []
        """Loaded after a start."""
        self._since_us: dict[int, int] = {}
        """Loaded after a start: by subscription, since when it was in force."""
        self._loaded_us = 0
        self._clock_set_us = 0
        """By how much the clock was set since the last start."""

    @property
    def is_full(self) -> bool:
        """Whether no more data of other nodes may be stored."""
        return self.bytes_held >= self._settings.stored_bytes_max

    def has_room_for(self, event: Publication, owner: Peer) -> bool:
        """Whether its publisher and the node that has custody of it may store an event here.

        An event in this node's own custody or without a rendezvous counts for the publisher alone.
        """
        size = event.wire_bytes
        if self._by_publisher.has_room_for(event.id.publisher, size) and (
            owner in self._uncharged or self._by_owner.has_room_for(owner, size)
        ):
            return self.bytes_held < self._settings.stored_bytes_max
        self._by_publisher.refuse()
        return False

    # --- events ---

    def keep_record(self, record: Record, owner: Peer) -> None:
        """Store an event, the node that has custody of it, and when it was published."""
        event, attribute, hops, wants_all, age_ms = record
        began_us = self._outbox.now - age_ms * MS
        aged = Record(event, attribute, hops, wants_all, 0) if age_ms else record
        key = _record_key((event.id, attribute))
        value = _length_prefixed(owner) + _INT64.pack(began_us) + encode_lone(aged)
        publisher = event.id.publisher
        if key in self._owners:
            self._discharge(key, publisher)
        self._put(key, value)
        self._charge(key, publisher, owner)
        if key in self._marked_in:
            self._unmark(key)

    def keep_done(self, event: Publication, attribute: str) -> None:
        """Store a completed event that stays as history."""
        age_ms = max(0, self._outbox.now - event.created_us) // MS
        self.keep_record(Record(event, attribute, 0, False, age_ms), self._own)
        self.mark_done((event.id, attribute))
        self.store_marks()  # Without its mark, an old event would be sent once more.

    def drop_record(self, key: EventKey) -> None:
        """Remove a completed event that does not stay as history."""
        stored_key = _record_key(key)
        self._discharge(stored_key, key[0].publisher)
        self._drop(stored_key, may_be_late=True)
        if stored_key in self._marked_in:
            self._forget_mark(stored_key)

    def mark_done(self, key: EventKey) -> None:
        """Mark a completed event that stays as history."""
        stored_key = _record_key(key)
        if stored_key in self._sizes and stored_key not in self._marked_in:
            self._discharge(stored_key, key[0].publisher)  # From now on, the history counts it.
            if self._next_marks not in self._marks:
                self._outbox.set_timer((MARKS_TIMER,), _MARKS_US)
            self._mark(stored_key, self._next_marks)

    def is_done(self, key: EventKey) -> bool:
        """Whether an event is stored as history and marked as completed."""
        return _record_key(key) in self._marked_in

    def store_marks(self) -> None:
        """Store the marks of the events that have been completed recently."""
        marks = self._next_marks
        if self._marks.get(marks):
            self._set_last_marks(self._last_marks + 1)
            self._put_marks(marks)

    def _set_last_marks(self, number: int) -> None:
        self._last_marks, self._next_marks = number, _marks_key(number + 1)

    def _mark(self, key: bytes, marks: bytes) -> None:
        self._marked_in[key] = marks
        marked = self._marks.get(marks)
        if marked is None:
            self._marks[marks] = {key: None}
        else:
            marked[key] = None

    def _put_marks(self, marks: bytes) -> None:
        names = [key[len(_RECORD) :] for key in self._marks[marks]]
        self._put(marks, b"".join([_LENGTH.pack(len(name)) + name for name in names]))

    def _unmark(self, key: bytes) -> None:
        """Remove the mark of an event that is in a node's custody again."""
        marks = self._forget_mark(key)
        if marks in self._sizes:
            self._put_marks(marks)

    def _forget_mark(self, key: bytes) -> bytes:
        """Forget the mark of an event; return the key that it is stored under.

        It is removed from storage together with the last mark under that key.
        """
        marks = self._marked_in.pop(key)
        del self._marks[marks][key]
        if not self._marks[marks]:
            del self._marks[marks]
            self._drop(marks)
        return marks

    def drop_done(self, key: EventKey) -> None:
        """Remove an event that leaves the history, unless it is not completed."""
        stored_key = _record_key(key)
        if stored_key in self._marked_in:  # It was discharged when it was completed.
            self._drop(stored_key, may_be_late=True)
            self._forget_mark(stored_key)

    # --- filters and epochs ---

    def keep_child(self, attribute: str, peer: Peer, copies: Sequence[ChildCopy]) -> None:
        """Store a child's filters; without a copy, remove them."""
        content = b""
        if copies:
            part = CopyTree(attribute, False, 0, True, tuple(copies), ())
            content = encode(Bundle((part,)))
            if len(content) > _CHILD_BYTES_MAX or self.is_full or not self._may_have(peer, content):
                self._outbox.reject("stored filters")
                content = b""
        if content:
            self._by_child.change(peer, self._put(_child_key(attribute, peer), content))
        else:
            self.drop_child(attribute, peer)

    def drop_child(self, attribute: str, peer: Peer) -> None:
        """Remove a child's filters."""
        self._by_child.change(peer, self._drop(_child_key(attribute, peer)))

    def keep_epoch(self, attribute: str, epoch: int) -> None:
        """Store the shard epoch, as events arrive by the shards after a restart."""
        self._epochs[attribute] = epoch
        self._put(_EPOCH + attribute.encode(), _INT64.pack(epoch))

    def epoch_of(self, attribute: str) -> int:
        """The stored shard epoch of an attribute."""
        return self._epochs.get(attribute, NO_EPOCH)

    def drop_epoch(self, attribute: str) -> None:
        """Remove the epoch of a tree that the node has left."""
        self._epochs.pop(attribute, None)
        self._drop(_EPOCH + attribute.encode())

    def keep_conviction(self, part: Convict) -> None:
        """Store a conviction."""
        if not self.is_full:
            self._put(_CONVICT + part.answer.keeper, encode(Bundle((part,))))

    def drop_conviction(self, part: Convict) -> None:
        """Remove a conviction."""
        self._drop(_CONVICT + part.answer.keeper)

    def take_convictions(self) -> list[Convict]:
        """Take the loaded convictions."""
        convictions, self._convictions = self._convictions, []
        return convictions

    def keep_since(self, number: int, since_us: int) -> None:
        """Store since when a subscription is in force."""
        self._put(_SINCE + _NUMBER.pack(number), _INT64.pack(since_us))

    def drop_since(self, number: int) -> None:
        """Remove the time of a subscription that has ended."""
        self._drop(_SINCE + _NUMBER.pack(number))

    def take_since(self, number: int) -> int | None:
        """Take the loaded time since when a subscription was in force; None for a new one."""
        return self._since_us.pop(number, None)

    def _may_have(self, child: Peer, content: bytes) -> bool:
        may = self._by_child.has_room_for(child, len(content))
        if not may:
            self._by_child.refuse()
        return may

    def _charge(self, key: bytes, publisher: Peer, owner: Peer) -> None:
        """Charge an event that is stored and not completed."""
        size, self._owners[key] = self._sizes[key], owner
        self._by_publisher.change(publisher, size)
        if owner not in self._uncharged:
            self._by_owner.change(owner, size)

    def _discharge(self, key: bytes, publisher: Peer) -> None:
        size, owner = self._sizes.get(key, 0), self._owners.pop(key, None)
        if owner is not None:
            self._by_publisher.change(publisher, -size)
            if owner not in self._uncharged:
                self._by_owner.change(owner, -size)

    def _put(self, key: bytes, value: bytes) -> int:
        """Store a value; return how many more bytes are stored."""
        size = len(STORED) + len(key) + len(value)
        more = size - self._sizes.get(key, 0)
        self.bytes_held += more
        self._sizes[key] = size
        self._outbox.store(key, value)
        return more

    def _drop(self, key: bytes, *, may_be_late: bool = False) -> int:
        """Remove a value, if there is one; return how many more bytes are stored."""
        size = self._sizes.pop(key, None)
        if size is None:
            return 0
        self.bytes_held -= size
        self._outbox.store(key, None, may_be_late=may_be_late)
        return -size

    # --- after a start ---

    def start(self, clock_set_us: int = 0) -> None:
        """Load the stored values; stored times are too low by the given time."""
        self._clock_set_us = clock_set_us
        self._outbox.emit(Load(STORED))

    def on_loaded(self, values: Iterable[tuple[bytes, bytes]]) -> list[tuple[Publication, str]]:
        """Read the stored values; return the completed events that stay as history."""
        self._loaded_us = self._outbox.now
        past: list[tuple[Publication, str]] = []
        for stored_key, value in values:
            key = stored_key.removeprefix(STORED)
            self._sizes[key] = len(stored_key) + len(value)
            self.bytes_held += self._sizes[key]
            try:
                self._read(key, value)
            except (WireError, IndexError, ValueError, struct.error):
                self._outbox.reject("stored")
                self._drop(key)
        records, self._records = self._records, []
        for owner, record in records:
            key = _record_key((record.event.id, record.attribute))
            if key in self._marked_in:
                past.append((record.event, record.attribute))
            else:
                self._records.append((owner, record))
                if self._clock_set_us:  # The next start does not know by how much it was set.
                    self.keep_record(record, owner)
                else:
                    self._charge(key, record.event.id.publisher, owner)
        for key in [key for key in self._marked_in if key not in self._sizes]:
            self._forget_mark(key)
        return past

    def _read(self, key: bytes, value: bytes) -> None:
        if key.startswith(_RECORD):
            owner, rest = value[1 : 1 + value[0]], value[1 + value[0] :]
            (began_us,) = _INT64.unpack(rest[: _INT64.size])
            record = _decoded(Record, rest[_INT64.size :])
            age_ms = max(0, self._outbox.now - began_us - self._clock_set_us) // MS
            self._records.append((owner, record._replace(age_ms=age_ms)))
        elif key.startswith(_DONE):
            self._read_marks(key, value)
        elif key.startswith(_EPOCH):
            (epoch,) = _INT64.unpack(value)
            if not NO_EPOCH < epoch <= EPOCH_MAX:
                raise WireError(f"the stored shard epoch {epoch} is out of range")
            self._epochs[key.removeprefix(_EPOCH).decode()] = epoch
        elif key.startswith(_CONVICT):
            self._convictions.append(_decoded(Convict, value))
        elif key.startswith(_SINCE):
            (number,) = _NUMBER.unpack(key.removeprefix(_SINCE))
            (since_us,) = _INT64.unpack(value)
            self._since_us[number] = since_us + self._clock_set_us
            if self._clock_set_us:
                self.keep_since(number, self._since_us[number])
        else:
            part = _decoded(CopyTree, value)
            children = self._children.setdefault(part.attribute, {})
            children.update({copy.contact.peer: copy for copy in part.children})
            self._by_child.change(_child_in(key), self._sizes[key])

    def _read_marks(self, key: bytes, value: bytes) -> None:
        if not value:  # Earlier versions have stored each mark under a key of its own.
            self._mark(_RECORD + key.removeprefix(_DONE), key)
            return
        (number,) = _INT64.unpack(key.removeprefix(_DONE))
        self._set_last_marks(max(self._last_marks, number))
        place = 0
        while place < len(value):
            (length,) = _LENGTH.unpack_from(value, place)
            place += _LENGTH.size + length
            self._mark(_RECORD + value[place - length : place], key)

    @property
    def attributes_with_children(self) -> list[str]:
        """The attributes whose loaded children have not been used."""
        return list(self._children)

    def has_children(self, attribute: str) -> bool:
        """Whether the loaded children of an attribute have not been used."""
        return attribute in self._children

    def take_children(self, attribute: str) -> tuple[ChildCopy, ...]:
        """Take the loaded children of an attribute."""
        return tuple(self._children.pop(attribute, {}).values())

    def take_records(self) -> list[tuple[Peer, Record]]:
        """Take the loaded events that are not completed."""
        records, self._records = self._records, []
        return records

    def tick(self, attributes: Container[str]) -> None:
        """Remove loaded values that have not been used for long."""
        if self._outbox.now - self._loaded_us <= 2 * self._settings.renew_us:
            return
        for attribute in list(self._children):
            for copy in self.take_children(attribute):
                self.drop_child(attribute, copy.contact.peer)
        for attribute in [name for name in self._epochs if name not in attributes]:
            self.drop_epoch(attribute)
        for number in list(self._since_us):
            del self._since_us[number]
            self.drop_since(number)

    def check(self) -> None:
        """Assert the invariants: the total agrees with the sizes."""
        assert self.bytes_held == sum(self._sizes.values())
        for account in (self._by_publisher, self._by_owner, self._by_child):
            account.check()
        assert self._owners.keys() <= self._sizes.keys()
        assert sum(map(len, self._marks.values())) == len(self._marked_in)
        assert all(key in self._sizes for key in self._marked_in)


@lru_cache(maxsize=1 << 10)
def _length_prefixed(peer: Peer) -> bytes:
    return bytes([len(peer)]) + peer


def _marks_key(number: int) -> bytes:
    return _DONE + _INT64.pack(number)


def _child_key(attribute: str, peer: Peer) -> bytes:
    return _CHILD + _length_prefixed(peer) + attribute.encode()


def _child_in(key: bytes) -> Peer:
    first = len(_CHILD) + 1
    return key[first : first + key[first - 1]]


@lru_cache(maxsize=1 << 9)  # A record is stored, and removed soon.
def _record_key(key: EventKey) -> bytes:
    (publisher, incarnation, number), attribute = key
    return (
        _RECORD
        + _length_prefixed(publisher)
        + _NUMBERS.pack(incarnation, number)
        + attribute.encode()
    )


def _decoded(kind: type[StoredPart], content: bytes) -> StoredPart:
    (part,) = decode(content, _LIMITS).parts
    if not isinstance(part, kind):
        raise WireError(f"a stored {kind.__name__} is a {type(part).__name__}")
    return part
