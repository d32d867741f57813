"""A topic's events as one node has them: a graph of links, and an order that links never oppose.

Events stand by height, and those of one height by name. An event is always higher than all it links
to, so this order is the same for everybody and agrees with every chain of links. It is how forks
are read as one sequence.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right, insort
from collections.abc import Iterable, Mapping

from smartpubsub.protocols.blocks import Cid
from smartpubsub.protocols.publication import EventId
from smartpubsub.protocols.pulsarcast.events import Place, TopicEvent
from smartpubsub.protocols.pulsarcast.refusals import Reason, RefusalError
from smartpubsub.protocols.pulsarcast.settings import Retention

ALWAYS = -(1 << 62)
GONE_MAX = 128
"""How many of those that were let go last are remembered, since what is kept may link to them."""


class Log:
    """The events of one topic and its meta topic."""

    def __init__(self) -> None:
        self.events: dict[Cid, TopicEvent] = {}
        self.heads: dict[Cid, int] = {}
        """What nothing is known to link to, each with its height; not all of it is here."""
        self.before: dict[Cid, None] = {}
        """What counts as known although it is not here: it came before this node's time."""
        self.missing: dict[Cid, None] = {}
        """What is linked to and not here, and should be."""
        self.whole: dict[Cid, int] = {}
        """The highest events below which nothing is missing."""
        self.floor_us = ALWAYS
        """Nothing is missed that an event from before this time links to."""
        self.horizon: Place = (0, b"")
        """Up to where events have been let go."""
        self.gone: dict[Cid, None] = {}
        """The last of them, and what others say to have let go."""
        self.bytes = 0
        self._ids: dict[EventId, Cid] = {}
        self._order: list[Place] = []
        self._lacks: dict[Cid, int] = {}
        """Events below which something is missing, and how many of those they link to lack it."""
        self._above: dict[Cid, list[TopicEvent]] = {}
        """Which of them link to what is missing, or lacks something itself."""

    def __len__(self) -> int:
        return len(self.events)

    def __contains__(self, cid: Cid) -> bool:
        return cid in self.events

    def knows(self, cid: Cid) -> bool:
        """Whether nothing has to be done to have an event."""
        return cid in self.events or cid in self.before

    def with_id(self, id: EventId) -> TopicEvent | None:
        """The event that its author gave this id."""
        cid = self._ids.get(id)
        return None if cid is None else self.events[cid]

    # --- coming and going ---

    def start_at(self, heads: Iterable[tuple[Cid, int]], floor_us: int) -> None:
        """Take it that everything up to these heads came before this node's time."""
        self.floor_us = floor_us
        for cid, height in heads:
            if cid not in self.events:
                self.before[cid] = None
                self.heads[cid] = self.whole[cid] = height

    def check(self, event: TopicEvent) -> None:
        """Refuse an event that does not fit to those that are here."""
        if event.place <= self.horizon:
            raise RefusalError(Reason.REPLAYED, "an event from before all that is kept")
        highest, known = 0, True
        for cid in event.parents:
            parent = self.events.get(cid)
            height = self.heads.get(cid) if parent is None else parent.height
            if height is None:
                known = False
            elif height > highest:
                highest = height
        if event.height <= highest or (known and event.height != highest + 1):
            raise RefusalError(Reason.CYCLIC, "an event that is not one higher than what it links")

    def add(self, event: TopicEvent) -> list[TopicEvent]:
        """Take an event that was checked and is not here.

        Gives the events below which nothing is missing any more, in the order of their links.
        """
        cid = event.cid
        self.events[cid] = event
        self.before.pop(cid, None)
        if cid in self.missing:
            del self.missing[cid]
        else:
            self.heads[cid] = event.height
        for parent in event.parents:
            if parent in self.heads:
                del self.heads[parent]
            elif not self.knows(parent) and self._should_have_below(event):
                self.missing[parent] = None
        self._ids.setdefault(event.id, cid)
        if self._order and event.place < self._order[-1]:
            insort(self._order, event.place)
        else:
            self._order.append(event.place)
        self.bytes += len(event.block)
        if not self.missing and not self._lacks:
            self._make_whole(event)
            return [event]
        lacking = [p for p in event.parents if p in self.missing or p in self._lacks]
        if not lacking:
            self._make_whole(event)
            return [event, *self._settle(cid)]
        self._lacks[cid] = len(lacking)
        for parent in lacking:
            self._above.setdefault(parent, []).append(event)
        return []

    def _make_whole(self, event: TopicEvent) -> None:
        self.whole[event.cid] = event.height
        for parent in event.parents:
            self.whole.pop(parent, None)

    def _settle(self, cid: Cid) -> list[TopicEvent]:
        """Nothing is missing any more at and below an event; what that makes whole, in order."""
        made_whole: list[TopicEvent] = []
        settled = [cid]
        for cid in settled:
            for event in self._above.pop(cid, ()):
                self._lacks[event.cid] -= 1
                if not self._lacks[event.cid]:
                    del self._lacks[event.cid]
                    self._make_whole(event)
                    made_whole.append(event)
                    settled.append(event.cid)
        return made_whole

    def _should_have_below(self, event: TopicEvent) -> bool:
        """Whether what an event links to is from this node's time, and not let go yet."""
        return event.draft.created_us >= self.floor_us and event.height > self.horizon[0] + 1

    def give_up(self, cid: Cid) -> list[TopicEvent]:
        """Take it that something that is missing cannot be had any more.

        Gives the events below which nothing else is missing, in the order of their links.
        """
        if cid in self.events:
            return []
        self.missing.pop(cid, None)
        self.before[cid] = None
        return self._settle(cid)

    def let_go(self, retention: Retention, now: int) -> list[TopicEvent]:
        """Forget the oldest events, as far as there are too many."""
        gone = []
        while self._order and self._is_too_much(retention, now):
            self.horizon = self._order.pop(0)
            event = self.events.pop(self.horizon[1])
            gone.append(event)
            if self._ids.get(event.id) == event.cid:
                del self._ids[event.id]
            self.bytes -= len(event.block)
            if event.cid in self.heads:
                self.before[event.cid] = None
        self.note_gone(event.cid for event in gone[-GONE_MAX:])
        return gone

    def note_gone(self, cids: Iterable[Cid]) -> None:
        """Remember that events were let go, here or by others who had them."""
        self.gone |= dict.fromkeys(cids)
        while len(self.gone) > GONE_MAX:
            del self.gone[next(iter(self.gone))]

    def is_too_large(self, retention: Retention) -> bool:
        """Whether there are more events, or longer ones, than are to be kept."""
        is_long = len(self.events) > retention.event_count_max
        return is_long or self.bytes > retention.byte_count_max

    def _is_too_much(self, retention: Retention, now: int) -> bool:
        if self.is_too_large(retention):
            return True
        age = retention.age_us_max
        return age is not None and now - self.events[self._order[0][1]].draft.created_us > age

    # --- reading ---

    def highest(self) -> int:
        """How high the highest event stands."""
        return max(self.heads.values(), default=0)

    def after(self, place: Place | None) -> list[TopicEvent]:
        """The events that stand after a place, in order; all if there is none."""
        first = 0 if place is None else bisect_right(self._order, place)
        return [self.events[cid] for _, cid in self._order[first:]]

    def newest(self, count: int) -> list[TopicEvent]:
        """The last so many events, in order, but for those that tell of versions."""
        found: list[TopicEvent] = []
        for _, cid in reversed(self._order):
            if len(found) == count:
                break
            if not self.events[cid].draft.is_announcement:
                found.append(self.events[cid])
        return found[::-1]

    def beyond(self, wanted: Iterable[Cid], had: Iterable[Cid], since_us: int) -> list[TopicEvent]:
        """What somebody lacks, in order: the wanted and all below, but for what it has and below.

        Of what is older than a time only the wanted itself.
        """
        descent = _Descent(self.events)
        tips = dict.fromkeys(wanted)
        for cid in had:
            descent.reach(cid, is_had=True)
        for cid in tips:
            descent.reach(cid, is_had=False)
        found = []
        while (event := descent.next()) is not None:
            is_recent = event.draft.created_us >= since_us
            if is_recent or event.cid in tips:
                found.append(event)
            if is_recent:
                for cid in event.parents:
                    descent.reach(cid, is_had=False)
        found.sort(key=lambda event: event.place)
        return found


class _Descent:
    """Goes down the links from the highest event on.

    What is linked to is always lower, so when it is an event's turn it is settled whether somebody
    who has something above it has it too.
    """

    def __init__(self, events: Mapping[Cid, TopicEvent]) -> None:
        self._events = events
        self._is_had: dict[Cid, bool] = {}
        self._heap: list[tuple[int, Cid]] = []
        self._open_count = 0

    def reach(self, cid: Cid, *, is_had: bool) -> None:
        """Come to an event from above."""
        event = self._events.get(cid)
        if event is None:
            return
        if cid not in self._is_had:
            self._is_had[cid] = is_had
            self._open_count += not is_had
            heapq.heappush(self._heap, (-event.height, cid))
        elif is_had and not self._is_had[cid]:
            self._is_had[cid] = True
            self._open_count -= 1

    def next(self) -> TopicEvent | None:
        """The next event that is lacking, if there may be one."""
        while self._open_count:
            event = self._events[heapq.heappop(self._heap)[1]]
            if not self._is_had[event.cid]:
                self._open_count -= 1
                return event
            for cid in event.parents:
                self.reach(cid, is_had=True)
        return None
