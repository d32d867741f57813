"""The predicates of several members in one index."""

from __future__ import annotations

from collections.abc import Iterable

from smartpubsub.matching import Index
from smartpubsub.predicates import Predicate
from smartpubsub.seam import Peer


class MemberInterest:
    """Which members want which events."""

    def __init__(self) -> None:
        self._index = Index()
        self._keys: dict[Peer, tuple[int, ...]] = {}
        self._peers: dict[int, Peer] = {}
        self._last_key = 0

    def put(self, peer: Peer, predicates: Iterable[Predicate]) -> None:
        """Replace a member's predicates; none removes the member."""
        for key in self._keys.pop(peer, ()):
            self._index.remove(key)
            del self._peers[key]
        keys = []
        for predicate in predicates:
            self._last_key += 1
            self._index.add(self._last_key, predicate)
            self._peers[self._last_key] = peer
            keys.append(self._last_key)
        if keys:
            self._keys[peer] = tuple(keys)

    def of(self, event: Predicate) -> dict[Peer, None]:
        """Return the members that want an event."""
        return dict.fromkeys([self._peers[key] for key in sorted(self._index.match(event))])

    def peers(self) -> set[Peer]:
        """Return the members that want anything."""
        return set(self._keys)
