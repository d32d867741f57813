"""Who wants what: the predicates of several members in one index."""

from __future__ import annotations

from collections.abc import Iterable

from smartpubsub.matching import Index
from smartpubsub.predicates import Predicate
from smartpubsub.seam import Peer


class Wants:
    """What members of a group want."""

    def __init__(self) -> None:
        self._index = Index()
        self._keys: dict[Peer, tuple[int, ...]] = {}
        self._peers: dict[int, Peer] = {}
        self._last_key = 0

    def put(self, peer: Peer, predicates: Iterable[Predicate]) -> None:
        """Take note of all that a member wants, which is nothing if it has left."""
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
        """The members that want an event."""
        return dict.fromkeys([self._peers[key] for key in sorted(self._index.match(event))])
