"""The order of an owner's events at each member, across all groups and paths.

Links keep order. An event names its predecessor only if the member gets it on another path than an
earlier event that it has not confirmed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from smartpubsub.protocols.publication import EventId
from smartpubsub.seam import Peer


@dataclass(slots=True)
class _MemberPath:
    """The events that a member has not confirmed, in order."""

    hops: dict[EventId, Peer | None] = field(default_factory=dict)
    """The first hop of each event; None if the member was not served then."""
    is_mixed: bool = False
    """Whether the events took more than one path, so that links alone do not keep their order."""


class MemberPaths:
    """Assigns predecessors to events."""

    def __init__(self) -> None:
        self._paths: dict[Peer, _MemberPath] = {}

    def append(self, id: EventId, peer: Peer, hop: Peer | None) -> int:
        """Append an event for a member; return the number of its predecessor, 0 for none."""
        path = self._paths.setdefault(peer, _MemberPath())
        prior = 0
        if path.hops:
            last, last_hop = next(reversed(path.hops.items()))
            path.is_mixed = path.is_mixed or last_hop != hop or hop is None
            prior = last.number if path.is_mixed else 0
        path.hops[id] = hop
        return prior

    def remove(self, id: EventId, peer: Peer) -> None:
        """Remove an event of a member: later events do not name it as predecessor."""
        path = self._paths.get(peer)
        if path is not None:
            path.hops.pop(id, None)
            if not path.hops:
                del self._paths[peer]

    def check(self) -> None:
        """Assert that no member is kept without events."""
        assert all(path.hops for path in self._paths.values())
