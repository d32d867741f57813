"""Queues on disk: the events that wait for the readers of subscriptions.

A queue belongs to one subscription. The host stores an event in the same transaction as the other
changes that the delivery causes, and before it sends any acknowledgement. So an event that the node
has acknowledged is in the queue after `kill -9`. The queue also has its events in memory; its
limits bound both.

The reader takes events in order and acknowledges them. An event leaves the queue when the reader
has acknowledged it or a later one, or when a limit drops it. The queue remembers acknowledged
events on disk for as long as peers may send them again after a crash.

A journal is a queue that several programs read by sequence number, again and again until they
acknowledge. Its epoch tells it from an earlier journal of the same subscription number. Sequence
numbers of an epoch are never used again.
"""

from __future__ import annotations

import logging
import struct
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from smartpubsub.kademlia.settings import MINUTE
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.blocks import decode, encode
from smartpubsub.protocols.publication import EventId, Publication
from smartpubsub.protocols.pubsub import Delivery

_log = logging.getLogger(__name__)

PREFIX = b"kept/"
SEEN_COUNT_MAX = 100_000
"""Event ids that a queue remembers if its events come by two protocols."""

TAKEN_US_MAX = 45 * MINUTE
"""How long a queue remembers acknowledged events; peers send an event for at most 30 minutes."""
TAKEN_COUNT_MAX = 10_000
"""Acknowledged events that a queue remembers."""

_NUMBER = struct.Struct(">Q")
_ENTRY = struct.Struct(">QI")
"""When the event was stored, in microseconds, and its hops."""
_TAKEN_HOPS = (1 << 32) - 1
"""In place of the hops: the event is acknowledged, and only its id is stored."""
_HEAD = struct.Struct(">?QQ")
"""Whether the queue outlives its reader; the numbers of events dropped and not yet reported."""
_JOURNAL = struct.Struct(">8sQ")
"""After the head of a journal: its epoch, and the sequence number of the next event."""
EPOCH_BYTES = 8

Change: TypeAlias = tuple[bytes, bytes | None]
"""A key, and its new value; None removes the key."""


@dataclass(frozen=True, kw_only=True)
class KeptLimits:
    """Retention; a queue drops its oldest events first."""

    event_count_max: int
    """The events of one queue."""
    byte_count_max: int
    """The bytes of one queue."""
    all_bytes_max: int
    """The bytes of all queues of the node."""
    age_us_max: int | None = None


class Waiting(NamedTuple):
    """An event that waits in a queue."""

    sequence: int
    id: str
    stored_us: int
    value: bytes

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return _NUMBER.size * 2 + len(PREFIX) + 1 + len(self.value)

    @property
    def delivery(self) -> Delivery:
        """The event, as the protocol has delivered it."""
        return _read(self.value)


@dataclass
class KeptTotals:
    """Sums over all queues of a node."""

    byte_count: int = 0
    dropped: int = 0
    """Since the node was started."""


