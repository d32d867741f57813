"""The values and the providers of names that a node stores for others."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

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
    that has put most.
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
        self._providers: dict[bytes, dict[bytes, tuple[Contact, int]]] = {}

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
        for name in list(self._providers):
            left = {p: entry for p, entry in self._providers[name].items() if now < entry[1]}
            if left:
                self._providers[name] = left
            else:
                del self._providers[name]
        return gone

    def due(self, now: int, next_at: int) -> list[tuple[bytes, bytes]]:
        """The values to republish now; they are due again at `next_at`."""
        due = [(name, held) for name, held in self._values.items() if now >= held.republish_at]
        for _, held in due:
            held.republish_at = next_at
        return [(name, held.value) for name, held in due]

    def add_provider(self, name: bytes, provider: Contact, now: int) -> bool:
        """Add a provider; False if there is no room."""
        known = self._providers.get(name)
        if known is None:
            if len(self._providers) >= self._settings.provider_count_max:
                return False
            known = self._providers[name] = {}
        if provider.peer not in known and len(known) >= self._settings.providers_per_name_max:
            return False
        known[provider.peer] = (provider, now + self._settings.expire_us)
        return True

    def providers(self, name: bytes, now: int) -> list[Contact]:
        """The providers of a name that have not expired."""
        known = self._providers.get(name, {})
        return [contact for contact, expires_at in known.values() if now < expires_at]


def _size(name: bytes, value: bytes) -> int:
    return len(name) + len(value) + VALUE_BYTES
