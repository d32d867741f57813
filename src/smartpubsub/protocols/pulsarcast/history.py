"""History: reading a part of a topic's events from its keepers and other nodes.

The reader reads one keeper page by page, in the topic's order, and asks the other keepers for their
heads. Links then show which events are missing. The reader fetches these from the other keepers,
from neighbours, and from more of the nodes closest to the topic. The result names the events that
no node has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

from smartpubsub.kademlia.queries import Found
from smartpubsub.kademlia.settings import SECOND
from smartpubsub.protocols.blocks import Cid
from smartpubsub.protocols.pulsarcast.component import Component
from smartpubsub.protocols.pulsarcast.descriptor_search import QUESTION_SEARCHES_MAX
from smartpubsub.protocols.pulsarcast.events import Place, TopicEvent
from smartpubsub.protocols.pulsarcast.fields import RefusalError
from smartpubsub.protocols.pulsarcast.keepers import Keepers
from smartpubsub.protocols.pulsarcast.log import Gaps, gaps_in
from smartpubsub.protocols.pulsarcast.membership import Membership
from smartpubsub.protocols.pulsarcast.messages import Fetch, Head, Page, Range
from smartpubsub.protocols.pulsarcast.pages import PageRequests
from smartpubsub.protocols.pulsarcast.replicas import (
    TopicReplica,
    TopicReplicas,
)
from smartpubsub.protocols.pulsarcast.results import HistoryRead
from smartpubsub.protocols.pulsarcast.settings import STAY_US
from smartpubsub.protocols.pulsarcast.versions import Versions
from smartpubsub.seam import Peer

RETRY_US = SECOND
"""How soon to look again when no source is known."""
TRIES_MAX = 10
SOURCES_MAX = 16
HISTORY_COUNT_MAX = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Which part of a topic's history is wanted; all of it by default."""

    since: Cid | None = None
    """Only events after this one in the topic's order."""
    since_us: int = 0
    last: int = 0
    """Only this many of the newest events; 0 for any number."""


class Gathering:
    """Events gathered from several nodes, and the gaps in them."""

    def __init__(self, wanted: Wanted, skew_us_max: int) -> None:
        self._wanted = wanted
        self._skew_us = skew_us_max
        self.after: Place | None = None
        """The place of the event `wanted.since`, when it is known."""
        self.events: dict[Cid, TopicEvent] = {}
        self.heads: dict[Cid, int] = {}
        """Heads that nodes have reported, and their heights."""
        self.pruned: dict[Cid, None] = {}
        """Events that nodes have reported as pruned."""
        self._ordered: list[TopicEvent] = []
        self._gaps_of: tuple[object, ...] = ()
        """The sizes from which `_gaps` was computed; none of them ever shrinks."""
        self._gaps = Gaps((), (), ())

    def add(self, events: Iterable[TopicEvent]) -> int:
        """Add events that were checked; return how many are new."""
        before = len(self.events)
        self.events |= {event.cid: event for event in events}
        return len(self.events) - before

    def add_own(self, own: Mapping[Cid, TopicEvent]) -> None:
        """Add the missing events that are among these."""
        lowest = self._lowest()
        found = [own[cid] for cid in self.gaps().missing if cid in own]
        for event in found:  # The list grows meanwhile.
            self.events[event.cid] = event
            if self._needs_parents(event, lowest):
                below = (own.get(cid) for cid in event.parents if cid not in self.events)
                found.extend(one for one in below if one is not None)

    def gaps(self) -> Gaps:
        """Return the gaps in the wanted events."""
        sizes = (len(self.events), len(self.heads), len(self.pruned), self.after)
        if sizes != self._gaps_of:
            self._gaps_of, self._gaps = sizes, self._find_gaps()
        return self._gaps

    def _find_gaps(self) -> Gaps:
        lowest = self._lowest()
        since = None if self.after is None else self.after[1]
        found = gaps_in(
            self._in_order(),
            (cid for cid, height in self.heads.items() if height >= lowest),
            self.pruned,
            lambda event: self._needs_parents(event, lowest),
        )
        if since is None:
            return found
        # The event `wanted.since` is known, and need not be gathered.
        missing = tuple(cid for cid in found.missing if cid != since)
        return found._replace(missing=missing, whole=(*found.whole, since))

    def result(self) -> tuple[TopicEvent, ...]:
        """Return the gathered events that are wanted, in order."""
        wanted, events = self._wanted, self._in_order()
        if wanted.last:
            return tuple([e for e in events if not e.draft.is_announcement][-wanted.last :])
        if self.after is not None:
            return tuple(event for event in events if event.place > self.after)
        return tuple(event for event in events if event.draft.created_us >= wanted.since_us)

    @property
    def floor_us(self) -> int:
        """The creation time from which on events are wanted, with a margin for clock skew."""
        return max(0, self._wanted.since_us - self._skew_us)

    def since_us(self) -> int:
        """Return the creation time from which on a fetch includes parents."""
        oldest = self._oldest_of_last()
        if oldest is None:
            return self.floor_us
        return max(0, oldest.draft.created_us - self._skew_us)

    def _in_order(self) -> list[TopicEvent]:
        if len(self._ordered) != len(self.events):
            self._ordered = sorted(self.events.values(), key=lambda event: event.place)
        return self._ordered

    def _oldest_of_last(self) -> TopicEvent | None:
        """Return the first of the newest `wanted.last` events, if there are as many."""
        newest = self.result() if self._wanted.last else ()
        return newest[0] if newest and len(newest) == self._wanted.last else None

    def _lowest(self) -> int:
        """Return the lowest height at which an event can be wanted."""
        oldest = self._oldest_of_last()
        if oldest is not None:
            return oldest.height
        return 0 if self.after is None else self.after[0]

    def _needs_parents(self, event: TopicEvent, lowest: int) -> bool:
        # Clocks differ: an older event may link to one with a later creation time.
        return event.draft.created_us >= self.floor_us and event.height > lowest


