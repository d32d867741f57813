"""The events of a topic on one node: a DAG of links, and a total order that agrees with it.

Events are ordered by height, and those of one height by content id. An event is higher than all
events it links to, so every node that has the same events has them in the same order, and a reader
can read forks as one sequence.

The height of an event follows from its parents. While a parent is unknown, the event is parked: it
is in the log, but it is no head, and does not count as a successor of its parents. So no publisher
links to an event with an invented height.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from smartpubsub.protocols.blocks import Cid
from smartpubsub.protocols.publication import EventId
from smartpubsub.protocols.pulsarcast.events import Place, TopicEvent
from smartpubsub.protocols.pulsarcast.fields import Reason, RefusalError
from smartpubsub.protocols.pulsarcast.messages import Head
from smartpubsub.protocols.pulsarcast.settings import Retention

ALWAYS = -(1 << 62)
GAP_MAX = 1 << 20
"""How far above all known events an event can be if events between them are lost."""
PRUNED_MAX = 128
"""How many content ids of pruned events a log remembers, since retained events may link to them."""


class Gaps(NamedTuple):
    """The events that are missing from a sequence, according to their links."""

    missing: tuple[Cid, ...]
    """Absent events that others link to, or that are reported as heads."""
    pruned: tuple[Cid, ...]
    """Absent events that a node reports as pruned, so that fetching them is useless."""
    whole: tuple[Cid, ...]
    """The highest events below which nothing is missing."""


def gaps_in(
    events: Sequence[TopicEvent],
    heads: Iterable[Cid],
    pruned: Container[Cid],
    needs_parents: Callable[[TopicEvent], bool],
) -> Gaps:
    """Find the gaps in events that are in order; `needs_parents` selects whose parents count."""
    present = {event.cid for event in events}
    absent: dict[Cid, None] = {}
    lacking: set[Cid] = set()
    whole: dict[Cid, None] = {}
    for event in events:
        is_whole = True
        if needs_parents(event):
            for cid in event.parents:
                if cid not in present:
                    absent[cid] = None
                    is_whole = is_whole and cid in pruned
                elif cid in lacking:
                    is_whole = False
        if is_whole:
            whole[event.cid] = None
            for cid in event.parents:
                whole.pop(cid, None)
        else:
            lacking.add(event.cid)
    absent |= {cid: None for cid in heads if cid not in present}
    missing = tuple(cid for cid in absent if cid not in pruned)
    return Gaps(missing, tuple(cid for cid in absent if cid in pruned), tuple(whole))


class Log:
    """The events of one topic and its meta topic."""

    def __init__(self) -> None:
        self.events: dict[Cid, TopicEvent] = {}
        self.heads: dict[Cid, int] = {}
        """Events without a known successor, and their heights; the log may lack some of them.

        Parked events are not heads, and do not count as successors.
        """
        self.parked: dict[Cid, None] = {}
        """Events of the log whose heights do not follow from their parents, or not yet."""
        self._parked_above: dict[Cid, list[TopicEvent]] = {}
        """The parked events that wait for each unknown or parked parent."""
        self._highest = 0
        """The greatest height of all events that were not parked."""
        self._start = 0
        """The greatest height of the heads that this node began with."""
        self.before: dict[Cid, None] = {}
        """Absent events that count as known, because this node joined after them."""
        self.missing: dict[Cid, None] = {}
        """Absent events that others link to, and that this node needs."""
        self.whole: dict[Cid, int] = {}
        """The highest events below which nothing is missing, and their heights."""
        self.floor_us = ALWAYS
        """This node does not need the parents of events that were created before this time."""
        self.horizon: Place = (0, b"")
        """The place up to which events were pruned."""
        self.pruned: dict[Cid, None] = {}
        """The events that this node pruned last, and those that other nodes report as pruned."""
        self.bytes = 0
        self.is_settled = False
        """Whether it is decided from which event on this node needs all events."""
        self.has_all = False
        """Whether the log has all events from the first on, except pruned ones."""
        self.is_pinned = False
        """Whether retention does not apply."""
        self._links: dict[Cid, int] = {}
        """By event, in the log or not: how many events that are not parked link to it."""
        self._ids: dict[EventId, Cid] = {}
        self._order: list[Place] = []
        self._lacks: dict[Cid, int] = {}
        """Incomplete events, and how many of their parents are missing or incomplete."""
        self._above: dict[Cid, list[TopicEvent]] = {}
        """For each missing or incomplete event, the incomplete events that wait for it."""
        self._passed: dict[Cid, None] = {}
        """Incomplete events that came before this node knew the heads that it begins with, and that
        are not above these heads: later events do not wait for them."""
        self._checked: tuple[object, ...] = ()
        """The state that `check` has last found valid."""

    def __len__(self) -> int:
        return len(self.events)

    def __contains__(self, cid: Cid) -> bool:
        return cid in self.events

    def knows(self, cid: Cid) -> bool:
        """Whether the log has an event, or does not need it."""
        return cid in self.events or cid in self.before

    def with_id(self, id: EventId) -> TopicEvent | None:
        """Return the event with an author's id."""
        cid = self._ids.get(id)
        return None if cid is None else self.events[cid]

    # --- settling and completeness ---

    def settle(self, *, has_all: bool = False) -> None:
        """Need every event from now on; a topic's author has all of them from the start."""
        self.is_settled = True
        self.has_all = self.has_all or has_all
        self._unpark([self.events[cid] for cid in self.parked])

    def start_at(self, heads: Iterable[tuple[Cid, int]], floor_us: int) -> None:
        """Settle: all events up to these heads were published before this node joined."""
        self.is_settled = True
        self._start_at(heads, floor_us)
        self._unpark([self.events[cid] for cid in self.parked])

    def _start_at(self, heads: Iterable[tuple[Cid, int]], floor_us: int) -> None:
        self.floor_us = floor_us
        for cid, height in heads:
            if cid not in self.events:
                self.before[cid] = None
                self.whole[cid] = height
                self._highest = max(self._highest, height)
                self._start = max(self._start, height)
                if cid not in self._links:
                    self.heads[cid] = height
        incomplete = [self.events[cid] for cid in self._lacks if cid in self.events]
        self._passed |= {one.cid: None for one in incomplete if one.height <= self._start}

    def set_floor(self, floor_us: int) -> None:
        """Until the log is settled, do not need the parents of events from before a time."""
        if not self.is_settled:
            self.floor_us = floor_us

    def pin(self, is_pinned: bool) -> None:
        """Set whether the log is exempt from retention."""
        self.is_pinned = is_pinned

    def note_complete(self) -> None:
        """Note that the log has all events, except pruned ones."""
        self.has_all = True

    def note_loss(self) -> None:
        """Note that an event could not be fetched from any node."""
        self.has_all = False

    def audit(self) -> None:
        """Compute again whether the log has all events, after losses or arrivals."""
        self.has_all = (self.has_all or bool(self.events)) and not self.gaps().missing

    def gaps(self) -> Gaps:
        """Return the gaps in the whole history."""
        return gaps_in(self.after(None), self.heads, self.pruned, lambda _: True)

    # --- persistence ---

    def record(self) -> dict[str, Any]:
        """Return the state to store besides the events."""
        return {
            "before": list(self.before),
            "heads": [[cid, height] for cid, height in self.heads.items()],
            "floor": self.floor_us,
            "horizon": list(self.horizon),
            "highest": self._highest,
            "gone": list(self.pruned),
            "new": not self.is_settled,
            "all": self.has_all,
            "pinned": self.is_pinned,
        }

    def restore(self, record: Mapping[str, Any]) -> None:
        """Restore the state that `record` returned, before the events are added."""
        before = dict.fromkeys(record["before"])
        heads = [(cid, height) for cid, height in record["heads"] if cid in before]
        self._start_at(heads, record["floor"])
        self.before |= before
        self._highest = max(self._highest, record.get("highest", 0))
        self.horizon = tuple(record["horizon"])
        self.note_pruned(record.get("gone", ()))
        self.is_settled, self.has_all = not record["new"], record["all"]
        self.is_pinned = record["pinned"]

    # --- adding and removing events ---

    def must_fit(self, event: TopicEvent) -> None:
        """Refuse an event that contradicts the events of the log."""
        if event.place <= self.horizon:
            raise RefusalError(Reason.REPLAYED, "an event from before all retained events")
        highest, known = 0, True
        for cid in event.parents:
            parent = self.events.get(cid)
            height = self.heads.get(cid) if parent is None else parent.height
            if height is None:
                known = False
            elif height > highest:
                highest = height
        if event.height <= highest or (known and event.height != highest + 1):
            raise RefusalError(Reason.CYCLIC, "an event that is not one higher than its parents")
        if self.is_settled and event.height > self._highest + GAP_MAX:
            raise RefusalError(Reason.CYCLIC, "an event that is far higher than all others")

    def add(self, event: TopicEvent, *, is_chained: bool = False) -> list[TopicEvent]:
        """Add a new event that was checked.

        Return the events below which nothing is missing any more, parents first. In a chained topic
        this leaves out an event that is late: its successors did not wait for it, because this node
        joined after it or had given it up. The parents of a late event are late too, so the log
        does not need them.
        """
        cid = event.cid
        is_passed = event.height <= self._start or cid in self._links
        is_late = is_chained and is_passed and cid not in self.missing
        self.events[cid] = event
        self.before.pop(cid, None)
        self.missing.pop(cid, None)
        for parent in event.parents:
            is_known = self.knows(parent) or parent in self.heads
            if not is_known and not is_late and self._needs_parents(event):
                self.missing[parent] = None
        self.parked[cid] = None
        if cid in self.heads or cid in self._links:
            self._link_expected(event)
        self._unpark([event])
        self._ids.setdefault(event.id, cid)
        if self._order and event.place < self._order[-1]:
            insort(self._order, event.place)
        else:
            self._order.append(event.place)
        self.bytes += len(event.block)
        if is_late:
            return []
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

    # --- heights ---

    def _unpark(self, events: Iterable[TopicEvent]) -> None:
        """Link parked events whose heights follow from their parents, and then those above them."""
        waiting = list(events)
        for event in waiting:
            if event.cid not in self.parked:
                continue
            unknown = [p for p in event.parents if p in self.missing or p in self.parked]
            for parent in unknown:
                above = self._parked_above.setdefault(parent, [])
                if event not in above:
                    above.append(event)
            if not unknown and self._follows(event):
                del self.parked[event.cid]
                self._link(event)
                waiting += self._parked_above.pop(event.cid, ())

    def _link_expected(self, event: TopicEvent) -> None:
        """Link an event that is a head or linked to already, and all parked events below it.

        Its content id was known before it arrived, and covers the events below. A peer that has
        reported it as a head also reported its height. If any height is wrong, it stays parked.
        """
        below = [event]
        for found in below:
            parked = [self.events[cid] for cid in found.parents if cid in self.parked]
            below += [parent for parent in parked if parent not in below]
        if self.heads.pop(event.cid, event.height) != event.height or not all(
            map(self._fits, below)
        ):
            return
        for found in below:
            del self.parked[found.cid]
            self._stop_waiting(found)
            self._link(found)
        for found in below:
            self._unpark(self._parked_above.pop(found.cid, ()))

    def _stop_waiting(self, event: TopicEvent) -> None:
        """Forget that a parked event waits for its parents."""
        for parent in event.parents:
            above = [e for e in self._parked_above.pop(parent, ()) if e is not event]
            if above:
                self._parked_above[parent] = above

    def _fits(self, event: TopicEvent) -> bool:
        """Whether an event's height contradicts no known height of its parents."""
        heights = [self.events[cid].height for cid in event.parents if cid in self.events]
        highest = max(heights, default=0)
        is_known = len(heights) == len(event.parents)
        return event.height == highest + 1 if is_known else event.height > highest

    def _follows(self, event: TopicEvent) -> bool:
        """Whether an event's height follows from the known heights of its parents."""
        heights = [
            self.events[cid].height if cid in self.events else self.heads.get(cid)
            for cid in event.parents
        ]
        known = [height for height in heights if height is not None]
        highest = max(known, default=0)
        if len(known) == len(heights):
            return event.height == highest + 1
        # A parent came before this node joined, was pruned, or is lost everywhere.
        highest_possible = max(self._highest, self.horizon[0]) + GAP_MAX
        return self.is_settled and highest < event.height <= highest_possible

    def _link(self, event: TopicEvent) -> None:
        """Count an event as a successor of its parents, and as a head if it has no successor."""
        self._highest = max(self._highest, event.height)
        for parent in event.parents:
            self._links[parent] = self._links.get(parent, 0) + 1
            self.heads.pop(parent, None)
        if event.cid not in self._links:
            self.heads[event.cid] = event.height

    def _unlink(self, event: TopicEvent) -> None:
        """Undo the links of an event that is pruned."""
        if event.cid in self.parked:
            del self.parked[event.cid]
            self._stop_waiting(event)
            self._unpark(self._parked_above.pop(event.cid, ()))
            return
        for parent in event.parents:
            self._links[parent] -= 1
            if not self._links[parent]:
                del self._links[parent]
        if event.cid in self.heads:
            self.before[event.cid] = None

    # --- completeness ---

    def _make_whole(self, event: TopicEvent) -> None:
        self.whole[event.cid] = event.height
        for parent in event.parents:
            self.whole.pop(parent, None)

    def _settle(self, cid: Cid) -> list[TopicEvent]:
        """Return the events that become whole when nothing is missing at and below an event.

        This leaves out events that later events have passed.
        """
        made_whole: list[TopicEvent] = []
        settled = [cid]
        for cid in settled:
            for event in self._above.pop(cid, ()):
                self._lacks[event.cid] -= 1
                if not self._lacks[event.cid]:
                    del self._lacks[event.cid]
                    self._make_whole(event)
                    settled.append(event.cid)
                    if event.cid in self._passed:
                        del self._passed[event.cid]
                    else:
                        made_whole.append(event)
        return made_whole

    def _needs_parents(self, event: TopicEvent) -> bool:
        """Whether this node needs the parents of an event, and has not pruned them."""
        return event.draft.created_us >= self.floor_us and event.height > self.horizon[0] + 1

    def give_up(self, cid: Cid) -> list[TopicEvent]:
        """Stop waiting for a missing event.

        Return the events below which nothing else is missing, parents first.
        """
        if cid in self.events:
            return []
        self.missing.pop(cid, None)
        self.before[cid] = None
        self._unpark(self._parked_above.pop(cid, ()))
        return self._settle(cid)

    def prune(self, retention: Retention, now: int) -> list[TopicEvent]:
        """Remove and return the oldest events, as far as retention demands."""
        gone = []
        while self._order and self._exceeds(retention, now):
            self.horizon = self._order.pop(0)
            event = self.events.pop(self.horizon[1])
            gone.append(event)
            if self._ids.get(event.id) == event.cid:
                del self._ids[event.id]
            self.bytes -= len(event.block)
            self._unlink(event)
        self.note_pruned(event.cid for event in gone[-PRUNED_MAX:])
        return gone

    def note_pruned(self, cids: Iterable[Cid]) -> None:
        """Remember that this node or another one has pruned events."""
        self.pruned |= dict.fromkeys(cids)
        while len(self.pruned) > PRUNED_MAX:
            del self.pruned[next(iter(self.pruned))]

    def is_too_large(self, retention: Retention) -> bool:
        """Whether there are more events, or more bytes, than retention allows."""
        is_long = len(self.events) > retention.event_count_max
        return is_long or self.bytes > retention.byte_count_max

    def _exceeds(self, retention: Retention, now: int) -> bool:
        if self.is_too_large(retention):
            return True
        age = retention.age_us_max
        return age is not None and now - self.events[self._order[0][1]].draft.created_us > age

    # --- reading ---

    def newest_heads(self, count_max: int) -> tuple[Head, ...]:
        """Return the heads that became known last, up to a number."""
        heads = [Head(cid, height) for cid, height in self.heads.items()]
        return tuple(heads[-count_max:])

    def newest_tips(self, count_max: int) -> tuple[Head, ...]:
        """Return the newest heads and, if there is room, parked events without a successor.

        A peer that compares these with its own log finds all events that it lacks. Of parked
        events the heights may be invented, so no log starts at them. They come last: an adversary
        that invents parents does not displace heads.
        """
        heads = self.newest_heads(count_max)
        parked = [
            Head(cid, self.events[cid].height)
            for cid in self.parked
            if cid not in self._parked_above
        ]
        return (*heads, *parked[::-1][: count_max - len(heads)])

    def after(self, place: Place | None) -> list[TopicEvent]:
        """Return the events after a place, in order; all events if it is None."""
        first = 0 if place is None else bisect_right(self._order, place)
        return [self.events[cid] for _, cid in self._order[first:]]

    def newest(self, count: int) -> list[TopicEvent]:
        """Return the last `count` events, in order, without those that announce versions."""
        found: list[TopicEvent] = []
        for _, cid in reversed(self._order):
            if len(found) == count:
                break
            if not self.events[cid].draft.is_announcement:
                found.append(self.events[cid])
        return found[::-1]

    def beyond(self, wanted: Iterable[Cid], had: Iterable[Cid], since_us: int) -> list[TopicEvent]:
        """Return the events that a peer lacks, in order; see `events_beyond`."""
        return events_beyond(self.events, wanted, had, since_us)

    def check(self) -> None:
        """Assert that the indexes agree with the events, and heights with the links.

        Most inputs change no log, so a log that has not changed is not checked again. Each change
        to a log changes one of these values.
        """
        counts = (len(self.events), len(self.before), len(self.missing), len(self.parked))
        state = (*counts, len(self.pruned), self.is_settled, self._highest, self.horizon)
        if state == self._checked:
            return
        assert self._order == sorted(event.place for event in self.events.values())
        assert self.bytes == sum(len(event.block) for event in self.events.values())
        assert len(self.pruned) <= PRUNED_MAX
        assert self.events.keys().isdisjoint(self.missing)
        assert all(self.events[cid].id == id for id, cid in self._ids.items())
        assert self.parked.keys() <= self.events.keys()
        linked = [event for event in self.events.values() if event.cid not in self.parked]
        for event in linked:
            heights = [self.events[cid].height for cid in event.parents if cid in self.events]
            assert event.height > max(heights, default=0)
            assert self.parked.keys().isdisjoint(event.parents), "an event above a parked one"
            if len(heights) == len(event.parents):
                assert event.height == 1 + max(heights, default=0)
        links = Counter(cid for event in linked for cid in event.parents)
        assert self._links == links
        assert self.heads.keys().isdisjoint(links), "a head has no known successor"
        assert self.heads.keys().isdisjoint(self.parked), "a parked event is no head"
        for above in self._parked_above.values():
            assert all(event.cid in self.parked for event in above)
        for cid, height in self.heads.items():
            assert cid not in self.events or self.events[cid].height == height
        for cid, count in self._lacks.items():
            if cid in self.events:
                waiting = [parent for parent in self.events[cid].parents if parent in self._above]
                assert 0 < count <= len(waiting), "an event waits for parents that are not whole"
        self._checked = state


def events_beyond(
    events: Mapping[Cid, TopicEvent],
    wanted: Iterable[Cid],
    had: Iterable[Cid],
    since_us: int = ALWAYS,
) -> list[TopicEvent]:
    """Return `wanted` and all below, without `had` and all below, in order.

    Of events older than `since_us` return only those in `wanted`.
    """
    descent = _Descent(events)
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
    """Follows links downward, the highest event first.

    Parents are lower than their event. So when an event is next, all its successors have been
    visited, and it is known whether the peer has one of them and therefore the event.
    """

    def __init__(self, events: Mapping[Cid, TopicEvent]) -> None:
        self._events = events
        self._is_had: dict[Cid, bool] = {}
        self._heap: list[tuple[int, Cid]] = []
        self._open_count = 0

    def reach(self, cid: Cid, *, is_had: bool) -> None:
        """Visit an event from a successor, which the peer has or has not."""
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
        """Return the next event that the peer lacks, if there is one."""
        while self._open_count:
            event = self._events[heapq.heappop(self._heap)[1]]
            if not self._is_had[event.cid]:
                self._open_count -= 1
                return event
            for cid in event.parents:
                self.reach(cid, is_had=True)
        return None