@dataclass(eq=False)
class KeptQueue:
    """The queue of one subscription."""

    number: int
    is_kept: bool
    """Whether the queue outlives its reader."""
    _totals: KeptTotals
    dropped: int = 0
    """The number of events dropped before the reader took them."""
    _gap: int = 0
    """Dropped events that no acknowledged event has reported."""
    _reported: int = 0
    """Dropped events of the gap that only an unacknowledged event has reported."""
    _entries: dict[int, Waiting] = field(default_factory=dict)
    """The waiting events by sequence number; the numbers have no gaps."""
    _sequences: dict[str, int] = field(default_factory=dict)
    _aside: list[Waiting] = field(default_factory=list)
    """The events that waited when the reader requested history; they follow it."""
    _next: int = 0
    _shown: int = -1
    """The last event on disk, up to which the reader may read."""
    _given: int = -1
    """The last event that the reader has."""
    _seen: OrderedDict[str, None] | None = None
    _taken: OrderedDict[str, tuple[int, int]] = field(default_factory=OrderedDict)
    """Acknowledged events: sequence number, and when they were acknowledged, oldest first."""
    _has_history: bool = False
    """Whether the events that come are history, which may have been delivered before."""
    byte_count: int = 0
    epoch: bytes = b""
    """The epoch of a journal; empty for other queues."""

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, id: str) -> bool:
        return id in self._sequences

    def check(self) -> None:
        """Assert the invariants."""
        assert self.byte_count == sum(entry.size for entry in self._entries.values())
        first = self._next - len(self._entries)
        assert list(self._entries) == list(range(first, self._next))
        assert 0 <= self._reported <= self._gap <= self.dropped
        assert self._shown < self._next
        assert self._given < self._next
        assert len(self._taken) <= TAKEN_COUNT_MAX
        assert all(sequence < self._next for sequence, _ in self._taken.values())

    # --- events that come ---

    def share(self) -> None:
        """Queue each event once although it comes by two protocols."""
        if self._seen is None:
            self._seen = OrderedDict.fromkeys(self._sequences)

    def append(self, delivery: Delivery, now: int, limits: KeptLimits) -> list[Change]:
        """Queue an event, unless it is queued; return the changes to store."""
        id = str(delivery.event.id)
        is_repeated = id in self._taken and not self._has_history
        if id in self._sequences or is_repeated or self._is_seen(id):
            return []
        changes = self._forget(id) if id in self._taken else []
        changes += self._put(Waiting(self._next, id, now, _written(delivery, now)))
        return [*changes, *self.expire(now, limits)]

    def _put(self, entry: Waiting) -> list[Change]:
        self._entries[entry.sequence] = entry
        self._sequences[entry.id] = entry.sequence
        self._next = entry.sequence + 1
        self._count(entry.size)
        return [(_key(self.number, entry.sequence), entry.value)]

    def _count(self, size: int) -> None:
        self.byte_count += size
        self._totals.byte_count += size

    def _is_seen(self, id: str) -> bool:
        if self._seen is None:
            return False
        is_seen = id in self._seen
        self._seen[id] = None
        if len(self._seen) > SEEN_COUNT_MAX:
            self._seen.popitem(last=False)
        return is_seen

    def show(self, id: str) -> None:
        """Let the reader have the events up to this one, which are on disk."""
        self._shown = max(self._shown, self._sequences.get(id, -1))

    def show_all(self) -> None:
        """Let the reader have all events."""
        self._shown = self._next - 1

    @property
    def has_history(self) -> bool:
        """Whether history has begun and not ended."""
        return self._has_history

    def begin_history(self) -> None:
        """Put waiting events aside: history comes first."""
        self._has_history = True
        self._aside = list(self._entries.values())
        for entry in self._aside:
            del self._sequences[entry.id]

    def end_history(self) -> list[Change]:
        """Queue the events put aside after the history, each event once."""
        aside, self._aside, self._has_history = self._aside, [], False
        changes: list[Change] = []
        for entry in aside:
            if self._entries.pop(entry.sequence, None) is None:
                continue
            self._count(-entry.size)
            changes.append((_key(self.number, entry.sequence), None))
            if entry.id not in self._sequences:
                changes += self._put(entry._replace(sequence=self._next))
        self.show_all()
        return changes

    # --- limits ---

    def expire(self, now: int, limits: KeptLimits) -> list[Change]:
        """Drop the oldest events as long as the queue is beyond a limit."""
        changes: list[Change] = []
        oldest_us = None if limits.age_us_max is None else now - limits.age_us_max
        while self._entries:
            first = self._first()
            if not (
                len(self._entries) > limits.event_count_max
                or self.byte_count > limits.byte_count_max
                or (oldest_us is not None and first.stored_us < oldest_us)
            ):
                break
            changes += self.drop_oldest()
        return changes

    def drop_oldest(self) -> list[Change]:
        """Drop the oldest event, and count it unless the reader has it."""
        entry = self._first()
        changes = self._remove(entry)
        if entry.sequence > self._given:
            if not self.dropped:
                _log.warning(
                    "a subscription's queue on disk is full, and drops the oldest events",
                    extra={"fields": {"subscription": self.number, "waiting": len(self)}},
                )
            self.dropped += 1
            self._totals.dropped += 1
            self._gap += 1
            changes.append(self.head)
        elif self.epoch:
            changes.append(self.head)
        return changes

    def _first(self) -> Waiting:
        return self._entries[self._next - len(self._entries)]

    def _remove(self, entry: Waiting) -> list[Change]:
        del self._entries[entry.sequence]
        if self._sequences.get(entry.id) == entry.sequence:
            del self._sequences[entry.id]
        self._count(-entry.size)
        return [(_key(self.number, entry.sequence), None)]

    # --- the reader ---

    def begin(self) -> None:
        """Let a new reader begin with the first unacknowledged event."""
        self._given = self._next - len(self._entries) - 1
        self._reported = 0

    def next(self) -> tuple[Delivery, int] | None:
        """The next event, and how many were dropped immediately before it."""
        sequence = max(self._given + 1, self._next - len(self._entries))
        if sequence > self._shown or sequence not in self._entries:
            return None
        self._given = sequence
        dropped_before = self._gap - self._reported
        self._reported = self._gap
        return self._entries[sequence].delivery, dropped_before

    def has_had(self, id: str) -> bool:
        """Whether an event waits, or was acknowledged and is still remembered."""
        return id in self._sequences or id in self._taken

    def take(self, id: str, now: int) -> list[Change]:
        """Remove an event that the reader has dealt with, and all before it."""
        last = self._sequences.get(id)
        return [] if last is None else self.take_to(last, now)  # None: a limit dropped it.

    def take_to(self, last: int, now: int) -> list[Change]:
        """Remove the events up to a sequence number."""
        changes: list[Change] = []
        while self._entries and (first := self._first()).sequence <= last:
            self._remove(first)
            self._taken[first.id] = first.sequence, now
            value = _ENTRY.pack(now, _TAKEN_HOPS) + first.id.encode()
            changes.append((_key(self.number, first.sequence), value))
        while self._taken:
            oldest, (_, taken_us) = next(iter(self._taken.items()))
            if len(self._taken) <= TAKEN_COUNT_MAX and taken_us >= now - TAKEN_US_MAX:
                break
            changes += self._forget(oldest)
        if self._reported or (self.epoch and changes):
            self._gap -= self._reported
            self._reported = 0
            changes.append(self.head)
        return changes

    def _forget(self, id: str) -> list[Change]:
        """Forget that an event was acknowledged."""
        sequence, _ = self._taken.pop(id)
        return [(_key(self.number, sequence), None)]

    # --- the readers of a journal ---

    @property
    def first(self) -> int:
        """The sequence number of the oldest event."""
        return self._next - len(self._entries)

    @property
    def end(self) -> int:
        """The sequence number after the last event that is on disk."""
        return max(self._shown + 1, self.first)

    def stored(self, first: int, end: int, bytes_max: int) -> list[bytes]:
        """The events from a sequence number to another, as they are stored, up to so many bytes."""
        found: list[bytes] = []
        for sequence in range(max(first, self.first), min(end, self.end)):
            found.append(self._entries[sequence].value[_ENTRY.size :])
            bytes_max -= len(found[-1])
            if bytes_max <= 0:
                break
        return found

    # --- storage ---

    @property
    def head(self) -> Change:
        """The stored head of the queue."""
        value = _HEAD.pack(self.is_kept, self.dropped, self._gap)
        if self.epoch:
            value += _JOURNAL.pack(self.epoch, self._next)
        return _head_key(self.number), value

    def clear(self) -> list[Change]:
        """Remove the queue from disk."""
        sequences = [*(sequence for sequence, _ in self._taken.values()), *self._entries]
        changes: list[Change] = [(_key(self.number, sequence), None) for sequence in sequences]
        self._taken.clear()
        self._entries.clear()
        self._sequences.clear()
        self._count(-self.byte_count)
        return [*changes, (_head_key(self.number), None)]

    def _load_journal(self, value: bytes) -> None:
        self.epoch, self._next = _JOURNAL.unpack(value)
        self._shown = self._next - 1

    def _load(self, sequence: int, value: bytes) -> None:
        stored_us, hops = _ENTRY.unpack_from(value)
        if hops == _TAKEN_HOPS:
            self._taken[value[_ENTRY.size :].decode()] = sequence, stored_us
            self._next = max(self._next, sequence + 1)
            return
        self._put(Waiting(sequence, str(_read(value).event.id), stored_us, value))
        self._shown = sequence


