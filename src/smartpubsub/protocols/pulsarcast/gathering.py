"""A part of a topic's history as it is put together from what several nodes have of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from smartpubsub.protocols.blocks import Cid
from smartpubsub.protocols.pulsarcast.events import Place, TopicEvent
from smartpubsub.protocols.pulsarcast.gaps import Picture, look


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Which part of a topic's history; all of it if nothing is said."""

    since: Cid | None = None
    """What stands after this event."""
    since_us: int = 0
    last: int = 0
    """The newest so many; 0 for any number."""


class Gathering:
    """What was got so far, and what of it is missing."""

    def __init__(self, wanted: Wanted, skew_us_max: int) -> None:
        self._wanted = wanted
        self._skew_us = skew_us_max
        self.after: Place | None = None
        """Where the event stands since which it is wanted, when that is known."""
        self.events: dict[Cid, TopicEvent] = {}
        self.heads: dict[Cid, int] = {}
        """What somebody says to be the newest, and how high that stands."""
        self.gone: dict[Cid, None] = {}
        """What somebody says to have let go."""
        self._ordered: list[TopicEvent] = []
        self._seen: tuple[object, ...] = ()
        """What the picture was made of; nothing of it ever becomes less."""
        self._picture = Picture((), (), ())

    def add(self, events: Iterable[TopicEvent]) -> int:
        """Take events that were checked; how many are new."""
        before = len(self.events)
        self.events |= {event.cid: event for event in events}
        return len(self.events) - before

    def add_own(self, own: Mapping[Cid, TopicEvent]) -> None:
        """Take what is missing and is among these."""
        lowest = self._lowest()
        found = [own[cid] for cid in self.picture().missing if cid in own]
        for event in found:  # Which grows.
            self.events[event.cid] = event
            if self._is_wanted_below(event, lowest):
                below = (own.get(cid) for cid in event.parents if cid not in self.events)
                found.extend(one for one in below if one is not None)

    def picture(self) -> Picture:
        """What is missing of what is wanted."""
        seen = (len(self.events), len(self.heads), len(self.gone), self.after)
        if seen != self._seen:
            self._seen, self._picture = seen, self._looked()
        return self._picture

    def _looked(self) -> Picture:
        lowest = self._lowest()
        since = None if self.after is None else self.after[1]
        found = look(
            self._in_order(),
            (cid for cid, height in self.heads.items() if height >= lowest),
            self.gone,
            lambda event: self._is_wanted_below(event, lowest),
        )
        if since is None:
            return found
        # It is known, and need not be here.
        missing = tuple(cid for cid in found.missing if cid != since)
        return found._replace(missing=missing, whole=(*found.whole, since))

    def told(self) -> tuple[TopicEvent, ...]:
        """What was got of what is wanted, in order."""
        wanted, events = self._wanted, self._in_order()
        if wanted.last:
            return tuple([e for e in events if not e.draft.is_announcement][-wanted.last :])
        if self.after is not None:
            return tuple(event for event in events if event.place > self.after)
        return tuple(event for event in events if event.draft.created_us >= wanted.since_us)

    @property
    def floor_us(self) -> int:
        """From when on events are wanted, by whatever clock."""
        return max(0, self._wanted.since_us - self._skew_us)

    def since_us(self) -> int:
        """From when on what lies below something that is missing is wanted as well."""
        oldest = self._oldest_of_last()
        if oldest is None:
            return self.floor_us
        return max(0, oldest.draft.created_us - self._skew_us)

    def _in_order(self) -> list[TopicEvent]:
        if len(self._ordered) != len(self.events):
            self._ordered = sorted(self.events.values(), key=lambda event: event.place)
        return self._ordered

    def _oldest_of_last(self) -> TopicEvent | None:
        """The first of the newest so many, if there are as many."""
        newest = self.told() if self._wanted.last else ()
        return newest[0] if newest and len(newest) == self._wanted.last else None

    def _lowest(self) -> int:
        """How high at least something stands that is wanted."""
        oldest = self._oldest_of_last()
        if oldest is not None:
            return oldest.height
        return 0 if self.after is None else self.after[0]

    def _is_wanted_below(self, event: TopicEvent, lowest: int) -> bool:
        """Whether what an event links to may be wanted."""
        # Clocks differ: what is older may link to what says that it is newer.
        return event.draft.created_us >= self.floor_us and event.height > lowest
