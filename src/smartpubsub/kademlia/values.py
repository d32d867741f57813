"""The values and the providers of names that a node stores for others."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.ledger import NO_USER, USER_SHARE, Ledger, User
from smartpubsub.kademlia.settings import Settings

Validator = Callable[[bytes, bytes], bool]
"""Decides whether a value is valid under a name."""

# A multihash of SHA-256: its code, its length, the digest. A CIDv1 has the version, a codec of one
# or more bytes and this at its end.
_SHA256_HEAD = b"\x12\x20"
_SHA256_BYTES = 34


def content_digest(name: bytes) -> bytes | None:
    """The SHA-256 that a name requires of its value, if the name is a content id.

    >>> content_digest(b"/surf/price") is None
    True
    """
    is_multihash = len(name) == _SHA256_BYTES
    is_cid = len(name) in (_SHA256_BYTES + 2, _SHA256_BYTES + 3) and name[0] == 1
    if not (is_multihash or is_cid) or name[-_SHA256_BYTES:][:2] != _SHA256_HEAD:
        return None
    return name[-32:]


VALUE_BYTES = 256
"""About how much memory a value takes beside its content."""
PROVIDER_BYTES = 512
"""About how much memory a provider of a name takes beside the name and its addresses."""


class _Provider(NamedTuple):
    contact: Contact
    user: User
    expires_at: int


@dataclass(slots=True)
class _Value:
    value: bytes
    user: User
    """The peer that has put it first."""
    expires_at: int
    republish_at: int


class ValueStore:
    """Values and providers, bounded, each until it expires.

    Each peer may put a limited number of values. A full store evicts the oldest value of the peer
    that has put most. Each peer may also provide a limited number of names.
    """

    def __init__(
        self, settings: Settings, validators: Mapping[bytes, Validator], ledger: Ledger
    ) -> None:
        self._settings = settings
        self._validators = validators
        self._values: dict[bytes, _Value] = {}
        bytes_max = settings.values_bytes_max
        user_bytes_max = max(bytes_max // USER_SHARE, 2 * settings.value_bytes_max)
        self._account = ledger.open("values", bytes_max, user_bytes_max)
        self._evicted: list[bytes] = []
        self._names: dict[User, dict[bytes, None]] = {}
        """The names of each peer's values, the oldest first."""
        self._providers: dict[bytes, dict[bytes, _Provider]] = {}
        self._provided: Counter[User] = Counter()
        """How many names each peer provides."""
        self._provider_account = ledger.open("providers", settings.providers_bytes_max)

    def __len__(self) -> int:
        return len(self._values)

    def is_valid(self, name: bytes, value: bytes) -> bool:
        """Whether a value is valid under a name.

        A value under a content id must hash to it. Under `/namespace/...` the namespace's validator
        decides; without a validator no value is valid.
        """
        if len(name) > self._settings.name_bytes_max or len(value) > self._settings.value_bytes_max:
            return False
        digest = content_digest(name)
        if digest is not None:
            return hashlib.sha256(value).digest() == digest
        parts = name.split(b"/", 2)
        validator = self._validators.get(parts[1]) if len(parts) == 3 and not parts[0] else None
        return validator is not None and validator(name, value)

    def put(
        self, name: bytes, value: bytes, now: int, republish_at: int, user: User = NO_USER
    ) -> bool:
        """Store a value that a peer puts, and republish it at a time.

        Return False if it is invalid, the peer has too many, or there is no room. `take_evicted`
        returns the names of values that were evicted for it.
        """
        if not self.is_valid(name, value):
            return False
        held = self._values.get(name)
        if held is not None:
            user = held.user  # Putting a value again does not make it another peer's.
        more = _size(name, value) - (_size(name, held.value) if held else 0)
        if user != NO_USER and not self._may_have(user, more, is_new=held is None):
            self._account.refuse()
            return False
        self._account.change(user, more)
        if not self._make_room(user, is_new=held is None):
            self._account.change(user, -more)
            self._account.refuse()
            return False
        self._names.setdefault(user, {})[name] = None
        self._values[name] = _Value(value, user, now + self._settings.expire_us, republish_at)
        return True

    def take_evicted(self) -> list[bytes]:
        """The names of the values that were evicted since the last call."""
        evicted, self._evicted = self._evicted, []
        return evicted

    def _may_have(self, user: User, more: int, *, is_new: bool) -> bool:
        count_max = max(1, self._settings.value_count_max // USER_SHARE)
        is_few = not is_new or len(self._names.get(user, ())) < count_max
        return is_few and self._account.has_room_for(user, more)

    def _make_room(self, user: User, *, is_new: bool) -> bool:
        """Evict values of peers that have more than a user; return whether there is room now."""
        while self._account.excess or len(self) + is_new > self._settings.value_count_max:
            largest = self._account.largest()
            if largest is None or largest == user or not self._names.get(largest):
                return False
            name = next(iter(self._names[largest]))
            self._remove(name)
            self._evicted.append(name)
            self._account.evicted += 1
        return True

    def _remove(self, name: bytes) -> None:
        held = self._values.pop(name)
        self._account.change(held.user, -_size(name, held.value))
        names = self._names[held.user]
        del names[name]
        if not names:
            del self._names[held.user]

    def get(self, name: bytes, now: int) -> bytes | None:
        """A value that has not expired."""
        held = self._values.get(name)
        return held.value if held and now < held.expires_at else None

    def expire(self, now: int) -> list[bytes]:
        """Remove expired entries, and return the names of expired values."""
        gone = [name for name, held in self._values.items() if now >= held.expires_at]
        for name in gone:
            self._remove(name)
        for name, known in list(self._providers.items()):
            for peer in [p for p, provider in known.items() if now >= provider.expires_at]:
                self._remove_provider(name, peer)
        return gone

    def due(self, now: int, next_at: int, count_max: int) -> list[tuple[bytes, bytes]]:
        """The values to republish now, the first ones only; they are due again at `next_at`."""
        every = ((name, held) for name, held in self._values.items() if now >= held.republish_at)
        due = list(islice(every, count_max))
        for _, held in due:
            held.republish_at = next_at
        return [(name, held.value) for name, held in due]

    def add_provider(self, name: bytes, provider: Contact, now: int, user: User = NO_USER) -> bool:
        """Add a provider that a peer names; False if the peer has too many, or there is no room."""
        known = self._providers.get(name, {})
        held = known.get(provider.peer)
        if held is None:
            if not known and len(self._providers) >= self._settings.provider_count_max:
                return False
            if len(known) >= self._settings.providers_per_name_max:
                return False
        else:
            user = held.user
        more = _provider_size(name, provider) - (_provider_size(name, held.contact) if held else 0)
        if user != NO_USER and not self._may_provide(user, more, is_new=held is None):
            self._provider_account.refuse()
            return False
        self._provider_account.change(user, more)
        self._provided[user] += held is None
        entry = _Provider(provider, user, now + self._settings.expire_us)
        self._providers.setdefault(name, known)[provider.peer] = entry
        return True

    def _may_provide(self, user: User, more: int, *, is_new: bool) -> bool:
        count_max = max(1, self._settings.provider_count_max // USER_SHARE)
        is_few = not is_new or self._provided[user] < count_max
        return is_few and self._provider_account.fits(user, more)

    def _remove_provider(self, name: bytes, peer: bytes) -> None:
        known = self._providers[name]
        contact, user, _ = known.pop(peer)
        self._provider_account.change(user, -_provider_size(name, contact))
        self._provided[user] -= 1
        if not self._provided[user]:
            del self._provided[user]
        if not known:
            del self._providers[name]

    def providers(self, name: bytes, now: int) -> list[Contact]:
        """The providers of a name that have not expired."""
        known = self._providers.get(name, {})
        return [provider.contact for provider in known.values() if now < provider.expires_at]


def _provider_size(name: bytes, provider: Contact) -> int:
    return len(name) + sum(map(len, provider.addresses)) + PROVIDER_BYTES


def _size(name: bytes, value: bytes) -> int:
    return len(name) + len(value) + VALUE_BYTES
