"""Past events that match a predicate, for programs that read them in parts.

A part has the events whose ids have a certain checksum, so parts are the same whenever they are
read. The node remembers the history that it has read last, for the other parts and pages of it. A
program that wants the history of now names another end (`until_us`).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, TypeAlias

import trio

from smartpubsub.node.api.events import Event
from smartpubsub.node.api.past import time_us
from smartpubsub.node.api.subscription import EventStream
from smartpubsub.node.storage.kept import event_content
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.runtime.bounded import BoundedDict

Subscribe: TypeAlias = Callable[[Predicate, str | datetime], EventStream]

PAGE_BYTES = 2 << 20
READ_COUNT_MAX = 2
PART_COUNT_MAX = 64
"""How many parts are remembered, since readers read them page by page."""
REMEMBERED_S = 120.0


class PastPart(NamedTuple):
    """A part of the history: one of `of` parts, of the events published before a time."""

    number: int
    of: int
    until_us: int


class PastPage(NamedTuple):
    """Some events of a part."""

    events: list[bytes]
    event_count: int
    """The number of events in the whole part."""
    is_whole: bool
    """Whether no event of history is known to be missing."""


@dataclass(frozen=True)
class _Read:
    events: list[Event]
    is_whole: bool
    until: float
    parts: BoundedDict[PastPart, list[Event]]


class PastEvents:
    """Reads history."""

    def __init__(self, subscribe: Subscribe) -> None:
        self._subscribe = subscribe
        self._reads: BoundedDict[tuple[str, str, int], _Read] = BoundedDict(READ_COUNT_MAX)
        self._one_at_a_time = trio.Lock()

    async def page(
        self,
        predicate: Predicate,
        since: str | datetime,
        part: PastPart,
        first: int,
        count_max: int | None,
    ) -> PastPage:
        """Read a part from a number on, up to a page."""
        async with self._one_at_a_time:
            read = await self._read(predicate, since, part.until_us)
        events = read.parts.get(part)
        if events is None:
            events = read.parts[part] = [event for event in read.events if _is_in(event, part)]
        found, size = list[bytes](), 0
        last = None if count_max is None else first + count_max
        for event in events[first:last]:
            assert event.signed is not None
            found.append(event_content(event.signed))
            size += len(found[-1])
            if size >= PAGE_BYTES:
                break
        return PastPage(found, len(events), read.is_whole)

    async def _read(self, predicate: Predicate, since: str | datetime, until_us: int) -> _Read:
        key = str(predicate), str(since), until_us
        read = self._reads.get(key)
        if read is None or trio.current_time() > read.until:
            async with self._subscribe(predicate, since) as stream:
                events = [event for _ in range(stream.recalled) if (event := await stream.next())]
                until = trio.current_time() + REMEMBERED_S
                parts = BoundedDict[PastPart, list[Event]](PART_COUNT_MAX)
                read = self._reads[key] = _Read(events, stream.is_whole, until, parts)
        return read


def _is_in(event: Event, part: PastPart) -> bool:
    if event.created is None or time_us(event.created) >= part.until_us:
        return False
    return zlib.crc32(event.id.encode()) % part.of == part.number