@dataclass(slots=True, eq=False)
class _HistoryRequest:
    """One read of a topic's history that is in progress."""

    replica: TopicReplica
    wanted: Wanted
    number: int
    gathering: Gathering
    is_placed: bool
    """Whether the place of `wanted.since` is known, if there is one."""
    tries: int = 0
    keepers: tuple[Peer, ...] = ()
    sources: list[Peer] = field(default_factory=list)
    """Peers that may have the history; the first is being asked."""
    has_widened: bool = False
    question: int = 0
    """The number of the open question to the first source; 0 if there is none."""
    polls: dict[int, None] = field(default_factory=dict)
    """The numbers of the open questions to keepers for their heads."""
    after: Place | None = None
    """The place up to which the first source was read."""
    is_filling: bool = False
    """Whether a source was read to the end, and gaps are being filled."""
    unaware: dict[Peer, None] = field(default_factory=dict)
    """Peers that do not have the event `wanted.since`."""
    answered: dict[Peer, None] = field(default_factory=dict)


@dataclass(eq=False)
class HistoryReader(Component):
    """Reads history for applications."""

    _replicas: TopicReplicas
    _membership: Membership
    _versions: Versions
    _keepers: Keepers
    _pages: PageRequests
    _requests: dict[int, _HistoryRequest] = field(init=False, default_factory=dict)

    def read(self, topic: Cid, wanted: Wanted, number: int) -> None:
        """Read history and deliver `HistoryRead` with the number."""
        then = partial(self._on_replica, wanted, number)
        self._replicas.with_replica(topic, then, searches_max=QUESTION_SEARCHES_MAX)

    def _on_replica(self, wanted: Wanted, number: int, replica: TopicReplica | None) -> None:
        if replica is None:
            self._outbox.deliver(HistoryRead(number, None, ()))
            return
        log = replica.log
        gathering = Gathering(wanted, self._settings.skew_us_max)
        gathering.heads |= log.heads
        # The result has events whose parents are lost too, with the gap below them.
        gathering.heads |= {cid: log.events[cid].height for cid in log.parked}
        gathering.pruned |= log.pruned
        since = None if wanted.since is None else log.events.get(wanted.since)
        is_placed = wanted.since is None or since is not None
        request = _HistoryRequest(replica, wanted, number, gathering, is_placed)
        if since is not None:
            gathering.after = request.after = since.place
        if log.has_all and is_placed:
            gathering.add(log.newest(wanted.last) if wanted.last else log.after(request.after))
            if not gathering.gaps().missing:
                self._deliver(request)
                return
        self._membership.stay(replica, STAY_US)
        self._requests[number] = request
        # The rules of the versions decide which events are valid.
        self._versions.when_settled(replica, partial(self._find_sources, request))

    # --- sources ---

    def _find_sources(self, request: _HistoryRequest) -> None:
        self._keepers.when_found(request.replica, partial(self._begin, request))

    def _begin(self, request: _HistoryRequest) -> None:
        if request.number not in self._requests:
            return
        keepers = self._keepers.peers(request.replica)
        request.keepers = tuple(self._others(keepers))
        neighbours = self._membership.neighbours(request.replica)
        request.sources = self._others([*request.keepers, *neighbours])[:SOURCES_MAX]
        if request.sources:
            self._poll(request)
            # Do not read events from others that this node has.
            (self._go_on if request.gathering.events else self._ask)(request)
        elif self._own in keepers:  # No other node is there.
            request.has_widened = True
            self._go_on(request)
        else:
            self._outbox.set_timer(("read", request.number), RETRY_US)

    def _poll(self, request: _HistoryRequest) -> None:
        """Ask all keepers for their heads."""
        for peer in request.keepers:
            question = Fetch(request.replica.id, 0, (), (), 0)
            then = partial(self._on_heads, request, peer)
            request.polls[self._pages.ask(peer, question, then)] = None

    def _widen(self, request: _HistoryRequest, found: Found) -> None:
        """Continue with more of the nodes closest to the topic, which may have been keepers."""
        if request.number not in self._requests:
            return
        neighbours = self._membership.neighbours(request.replica)
        known = (*request.keepers, *neighbours)
        more = self._others(c.peer for c in found.closest if c.peer not in known)
        request.sources = more[: 2 * self._settings.keepers]
        self._go_on(request)

    # --- asking ---

    def _ask(self, request: _HistoryRequest) -> None:
        """Ask the first source for the next events."""
        gathering, names_max = request.gathering, self._settings.names_max
        id, source = request.replica.id, request.sources[0]
        question: Fetch | Range
        if not request.is_placed and request.wanted.since is not None:
            # With the current time as the limit, the answer has only the wanted event.
            wanted: tuple[Cid, ...] = (request.wanted.since,)
            question = Fetch(id, 0, wanted, (), max(0, self._outbox.now))
        elif request.is_filling:
            gaps = gathering.gaps()
            wanted, had = gaps.missing[:names_max], gaps.whole[-names_max:]
            question = Fetch(id, 0, wanted, had, gathering.since_us())
        else:
            newest = 0 if gathering.events else request.wanted.last
            after = None if request.after is None else Head(request.after[1], request.after[0])
            question = Range(id, 0, after, gathering.floor_us, newest)
        then = partial(self._on_page, request, source)
        request.question = self._pages.ask(source, question, then)
        self._wait(request)

    def _wait(self, request: _HistoryRequest) -> None:
        wait_us = self._liveness.at_least(self._settings.fetch_us, 4)
        self._outbox.set_timer(("read", request.number), wait_us)

    def on_timer(self, number: int) -> None:
        """Continue without the peers that have not answered, or look for sources again."""
        request = self._requests.get(number)
        if request is None:
            return
        self._cancel_polls(request)
        if not request.sources and not request.is_filling:
            self._try_again(request)
        elif request.question:
            request.tries += not request.is_filling
            self._next(request)
        else:
            self._go_on(request)

    def _cancel_polls(self, request: _HistoryRequest) -> None:
        for number in request.polls:
            self._pages.cancel(number)
        request.polls.clear()

    def _try_again(self, request: _HistoryRequest) -> None:
        request.tries += 1
        if request.tries > TRIES_MAX:
            self._end(request, HistoryRead(request.number, None, ()))
        else:
            self._find_sources(request)

    def _next(self, request: _HistoryRequest) -> None:
        """Continue without the first source."""
        self._pages.cancel(request.question)
        request.question = 0
        del request.sources[0]
        if request.is_filling:
            self._go_on(request)
        elif request.sources:
            self._ask(request)
        elif not request.is_placed and request.unaware:
            self._end_unknown(request)
        elif request.is_placed and request.answered:
            self._go_on(request)
        else:
            self._try_again(request)

    def _go_on(self, request: _HistoryRequest) -> None:
        """Fill gaps, or end."""
        gathering = request.gathering
        if not request.is_placed:  # No other node could know where the history begins.
            self._end_unknown(request)
            return
        request.is_filling = True
        if request.polls:
            self._wait(request)
            return
        gathering.add_own(request.replica.log.events)
        # The announcement of the first version is an event, so every node that knows the topic
        # reports a head.
        is_whole = bool(gathering.heads) and not gathering.gaps().missing
        if is_whole or len(gathering.events) >= HISTORY_COUNT_MAX:
            self._deliver(request)
        elif request.sources:
            self._ask(request)
        elif not request.has_widened:
            request.has_widened = True
            self._overlay.find_closest(request.replica.id, partial(self._widen, request))
        elif gathering.heads:
            self._deliver(request)
        else:
            self._end(request, HistoryRead(request.number, None, ()))

    # --- answers ---

    def _on_heads(self, request: _HistoryRequest, peer: Peer, page: Page) -> None:
        """Take the answer of a polled keeper."""
        self._note_answer(request, peer, page)
        del request.polls[page.number]
        if request.is_filling and not request.polls and not request.question:
            self._outbox.cancel_timer(("read", request.number))
            self._go_on(request)

    def _note_answer(self, request: _HistoryRequest, peer: Peer, page: Page) -> None:
        request.answered[peer] = None
        request.gathering.heads |= dict(page.heads)
        request.gathering.pruned |= dict.fromkeys(page.gone)

    def _on_page(self, request: _HistoryRequest, peer: Peer, page: Page) -> None:
        """Take the answer of the first source."""
        self._note_answer(request, peer, page)
        self._outbox.cancel_timer(("read", request.number))
        events = self._permissions.read_events(page.blocks)
        then = partial(self._take, request, page, events)
        self._replicas.have_versions_of(request.replica, events, peer, then)

    def _take(self, request: _HistoryRequest, page: Page, events: list[TopicEvent]) -> None:
        if request.number not in self._requests:
            return
        request.question = 0
        valid = [event for event in events if self._is_valid(request.replica, event)]
        if not request.is_placed:
            self._take_since(request, valid)
            return
        new = request.gathering.add(valid)
        if request.is_filling:
            if new:
                self._go_on(request)
            else:
                self._next(request)
        elif not page.blocks and not page.heads and len(request.sources) > 1:
            self._next(request)  # This source does not know the topic.
        elif page.has_more and new and len(request.gathering.events) < HISTORY_COUNT_MAX:
            request.after = valid[-1].place
            self._ask(request)
        else:
            self._go_on(request)

    def _take_since(self, request: _HistoryRequest, valid: list[TopicEvent]) -> None:
        since = next((event for event in valid if event.cid == request.wanted.since), None)
        if since is None:
            request.unaware[request.sources[0]] = None
            self._next(request)
            return
        request.is_placed = True
        request.gathering.after = request.after = since.place
        self._ask(request)

    def _is_valid(self, replica: TopicReplica, event: TopicEvent) -> bool:
        topic = replica.versions.get(event.topic)
        if topic is None:  # Its rules are not known.
            self._outbox.reject("incomplete")
            return False
        try:
            self._permissions.check_event(event, topic, None)
        except RefusalError as error:
            self._permissions.refuse(error)
            return False
        return True

    # --- results ---

    def _deliver(self, request: _HistoryRequest) -> None:
        gaps = request.gathering.gaps()
        result = HistoryRead(
            request.number,
            request.replica.topic,
            request.gathering.result(),
            missing=gaps.missing,
            let_go=gaps.pruned,
            silent=sum(peer not in request.answered for peer in request.keepers),
        )
        self._end(request, result)

    def _end_unknown(self, request: _HistoryRequest) -> None:
        topic = request.replica.topic
        self._end(request, HistoryRead(request.number, topic, (), is_since_known=False))

    def _end(self, request: _HistoryRequest, result: HistoryRead) -> None:
        self._requests.pop(request.number, None)
        self._pages.cancel(request.question)
        self._cancel_polls(request)
        self._outbox.cancel_timer(("read", request.number))
        self._outbox.deliver(result)

    def check(self) -> None:
        """Assert that every open question has a source."""
        for request in self._requests.values():
            assert not request.question or request.sources
