"""The window in which a node recognises an event: it ignores copies and rejects older events."""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from typing import TypeAlias

from smartpubsub.protocols.publication import EventId
from smartpubsub.protocols.runtime.bounded import BoundedDict
from smartpubsub.protocols.seen import Seen
from smartpubsub.seam import Peer

DIGEST_BYTES = 7

EventKey: TypeAlias = tuple[EventId, str]
"""An event, and the attribute whose tree carries this copy of it."""


class DuplicateWindow(Seen[EventKey]):
    """The recent events, and the number up to which each publisher's events are forgotten.

    A publisher numbers its events in order, and no node sends an event for as long as the window
    remembers it. So an event with a number at or below a forgotten one is a replay.
    """

    def __init__(self, keep_us: int, count_max: int) -> None:
        super().__init__(keep_us, count_max, self._forget)
        self._forgotten: BoundedDict[tuple[Peer, str], tuple[int, int]] = BoundedDict(count_max)
        """By publisher and attribute: incarnation and number of the last forgotten event."""

    def is_replay(self, key: EventKey) -> bool:
        """Whether an event is older than those that the window has of its publisher."""
        (publisher, incarnation, number), attribute = key
        last = self._forgotten.get((publisher, attribute))
        return last is not None and key not in self and (incarnation, number) <= last

    def _forget(self, key: EventKey) -> None:
        (publisher, incarnation, number), attribute = key
        before = self._forgotten.get((publisher, attribute), (0, 0))
        self._forgotten[publisher, attribute] = max(before, (incarnation, number))


@lru_cache(maxsize=1 << 8)
def digest_of_id(id: EventId) -> int:
    """A short digest of an event's id."""
    written = id.publisher + id.incarnation.to_bytes(8, "big") + id.number.to_bytes(8, "big")
    return int.from_bytes(blake2b(written, digest_size=DIGEST_BYTES).digest(), "big")