class KeptQueues:
    """The queues of a node, by the numbers of their subscriptions."""

    def __init__(self, limits: KeptLimits, stored: Iterable[tuple[bytes, bytes]] = ()) -> None:
        self.limits = limits
        self.totals = KeptTotals()
        self._queues: dict[int, KeptQueue] = {}
        for key, value in stored:
            number, sequence = _numbers(key)
            if sequence is None:
                is_kept, dropped, gap = _HEAD.unpack_from(value)
                queue = KeptQueue(number, is_kept, self.totals, dropped, gap)
                if len(value) > _HEAD.size:
                    queue._load_journal(value[_HEAD.size :])
                self._queues[number] = queue
            elif number in self._queues:
                self._queues[number]._load(sequence, value)
        for queue in self._queues.values():
            queue.begin()

    def check(self) -> None:
        """Assert the invariants."""
        for queue in self:
            queue.check()
        assert self.totals.byte_count == sum(queue.byte_count for queue in self)

    def __contains__(self, number: int) -> bool:
        return number in self._queues

    def __iter__(self) -> Iterator[KeptQueue]:
        return iter(self._queues.values())

    def get(self, number: int) -> KeptQueue | None:
        """The queue of a subscription, if it has one."""
        return self._queues.get(number)

    def create(
        self, number: int, *, is_kept: bool, epoch: bytes = b""
    ) -> tuple[KeptQueue, list[Change]]:
        """Give a subscription a queue, or keep the one that it has."""
        queue = self._queues.get(number)
        if queue is None:
            queue = self._queues[number] = KeptQueue(number, is_kept, self.totals, epoch=epoch)
            return queue, [queue.head]
        if is_kept and not queue.is_kept:
            queue.is_kept = True
            return queue, [queue.head]
        return queue, []

    def append(self, queue: KeptQueue, delivery: Delivery, now: int) -> list[Change]:
        """Queue an event; beyond the limit of all queues, the largest drops its oldest."""
        changes = queue.append(delivery, now, self.limits)
        while self.totals.byte_count > self.limits.all_bytes_max:
            changes += max(self._queues.values(), key=lambda each: each.byte_count).drop_oldest()
        return changes

    def remove(self, number: int) -> list[Change]:
        """End a queue, if there is one."""
        queue = self._queues.pop(number, None)
        return [] if queue is None else queue.clear()

    def retain(self, numbers: Sequence[int]) -> list[Change]:
        """Remove the queues of subscriptions that have ended."""
        gone = [number for number in self._queues if number not in numbers]
        return [change for number in gone for change in self.remove(number)]

    def holding(self, id: str) -> list[int]:
        """The subscriptions for whose readers an event waits."""
        return [queue.number for queue in self if id in queue]


