"""Parts of a topic between two sets of heads, for programs that read a topic in batches.

Heads are events, by content id, with their heights. The range between two sets of heads has the
second heads and all their ancestors, without the first heads and their ancestors. Content ids
determine it, so it is the same at all times and on all nodes, also if the topic forks.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from smartpubsub.node.api.topic_events import must_be_topic
from smartpubsub.node.engine import Engine
from smartpubsub.protocols.blocks import Cid
from smartpubsub.protocols.pulsarcast.events import TopicEvent
from smartpubsub.protocols.pulsarcast.history import Wanted
from smartpubsub.protocols.pulsarcast.log import events_beyond
from smartpubsub.protocols.pulsarcast.results import HistoryRead
from smartpubsub.protocols.runtime.bounded import BoundedDict

Heads: TypeAlias = dict[Cid, int]
"""Content ids of events, and their heights."""
ReadHistory: TypeAlias = Callable[[Cid, Wanted], Awaitable[HistoryRead]]

PAGE_BYTES = 2 << 20
RANGE_COUNT_MAX = 8
"""How many ranges are remembered, since readers read them page by page."""
GATHERED_COUNT_MAX = 2
"""How many histories of topics are remembered that the node itself does not keep."""


class RangeEnd(NamedTuple):
    """Where a range ends."""

    topic_id: Cid
    """The meta topic, which all versions of a topic share."""
    heads: Heads
    event_count: int
    """The number of events in the range, or a few more."""


class TopicPage(NamedTuple):
    """Some events of a range."""

    blocks: list[bytes]
    event_count: int
    """The number of events in the whole range."""
    lost: tuple[Cid, ...]
    """Events of the range that the network no longer has."""


@dataclass(frozen=True)
class _Known:
    """The events of a topic that can be read now."""

    topic_id: Cid
    events: Mapping[Cid, TopicEvent]
    heads: Heads
    pruned: Container[Cid]
    """Events that retention has removed."""


@dataclass(frozen=True)
class _Range:
    events: list[TopicEvent]
    lost: tuple[Cid, ...]


class TopicRanges:
    """Reads ranges of topics, from the node's own storage if it has the whole topic."""

    def __init__(self, engine: Engine, read_history: ReadHistory) -> None:
        self._engine = engine
        self._read_history = read_history
        self._gathered: BoundedDict[Cid, _Known] = BoundedDict(GATHERED_COUNT_MAX)
        self._ranges: BoundedDict[tuple[object, ...], _Range] = BoundedDict(RANGE_COUNT_MAX)

    async def end(
        self,
        topic: Cid,
        after: Heads,
        until: Heads | None = None,
        *,
        count_max: int | None = None,
        before_us: int | None = None,
    ) -> RangeEnd:
        """Find the heads of a part of the range between two sets of heads; `until` is now if None.

        The part has at most `count_max` events, or only events from before a time that link to no
        later ones.
        """
        known = await self._known(topic, until or {})
        if count_max == 0:
            return RangeEnd(known.topic_id, after, 0)
        if not after and until is None and count_max is None and before_us is None:
            return RangeEnd(known.topic_id, known.heads, len(known.events))
        taken, count, later = list[TopicEvent](), 0, set[Cid]()
        wanted = known.heads if until is None else until
        for event in events_beyond(known.events, wanted, after):
            if count == count_max:
                break
            if before_us is not None and (
                event.draft.created_us >= before_us or not later.isdisjoint(event.parents)
            ):
                later.add(event.cid)
                continue
            taken.append(event)
            count += not event.draft.is_announcement
        heads = {**after, **{event.cid: event.height for event in taken}}
        for event in taken:
            for parent in event.parents:
                heads.pop(parent, None)
        return RangeEnd(known.topic_id, heads, count)

    async def page(
        self, topic: Cid, after: Heads, until: Heads, first: int, count_max: int | None
    ) -> TopicPage:
        """Read the blocks of a range in its order, from a number on, up to a page."""
        key = (topic, frozenset(after), frozenset(until))
        found = self._ranges.get(key)
        if found is None:
            found = _range(await self._known(topic, until), after, until)
            if not found.lost:
                self._ranges[key] = found
        blocks, size = list[bytes](), 0
        last = None if count_max is None else first + count_max
        for event in found.events[first:last]:
            blocks.append(event.block)
            size += len(event.block)
            if size >= PAGE_BYTES:
                break
        return TopicPage(blocks, len(found.events), found.lost)

    async def proof(self, topic: Cid) -> list[bytes]:
        """The blocks that the events of a topic are verified with.

        They are the descriptors of the topic and its meta topic, and the events that announce them.
        """
        known = await self._known(topic, {})
        replica = self._engine.pulsar.replicas.of_version(topic)
        if replica is None:  # The node has just left the tree.
            return []
        versions = sorted(replica.versions.values(), key=lambda version: version.version)
        descriptors = dict.fromkeys([replica.meta.block, *(each.block for each in versions)])
        events = (event for event in known.events.values() if event.draft.is_announcement)
        return [*descriptors, *(event.block for event in events)]

    async def _known(self, topic: Cid, until: Heads) -> _Known:
        """The topic's events: those of the node if it has all, or those of the keepers."""
        replicas = self._engine.pulsar.replicas
        must_be_topic(topic, replicas)
        replica = replicas.of_version(topic)
        if replica is not None and replica.log.has_all:
            log = replica.log
            if all(cid in log for cid in until):
                heads = {cid: height for cid, height in log.heads.items() if cid in log}
                return _Known(replica.id, log.events, heads, log.pruned)
        gathered = self._gathered.get(topic)
        if gathered is not None and until and all(cid in gathered.events for cid in until):
            return gathered
        read = await self._read_history(topic, Wanted())
        assert read.topic is not None
        linked = {cid for event in read.events for cid in event.parents}
        heads = {event.cid: event.height for event in read.events if event.cid not in linked}
        events = {event.cid: event for event in read.events}
        known = _Known(read.topic.stable_id, events, heads, frozenset(read.let_go))
        self._gathered[topic] = known
        return known


def _range(known: _Known, after: Heads, until: Heads) -> _Range:
    found = events_beyond(known.events, until, after)
    had = {cid for head in after if head in known.events for cid in known.events[head].parents}
    lost = {cid: None for cid in until if cid not in known.events and cid not in after}
    for event in found:
        for cid in event.parents:
            if cid not in known.events and cid not in after and cid not in had:
                lost[cid] = None
    if not after:  # Events that retention removed before the first range are no loss.
        lost = {cid: None for cid in lost if cid not in known.pruned}
    return _Range([e for e in found if not e.draft.is_announcement], tuple(lost))
