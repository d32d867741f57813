"""The window in which a node recognises an event: it ignores copies and rejects older events."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import TypeAlias

from smartpubsub.protocols.publication import EventId
from smartpubsub.protocols.runtime.bounded import BoundedDict
from smartpubsub.protocols.seen import CountedTime
from smartpubsub.seam import Peer

DIGEST_BYTES = 7
BLOCK_BITS = 8
"""A block of the window is for 256 consecutive numbers of a publisher."""
_NUMBER_MASK = (1 << BLOCK_BITS) - 1

EventKey: TypeAlias = tuple[EventId, str]
"""An event, and the attribute whose tree carries this copy of it."""


@dataclass(slots=True)
class _Block:
    """Which of consecutive numbers were added, a bit for each, and when the last of them was."""

    bits: int
    added_us: int

    @property
    def last(self) -> int:
        """The highest number in the block, from its first."""
        return self.bits.bit_length() - 1


class DuplicateWindow:
    """The recent events, and the number up to which each publisher's events are forgotten.

    A publisher numbers its events in order, so those of a tree have numbers that are close to each
    other. A block of the window has a bit for each. An event takes some 14 bytes in this way; an
    entry of a dictionary would take 400, and a node remembers events for 45 minutes.

    A block lapses as a whole, when no event was added to it for the time of the window
    (`CountedTime`). So the window remembers each event for at least this time, unless there are
    more than `count_max`.

    No node sends an event for as long as the window remembers it. So an event with a number at or
    below a forgotten one is a replay.
    """

    def __init__(self, keep_us: int, count_max: int) -> None:
        self._keep_us = keep_us
        self._count_max = count_max
        self._count = 0
        self._time = CountedTime(keep_us)
        self._blocks: OrderedDict[tuple[Peer, int, str, int], _Block] = OrderedDict()
        """By publisher, incarnation, attribute and number; the last that was added to is last."""
        self._forgotten: BoundedDict[tuple[Peer, str], tuple[int, int]] = BoundedDict(count_max)
        """By publisher and attribute: incarnation and number of the last forgotten event."""

    def __len__(self) -> int:
        return self._count

    def __contains__(self, key: EventKey) -> bool:
        (publisher, incarnation, number), attribute = key
        block = self._blocks.get((publisher, incarnation, attribute, number >> BLOCK_BITS))
        return block is not None and bool(block.bits >> (number & _NUMBER_MASK) & 1)

    def add(self, key: EventKey, now: int) -> bool:
        """Add an event; return whether it is new."""
        now = self._time.at(now)
        (publisher, incarnation, number), attribute = key
        name = publisher, incarnation, attribute, number >> BLOCK_BITS
        bit = 1 << (number & _NUMBER_MASK)
        block = self._blocks.get(name)
        if block is None:
            block = self._blocks[name] = _Block(bit, now)
        elif block.bits & bit:
            return False
        else:
            block.bits |= bit
            block.added_us = now
            self._blocks.move_to_end(name)
        self._count += 1
        self._forget_lapsed(now)
        if self._count > self._count_max:
            self._make_room(block, bit)
        return True

    def is_replay(self, key: EventKey) -> bool:
        """Whether an event is older than those that the window has of its publisher."""
        (publisher, incarnation, number), attribute = key
        last = self._forgotten.get((publisher, attribute))
        return last is not None and (incarnation, number) <= last and key not in self

    def _forget_lapsed(self, now: int) -> None:
        while True:
            name, block = next(iter(self._blocks.items()))
            if block.added_us + self._keep_us > now:
                return
            del self._blocks[name]
            self._count -= block.bits.bit_count()
            publisher, incarnation, attribute, first = name
            last = incarnation, (first << BLOCK_BITS) + block.last
            before = self._forgotten.get((publisher, attribute), last)
            self._forgotten[publisher, attribute] = max(before, last)

    def _make_room(self, newest: _Block, bit: int) -> None:
        """Forget one event: the lowest number in the block that was added to least recently.

        It does not make later events replays: it may have been seen a moment ago.
        """
        name, block = next(iter(self._blocks.items()))
        others = block.bits ^ bit if block is newest else block.bits
        block.bits ^= others & -others
        self._count -= 1
        if not block.bits:
            del self._blocks[name]

    def check(self) -> None:
        """Assert the invariants: the number of events, and the order of the blocks."""
        blocks = self._blocks.values()
        assert self._count == sum(block.bits.bit_count() for block in blocks) <= self._count_max
        times = [block.added_us for block in blocks]
        assert times == sorted(times)
        assert all(block.bits for block in blocks)


@lru_cache(maxsize=1 << 8)
def digest_of_id(id: EventId) -> int:
    """A short digest of an event's id."""
    written = id.publisher + id.incarnation.to_bytes(8, "big") + id.number.to_bytes(8, "big")
    return int.from_bytes(blake2b(written, digest_size=DIGEST_BYTES).digest(), "big")