def head_of(number: int) -> Change:
    """The stored head of a new queue that outlives its reader."""
    return KeptQueue(number, True, KeptTotals()).head


def _head_key(number: int) -> bytes:
    return PREFIX + _NUMBER.pack(number)


def _key(number: int, sequence: int) -> bytes:
    return _head_key(number) + b"/" + _NUMBER.pack(sequence)


def _numbers(key: bytes) -> tuple[int, int | None]:
    rest = key[len(PREFIX) :]
    [number] = _NUMBER.unpack_from(rest)
    if len(rest) == _NUMBER.size:
        return number, None
    [sequence] = _NUMBER.unpack_from(rest, _NUMBER.size + 1)
    return number, sequence


def _written(delivery: Delivery, now: int) -> bytes:
    return _ENTRY.pack(now, delivery.hops) + event_content(delivery.event)


def event_content(event: Publication) -> bytes:
    """Write an event."""
    content = {
        "publisher": event.id.publisher,
        "start": event.id.incarnation,
        "number": event.id.number,
        "predicate": str(event.predicate),
        "payload": event.payload,
        "signature": event.signature,
        "created": event.created_us,
    }
    return encode(content)


def _read(value: bytes) -> Delivery:
    _, hops = _ENTRY.unpack_from(value)
    content = decode(value[_ENTRY.size :])
    assert isinstance(content, dict)
    text = content["predicate"]
    event = Publication.of(
        EventId(content["publisher"], content["start"], content["number"]),
        Predicate.parse(text, attributes_max=len(text)),
        content["payload"],
        content["signature"],
        content["created"],
    )
    return Delivery(event, (), hops)
