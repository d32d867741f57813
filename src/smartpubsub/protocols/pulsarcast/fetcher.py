"""Fetching of events: missed ones, older history, and parents of new events.

Links, and the heads that neighbours report, show which events are missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from smartpubsub.kademlia.blame import DROPPED
from smartpubsub.kademlia.settings import MINUTE, SECOND
from smartpubsub.protocols.blocks import Cid
from smartpubsub.protocols.pulsarcast.component import Component
from smartpubsub.protocols.pulsarcast.dissemination import TopicDissemination
from smartpubsub.protocols.pulsarcast.events import TopicEvent, read_event
from smartpubsub.protocols.pulsarcast.fields import RefusalError
from smartpubsub.protocols.pulsarcast.keepers import Keepers
from smartpubsub.protocols.pulsarcast.membership import Membership
from smartpubsub.protocols.pulsarcast.messages import Fetch, Head, Page
from smartpubsub.protocols.pulsarcast.pages import PageRequests
from smartpubsub.protocols.pulsarcast.replicas import TopicReplica, TopicReplicas
from smartpubsub.seam import Peer

UNKNOWN_MAX = 10_000
NEWS_US = 50_000
"""How long to gather fetched events before telling neighbours of them."""
CHECK_US_MAX = 30 * SECOND
INFORMANTS_MAX = 8

BACKFILL_US = 30 * SECOND
BACKFILL_US_MAX = 10 * MINUTE
"""How long to wait, at first and at most, before asking all sources again for older history."""
BACKFILL_SOON_US = 3 * SECOND
"""How long to wait while the fetcher still fetches events that this node has missed."""

PARENTS_RETRY_US = SECOND
"""How soon to ask another peer for the parents of a new event."""
PARENTS_TIMEOUT_US = 20 * SECOND


@dataclass(slots=True, eq=False)
class _FetchState:
    """The events that this node has missed in one topic."""

    unknown: dict[Cid, tuple[Peer, int]] = field(default_factory=dict)
    """Missing events, each with a peer that knows of it, and since when."""
    request: int = 0
    """The number of the open question; 0 if there is none."""
    tries: int = 0
    check_is_set: bool = False


@dataclass(eq=False)
class Fetcher(Component):
    """Finds out which events this node has missed, and fetches them."""

    _replicas: TopicReplicas
    _membership: Membership
    _pages: PageRequests
    _dissemination: TopicDissemination
    _keepers: Keepers
    _states: dict[Cid, _FetchState] = field(init=False, default_factory=dict)
    lost: int = field(init=False, default=0)
    """How many linked events this node has given up, because no node has sent them."""

    def _state(self, replica: TopicReplica) -> _FetchState:
        state = self._states.get(replica.id)
        if state is None:
            state = _FetchState()
            if self._replicas.is_current(replica):
                self._states[replica.id] = state
        return state

    # --- noticing missing events ---

    def on_place(self, replica: TopicReplica, heads: Sequence[Head], peer: Peer | None) -> bool:
        """Start a new log at the parent's heads, and return True; else fetch missing events.

        This node has just taken a place below a peer, or as root if `peer` is None.
        """
        if not replica.log.is_settled:
            floor_us = self._outbox.now - self._settings.skew_us_max
            replica.log.start_at(heads, floor_us)
            self._replicas.store_state(replica)
            return True
        self._check_soon(replica, self._state(replica))
        if peer is not None:
            self.compare(replica, heads, peer)
            self._membership.send_beat(replica, peer, wants_answer=False)
        return False

    def restore(self, replica: TopicReplica) -> None:
        """Note the events that are missing after a restart."""
        state = self._state(replica)
        for cid in replica.log.missing:
            self._note(state, cid, b"")

    def compare(self, replica: TopicReplica, heads: Iterable[Head], peer: Peer) -> None:
        """Note the heads of a peer that this node does not have."""
        if not replica.log.is_settled:
            return
        state = self._state(replica)
        for head in heads:
            if not replica.log.knows(head.cid):
                self._note(state, head.cid, peer)
        self._check_soon(replica, state)

    def on_accepted(self, replica: TopicReplica, event: TopicEvent, peer: Peer | None) -> None:
        """Note that an event has arrived, and which of its parents are missing."""
        state = self._states.get(replica.id)
        if state is not None:
            state.unknown.pop(event.cid, None)
        if replica.log.missing:
            state = self._state(replica)
            for cid in event.parents:
                if cid in replica.log.missing:
                    self._note(state, cid, peer or b"")
            self._check_soon(replica, state)

    def _note(self, state: _FetchState, cid: Cid, peer: Peer) -> None:
        if len(state.unknown) < UNKNOWN_MAX:
            state.unknown.setdefault(cid, (peer, self._outbox.now))

    def _check_soon(self, replica: TopicReplica, state: _FetchState) -> None:
        if state.unknown and not state.check_is_set and not state.request:
            state.check_is_set = True
            self._outbox.set_timer(("check", replica.id), self._liveness.grace_us)

    def missed(self, replica: TopicReplica) -> set[Cid]:
        """Return all events that this node has missed since it joined."""
        return self._state(replica).unknown.keys() | replica.log.missing.keys()

    # --- fetching ---

    def on_check(self, replica: TopicReplica) -> None:
        """Ask for missing events that have not arrived meanwhile."""
        state = self._state(replica)
        state.check_is_set = False
        if not state.request:
            self._ask(replica, state)

    def _ask(self, replica: TopicReplica, state: _FetchState) -> None:
        log, names_max = replica.log, self._settings.names_max
        self._give_up_lost(replica, state)
        state.unknown = {c: about for c, about in state.unknown.items() if c not in log}
        if not state.unknown:
            state.tries = 0
            return
        peer = self._source(replica, state)
        if peer is None:
            self._ask_later(replica, state)
            return
        wanted = tuple(state.unknown)[:names_max]
        had = tuple(log.whole)[-names_max:]
        question = Fetch(replica.id, 0, wanted, had, max(0, log.floor_us))
        state.request = self._pages.ask(peer, question, partial(self._on_page, replica, peer))
        self._outbox.set_timer(("fetch", replica.id), self.timeout_us)

    @property
    def timeout_us(self) -> int:
        """How long to wait for a page."""
        return self._liveness.at_least(self._settings.fetch_us, 4)

    def _source(self, replica: TopicReplica, state: _FetchState) -> Peer | None:
        """Choose a peer, in turn: informants that know of the event, neighbours, keepers.

        All of these may hide the event, so the author is the last one.
        """
        informants = [peer for peer, _ in state.unknown.values() if peer]
        author = [replica.topic.author] if self._settings.has_audits else []
        every = self._others(
            [
                *informants[:1],
                *self._membership.neighbours(replica),
                *informants[:INFORMANTS_MAX],
                *self._keepers.peers(replica),
                *author,
            ]
        )
        sources = self._overlay.blame.least_first(every, self._outbox.now, lambda peer: peer)
        if state.tries >= len(sources) // 2:
            self._keepers.find(replica)
        return sources[state.tries % len(sources)] if sources else None

    def _ask_later(self, replica: TopicReplica, state: _FetchState) -> None:
        """Try the next source, with a delay that doubles with each try."""
        self._pages.cancel(state.request)
        state.request = 0
        state.tries += 1
        if not state.check_is_set:
            state.check_is_set = True
            delay_us = 2 ** min(state.tries, 8) * self._liveness.grace_us
            self._outbox.set_timer(("check", replica.id), min(delay_us, CHECK_US_MAX))

    def _give_up_lost(self, replica: TopicReplica, state: _FetchState) -> None:
        oldest_us = self._outbox.now - self._settings.lost_us
        for cid in [cid for cid, (_, since_us) in state.unknown.items() if since_us < oldest_us]:
            del state.unknown[cid]
            self.lost += 1
            replica.log.note_loss()
            self._dissemination.go_on_without(replica, cid)

    def on_fetch_timer(self, replica: TopicReplica) -> None:
        """Ask another peer, since the page has not arrived."""
        state = self._state(replica)
        if state.request:
            self._ask_later(replica, state)

    def _on_page(self, replica: TopicReplica, peer: Peer, page: Page) -> None:
        """Take a page, and ask for the next one or later."""
        state = self._state(replica)
        self._outbox.cancel_timer(("fetch", replica.id))
        state.request = 0
        for cid in page.covered:
            if state.unknown.pop(cid, None) is not None:
                self._dissemination.go_on_without(replica, cid)
        is_behind = self._is_parent_behind(replica, state)
        accepted = self.accept(replica, peer, page.blocks)
        if accepted and is_behind:
            self._blame_parent(replica)
        if accepted:
            state.tries = 0
            self._outbox.set_timer(("news", replica.id), NEWS_US)
        if page.has_more and accepted:
            self._ask(replica, state)
        elif state.unknown and accepted:
            self._check_soon(replica, state)
        elif state.unknown:
            self._ask_later(replica, state)

    def _is_parent_behind(self, replica: TopicReplica, state: _FetchState) -> bool:
        """Whether nodes outside the tree know of events that the parent has not brought."""
        parent, informants = self._membership.parent(replica), state.unknown.values()
        is_parent_informed = parent is not None and any(peer == parent for peer, _ in informants)
        outside = (peer for peer, _ in informants if peer)
        return not is_parent_informed and any(
            not self._membership.is_neighbour(replica, peer) for peer in outside
        )

    def _blame_parent(self, replica: TopicReplica) -> None:
        parent = self._membership.parent(replica)
        if parent is not None and self._settings.has_audits:
            self._overlay.blame.put(parent, DROPPED, self._outbox.now)
            self._membership.avoid_parent(replica)

    def accept(
        self,
        replica: TopicReplica,
        peer: Peer,
        blocks: Sequence[bytes],
        *,
        is_delivered: bool = True,
    ) -> int:
        """Accept the valid events of a page; return how many are new."""
        events = self._permissions.read_events(blocks)
        linked = {cid for event in events for cid in event.parents}
        log, accepted = replica.log, 0
        for event in events:
            if event.cid in log:
                continue
            if event.topic not in replica.versions:
                self._replicas.hear_of_version(replica, event.topic, peer)
                break  # The rest is fetched again when the version is known.
            is_linked = event.cid in linked or event.cid in log.missing
            if self._dissemination.accept_fetched(
                replica, event, peer, is_linked=is_linked, is_delivered=is_delivered
            ):
                accepted += 1
            elif event.place <= log.horizon:
                self._state(replica).unknown.pop(event.cid, None)
                self._dissemination.go_on_without(replica, event.cid)
        return accepted

    def on_news_timer(self, replica: TopicReplica) -> None:
        """Tell neighbours of fetched events."""
        self._membership.send_beats(replica)

    def on_left(self, replica: TopicReplica) -> None:
        """Forget a topic."""
        state = self._states.pop(replica.id, None)
        if state is not None:
            self._pages.cancel(state.request)

    def check(self) -> None:
        """Assert the limits on missing events."""
        assert self._states.keys() <= self._replicas.by_id.keys()
        for state in self._states.values():
            assert len(state.unknown) <= UNKNOWN_MAX


@dataclass(slots=True, eq=False)
class _BackfillRun:
    """One round of asking sources for older history."""

    sources: list[Peer]
    wanted: tuple[Cid, ...] = ()
    number: int = 0
    has_answer: bool = False
    got: dict[Cid, None] = field(default_factory=dict)
    """The highest events below which nothing is missing."""


@dataclass(slots=True, eq=False)
class _BackfillState:
    """How far the backfill of one topic has come."""

    run: _BackfillRun | None = None
    tries: int = 0
    again_us: int | None = None
    """When the next run may start; None for the first, which may start at once."""


@dataclass(eq=False)
class Backfill(Component):
    """Fetches events from before this node joined, for keepers and pinned topics.

    Links name the missing events. The node asks sources in turn until none is missing except pruned
    ones. A source that is still fetching sends the events that it has, and the next one the rest.
    """

    _replicas: TopicReplicas
    _membership: Membership
    _pages: PageRequests
    _keepers: Keepers
    _fetcher: Fetcher
    _states: dict[Cid, _BackfillState] = field(init=False, default_factory=dict)

    def begin_if_needed(self, replica: TopicReplica) -> None:
        """Begin if this node needs all events: as a keeper, or of a pinned topic."""
        if replica.log.is_pinned or self._keepers.is_keeper(replica.id):
            self.begin(replica)

    def begin(self, replica: TopicReplica) -> None:
        """Ask for all missing events, if there is a peer to ask."""
        if replica.log.has_all or not replica.log.is_settled:
            return
        state = self._states.setdefault(replica.id, _BackfillState())
        if state.run is not None:
            return
        # A peer close to the topic may have been a keeper before.
        close = self._overlay.closest_known(replica.id, 2 * self._settings.keepers)
        closest = [contact.peer for contact in close]
        neighbours = self._membership.neighbours(replica)
        sources = self._others([*self._keepers.peers(replica), *neighbours, *closest])
        is_due = state.again_us is None or self._outbox.now >= state.again_us
        if sources and is_due:
            wait_us = min(BACKFILL_US << state.tries, BACKFILL_US_MAX)
            state.tries += 1
            state.again_us = self._outbox.now + wait_us
            state.run = _BackfillRun(sources)
            self._go_on(replica, state, state.run)

    def _go_on(self, replica: TopicReplica, state: _BackfillState, run: _BackfillRun) -> None:
        """Ask for missing events, or end the run."""
        names_max = self._settings.names_max
        gaps = replica.log.gaps()
        # The fetcher gets the events that this node has missed since it joined, and delivers them.
        missed = self._fetcher.missed(replica)
        wanted = tuple([cid for cid in gaps.missing if cid not in missed][:names_max])
        run.got = dict.fromkeys(gaps.whole[-names_max:])
        if not run.has_answer or (wanted and wanted != run.wanted):
            run.wanted = wanted
            self._ask(replica, run)
        elif wanted or not (missed or replica.log.heads):
            self._next(replica, state, run)  # This source has no more of it, or knows nothing.
        elif missed:
            state.run = None
            state.tries, state.again_us = 0, self._outbox.now + BACKFILL_SOON_US
        else:
            state.run = None
            replica.log.note_complete()
            self._replicas.store_state(replica)

    def _ask(self, replica: TopicReplica, run: _BackfillRun) -> None:
        peer, had = run.sources[0], tuple(run.got)[-self._settings.names_max :]
        question = Fetch(replica.id, 0, run.wanted, had, 0)
        run.number = self._pages.ask(peer, question, partial(self._on_page, replica, run, peer))
        self._outbox.set_timer(("backfill", replica.id), self._fetcher.timeout_us)

    def on_timer(self, replica: TopicReplica) -> None:
        """Ask the next source, since the page has not arrived."""
        state = self._states.get(replica.id)
        if state is not None and state.run is not None:
            self._next(replica, state, state.run)

    def _next(self, replica: TopicReplica, state: _BackfillState, run: _BackfillRun) -> None:
        """Ask the next source; if there is none, wait for the next run."""
        self._pages.cancel(run.number)
        del run.sources[0]
        if run.sources:
            self._ask(replica, run)
        else:
            state.run = None

    def _on_page(self, replica: TopicReplica, run: _BackfillRun, peer: Peer, page: Page) -> None:
        """Take a page, and learn the versions that it needs first."""
        self._outbox.cancel_timer(("backfill", replica.id))
        events = []
        for block in page.blocks:
            try:
                events.append(read_event(block))
            except RefusalError:
                continue  # The fetcher counts it.
        then = partial(self._take, replica, run, peer, page, events)
        self._replicas.have_versions_of(replica, events, peer, then)

    def _take(
        self,
        replica: TopicReplica,
        run: _BackfillRun,
        peer: Peer,
        page: Page,
        events: list[TopicEvent],
    ) -> None:
        state = self._states.get(replica.id)
        if state is None or state.run is not run or run.number != page.number:
            return
        new = self._fetcher.accept(replica, peer, page.blocks, is_delivered=False)
        run.has_answer = True
        if new:
            state.tries = 0
        self._fetcher.compare(replica, page.heads, peer)
        replica.log.note_pruned(page.gone)
        for event in events:
            if event.cid in replica.log:
                run.got[event.cid] = None
                for parent in event.parents:
                    run.got.pop(parent, None)
        if page.has_more and new:
            self._ask(replica, run)
        else:
            self._go_on(replica, state, run)

    def on_left(self, replica: TopicReplica) -> None:
        """Forget a topic."""
        state = self._states.pop(replica.id, None)
        if state is not None and state.run is not None:
            self._pages.cancel(state.run.number)

    def check(self) -> None:
        """Assert that each run has a source that it waits for."""
        assert self._states.keys() <= self._replicas.by_id.keys()
        assert all(state.run is None or state.run.sources for state in self._states.values())


@dataclass(slots=True, eq=False)
class _LinkRequest:
    author: Peer
    parents: tuple[Cid, ...]
    until_us: int
    then: Callable[[], None]
    otherwise: Callable[[], None]


def _in_turn(requests: Sequence[_LinkRequest]) -> list[_LinkRequest]:
    """Sort requests so that every author has its first before any has its second, and so on."""
    counts: Counter[Peer] = Counter()
    turns: list[tuple[int, int, _LinkRequest]] = []
    for request in requests:
        counts[request.author] += 1
        turns.append((counts[request.author], len(turns), request))
    return [request for _, _, request in sorted(turns, key=lambda turn: turn[:2])]


@dataclass(slots=True, eq=False)
class _ParentSearch:
    """The missing events of one topic that new events will link to."""

    requests: list[_LinkRequest] = field(default_factory=list)
    asked: int = 0
    number: int = 0
    """The number of the last question."""


@dataclass(eq=False)
class ParentFetcher(Component):
    """Fetches the events that an application wants a new event to link to."""

    _replicas: TopicReplicas
    _membership: Membership
    _pages: PageRequests
    _keepers: Keepers
    _fetcher: Fetcher
    _searches: dict[Cid, _ParentSearch] = field(init=False, default_factory=dict)

    def when_here(
        self,
        replica: TopicReplica,
        parents: tuple[Cid, ...],
        author: Peer,
        then: Callable[[], None],
        otherwise: Callable[[], None],
    ) -> None:
        """Call `then` when events are here, or `otherwise` if they cannot be fetched.

        `author` wants to link to them. If too many wait, the author of most gives way.
        """
        if all(cid in replica.log for cid in parents):
            then()
            return
        search = self._searches.setdefault(replica.id, _ParentSearch())
        until_us = self._outbox.now + PARENTS_TIMEOUT_US
        search.requests.append(_LinkRequest(author, parents, until_us, then, otherwise))
        if len(search.requests) > self._settings.waiting_count_max:
            last = _in_turn(search.requests)[-1]
            search.requests.remove(last)
            last.otherwise()
        self._membership.stay(replica, PARENTS_TIMEOUT_US)
        self._membership.attach(replica)
        if len(search.requests) == 1:
            self._ask(replica, search)

    def _ask(self, replica: TopicReplica, search: _ParentSearch) -> None:
        wait_us = self._liveness.at_least(PARENTS_RETRY_US, 3)
        self._outbox.set_timer(("link", replica.id), wait_us)
        keepers = self._keepers.peers(replica)
        if not keepers:
            self._keepers.find(replica)
        sources = self._others([*self._membership.neighbours(replica), *keepers])
        if not sources or not replica.log.is_settled:
            return  # Until the log is settled, it could take an answer for missed events.
        lacking = dict.fromkeys(
            cid
            for request in _in_turn(search.requests)
            for cid in request.parents
            if cid not in replica.log
        )
        source = sources[search.asked % len(sources)]
        search.asked += 1
        wanted = tuple(lacking)[: self._settings.names_max]
        # With the current time as the limit, the answer has only the wanted events.
        question = Fetch(replica.id, 0, wanted, (), max(0, self._outbox.now))
        self._pages.cancel(search.number)
        then = partial(self._on_page, replica, search, source)
        search.number = self._pages.ask(source, question, then)

    def _on_page(
        self, replica: TopicReplica, search: _ParentSearch, peer: Peer, page: Page
    ) -> None:
        is_current = self._replicas.is_current(replica)
        if is_current and self._fetcher.accept(replica, peer, page.blocks, is_delivered=False):
            self._settle(replica, search)

    def on_timer(self, replica: TopicReplica) -> None:
        """Run the callbacks of events that have arrived, and ask another peer for the rest."""
        search = self._searches.get(replica.id)
        if search is not None and self._settle(replica, search):
            self._ask(replica, search)

    def _settle(self, replica: TopicReplica, search: _ParentSearch) -> bool:
        """Run the callbacks of arrived and timed-out events; return whether some still wait."""
        requests, search.requests = search.requests, []
        for request in requests:
            if all(cid in replica.log for cid in request.parents):
                request.then()
            elif self._outbox.now >= request.until_us:
                request.otherwise()
            else:
                search.requests.append(request)
        if not search.requests:
            self._pages.cancel(search.number)
            self._searches.pop(replica.id, None)
        return bool(search.requests)

    def on_left(self, replica: TopicReplica) -> None:
        """Give up the events to link to in a topic that this node has left."""
        search = self._searches.pop(replica.id, None)
        for request in () if search is None else search.requests:
            request.otherwise()

    def check(self) -> None:
        """Assert the limit on waiting callbacks."""
        for search in self._searches.values():
            assert len(search.requests) <= self._settings.waiting_count_max
