"""The routing table: peers that have answered, by the length of the key prefix they share.

A bucket holds up to k peers, least recently heard from first, and a few candidates for a free
entry. A peer enters only after it has answered. The node leaves it out of responses once it fails,
and evicts it when it fails again. A bucket can be limited to a few peers with the same address
prefix, because they may belong to one attacker.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from smartpubsub.kademlia.keys import Contact, Key, key_of

FOUND_COUNT_MAX = 256
"""Keys whose closest peers are remembered."""
CROWDED_OUT_MAX = 256
"""Peers of a bucket that are remembered as crowded out, so that they are not pinged again."""


@dataclass(slots=True)
class Entry:
    """A peer in the table."""

    contact: Contact
    heard_at: int
    failures: int = 0
    prefix: str = ""


@dataclass(slots=True)
class Bucket:
    """The peers in one range of distances."""

    entries: dict[bytes, Entry] = field(default_factory=dict)
    """Least recently heard from first."""
    waiting: dict[bytes, Contact] = field(default_factory=dict)
    """Candidates for a free entry, the most recent last; the bucket prefers that one."""
    crowded_out: dict[bytes, str] = field(default_factory=dict)
    """The latest peers left out because the bucket has enough with their address prefix."""
    _trusted: tuple[Contact, ...] | None = None

    def trusted(self) -> tuple[Contact, ...]:
        """The peers that answered last time, in no particular order."""
        if self._trusted is None:
            entries = self.entries.values()
            self._trusted = tuple([entry.contact for entry in entries if not entry.failures])
        return self._trusted

    def heard_from(self, contact: Contact, now: int, prefix: str) -> None:
        """Add or refresh a peer that has answered; there is room for it."""
        entry = self.entries.pop(contact.peer, None)
        if entry is None:
            entry = Entry(contact, now, prefix=prefix)
            if self._trusted is not None:
                self._trusted += (contact,)
        elif entry.failures or not entry.contact.addresses:
            # Addresses from other peers do not replace those that work.
            known = entry.contact if entry.contact.addresses else contact
            entry = Entry(known, now, prefix=entry.prefix)
            self._trusted = None
        entry.heard_at = now
        self.entries[contact.peer] = entry

    def failed(self, entry: Entry, failures_max: int) -> None:
        """Record that a peer failed to answer."""
        self._trusted = None
        entry.failures += 1
        if entry.failures >= failures_max:
            del self.entries[entry.contact.peer]


class RoutingTable:
    """The peers that a node knows, in buckets."""

    def __init__(self, own: Key, k: int, per_prefix_max: int = 0) -> None:
        self._own = own
        self.k = k
        self._per_prefix_max = per_prefix_max
        self.buckets: dict[int, Bucket] = {}
        self._indexes: list[int] = []
        self._found: dict[tuple[Key, int], list[Contact]] = {}
        """The results of `closest` since trusted peers last changed."""
        self._around: dict[Key, list[Contact]] = {}
        """The results of `closest_in_any_order` since then: lookups of many nodes have one key."""
        self.version = 0
        """How often trusted peers have changed."""

    def __len__(self) -> int:
        return sum(len(bucket.entries) for bucket in self.buckets.values())

    def __contains__(self, peer: Contact) -> bool:
        bucket = self.buckets.get(self.index(peer.key))
        return bucket is not None and peer.peer in bucket.entries

    def index(self, key: Key) -> int:
        """The number of the bucket of a key: the number of unshared bits; 0 is the node itself."""
        return (key ^ self._own).bit_length()

    def heard_from(self, contact: Contact, now: int, prefix: str = "") -> bool:
        """Add or refresh a peer that has answered; return False if there is no room for it."""
        bucket = self._bucket(contact.key)
        if contact.peer not in bucket.entries:
            if len(bucket.entries) >= self.k:
                self._wait(bucket, contact)
                return False
            if self._is_crowded(bucket, prefix):
                bucket.crowded_out[contact.peer] = prefix
                if len(bucket.crowded_out) > CROWDED_OUT_MAX:
                    del bucket.crowded_out[next(iter(bucket.crowded_out))]
                return False
        bucket.waiting.pop(contact.peer, None)
        bucket.crowded_out.pop(contact.peer, None)
        before = bucket._trusted
        bucket.heard_from(contact, now, prefix)
        if bucket._trusted is not before:
            self._on_change()
        return True

    def failed(self, contact: Contact, failures_max: int) -> Contact | None:
        """Record a failure; return a candidate for an entry that is free now, if there is one."""
        bucket = self.buckets.get(self.index(contact.key))
        if bucket is None:
            return None
        bucket.waiting.pop(contact.peer, None)
        entry = bucket.entries.get(contact.peer)
        if entry is not None:
            self._on_change()
            bucket.failed(entry, failures_max)
            if entry.failures < failures_max:
                return None
        if len(bucket.entries) >= self.k or not bucket.waiting:
            return None
        return bucket.waiting.popitem()[1]

    def doubt(self, contact: Contact) -> None:
        """Leave a peer out of responses, as after a failure, until it answers."""
        bucket = self.buckets.get(self.index(contact.key))
        entry = bucket.entries.get(contact.peer) if bucket else None
        if bucket is not None and entry is not None and not entry.failures:
            self._on_change()
            bucket.failed(entry, failures_max=2)

    def known(self, contact: Contact) -> Contact | None:
        """The contact of a peer in the table, with its addresses; None if it is not there."""
        bucket = self.buckets.get(self.index(contact.key))
        entry = bucket.entries.get(contact.peer) if bucket else None
        return None if entry is None else entry.contact

    def prefix_of(self, peer: bytes) -> str:
        """The address prefix of a peer in the table; empty if it is not known."""
        bucket = self.buckets.get(self.index(key_of(peer)))
        entry = bucket.entries.get(peer) if bucket else None
        return "" if entry is None else entry.prefix

    @property
    def has_trusted(self) -> bool:
        """Whether there is a peer that answered last time."""
        return any(bucket.trusted() for bucket in self.buckets.values())

    def contacts(self) -> list[Contact]:
        """All peers in the table."""
        return [
            entry.contact for bucket in self.buckets.values() for entry in bucket.entries.values()
        ]

    def suspects(self, silent_since: int = -1) -> list[Contact]:
        """The peers that failed last time, or were not heard from for long."""
        return [
            entry.contact
            for bucket in self.buckets.values()
            for entry in bucket.entries.values()
            if entry.failures or entry.heard_at <= silent_since
        ]

    def is_trusted(self, contact: Contact) -> bool:
        """Whether a peer is in the table and answered last time."""
        bucket = self.buckets.get((contact.key ^ self._own).bit_length())
        entry = bucket.entries.get(contact.peer) if bucket else None
        return entry is not None and not entry.failures

    def is_closest(self, key: Key) -> bool | None:
        """Whether the node is the closest to a key; None if the table cannot decide.

        A peer closer to the key shares with the node at least the prefix that the key shares with
        it. The table knows all such peers if its k closest to the node extend beyond them.
        """
        own_distance = self._own ^ key
        known = self.closest(key, 1)
        if known and known[0].key ^ key < own_distance:
            return False
        if any(suspect.key ^ key < own_distance for suspect in self.suspects()):
            return None
        neighbours = self.closest(self._own, self.k)
        if len(neighbours) < self.k:
            return None
        return True if self.index(neighbours[-1].key) > self.index(key) else None

    def oldest(self, key: Key) -> Entry | None:
        """The least recently heard from peer in the bucket of a key."""
        bucket = self.buckets.get(self.index(key))
        return next(iter(bucket.entries.values()), None) if bucket else None

    def has_room(self, key: Key) -> bool:
        """Whether there is room for a new peer with this key."""
        bucket = self.buckets.get(self.index(key))
        return bucket is None or len(bucket.entries) < self.k

    def is_crowded_out(self, contact: Contact) -> bool:
        """Whether a peer would be left out again because of others with its address prefix."""
        bucket = self.buckets.get(self.index(contact.key))
        if bucket is None or contact.peer not in bucket.crowded_out:
            return False
        return self._is_crowded(bucket, bucket.crowded_out[contact.peer])

    def wait(self, contact: Contact) -> None:
        """Keep a peer as a candidate: it has not answered yet, or there is no room."""
        self._wait(self._bucket(contact.key), contact)

    def closest(self, key: Key, count: int) -> list[Contact]:
        """The known peers closest to a key, without those that failed last time."""
        known = self._found.get((key, count))
        if known is not None:
            return [*known]
        found: list[Contact] = []
        for bucket in self._closest_buckets(key):
            found += sorted(bucket.trusted(), key=lambda contact: contact.key ^ key)
            if self._per_prefix_max:
                found = self._limit_prefixes(found)
            if len(found) >= count:
                break
        if len(self._found) >= FOUND_COUNT_MAX:
            self._found.clear()
        self._found[key, count] = found[:count]
        return found[:count]

    def _on_change(self) -> None:
        """Drop cached results, because the trusted peers change."""
        self._found.clear()
        self._around.clear()
        self.version += 1

    def closest_in_any_order(self, key: Key) -> Sequence[Contact]:
        """The k known peers closest to a key; buckets that are taken whole are not sorted."""
        known = self._around.get(key)
        if known is not None:
            return known
        found: list[Contact] = []
        missing = self.k
        for bucket in self._closest_buckets(key):
            more = bucket.trusted()
            if len(more) > missing:
                found += sorted(more, key=lambda contact: contact.key ^ key)[:missing]
                break
            found += more
            missing -= len(more)
            if not missing:
                break
        if len(self._around) >= FOUND_COUNT_MAX:
            self._around.clear()
        self._around[key] = found
        return found

    def _closest_buckets(self, key: Key) -> Iterator[Bucket]:
        """The buckets in the order of their distance to a key.

        The peers of a bucket differ from the node in one bit, and arbitrarily below it. If the key
        differs from the node in that bit too, they are closer to the key than the node is, and the
        closer the higher the bit; otherwise they are farther away, and the farther the higher the
        bit.
        """
        if not self._indexes:
            return
        lowest = self._indexes[0]
        differing = (self._own ^ key) << 1 >> lowest  # Shifting small numbers is faster.
        for index in reversed(self._indexes):
            if differing >> index - lowest & 1:
                yield self.buckets[index]
        for index in self._indexes:
            if not differing >> index - lowest & 1:
                yield self.buckets[index]

    def _is_crowded(self, bucket: Bucket, prefix: str) -> bool:
        """Whether a bucket has as many peers with an address prefix as it may."""
        if not self._per_prefix_max or not prefix:
            return False
        same = sum(entry.prefix == prefix for entry in bucket.entries.values())
        return same >= self._per_prefix_max

    def _limit_prefixes(self, contacts: list[Contact]) -> list[Contact]:
        """The first few peers of each address prefix."""
        counts: Counter[str] = Counter()
        chosen = []
        for contact in contacts:
            prefix = self.buckets[self.index(contact.key)].entries[contact.peer].prefix
            counts[prefix] += 1
            if not prefix or counts[prefix] <= self._per_prefix_max:
                chosen.append(contact)
        return chosen

    def _bucket(self, key: Key) -> Bucket:
        index = (key ^ self._own).bit_length()
        bucket = self.buckets.get(index)
        if bucket is None:
            bucket = self.buckets[index] = Bucket()
            self._on_change()
            insort(self._indexes, index)
        return bucket

    def _wait(self, bucket: Bucket, contact: Contact) -> None:
        bucket.waiting.pop(contact.peer, None)
        bucket.waiting[contact.peer] = contact
        if len(bucket.waiting) > self.k:
            del bucket.waiting[next(iter(bucket.waiting))]
