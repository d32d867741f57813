"""Offered events: one copy of an event to a node that wants it in several trees.

A parent that knows of an overlap (`overlaps.py`) offers an event instead of sending it: the id and
the predicate, in the event's place among the others of its publisher. Usually the event itself
arrives by the other tree. If it does not, the node requests it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TypeAlias

from smartpubsub.predicates import Predicate
from smartpubsub.protocols.publication import EventId
from smartpubsub.protocols.scoutsubs.attestation import ScoutOutbox
from smartpubsub.protocols.scoutsubs.dissemination import Dissemination
from smartpubsub.protocols.scoutsubs.filter_table import FilterTable
from smartpubsub.protocols.scoutsubs.filters import Filters
from smartpubsub.protocols.scoutsubs.messages import NO_PEER, Notify, Offer, Want
from smartpubsub.protocols.scoutsubs.recent_events import RecentEvent, RecentEvents
from smartpubsub.protocols.scoutsubs.recovery import Recovery
from smartpubsub.protocols.scoutsubs.shard_names import base_name, is_split, tree_name
from smartpubsub.protocols.scoutsubs.timeouts import ResponseTimes
from smartpubsub.seam import Peer

HELD_COUNT_MAX = 10_000
"""How many messages may wait for offered events; offers beyond it are retransmitted later."""

LineName: TypeAlias = tuple[str, Peer]
"""An attribute and a publisher."""


@dataclass(slots=True)
class _HeldPart:
    """An event, or the offer of one, that waits for its turn."""

    peer: Peer
    part: Notify | Offer
    is_requested: bool = False


@dataclass(eq=False)
class Offers:
    """The events that were offered to this node, and those that wait behind them."""

    _outbox: ScoutOutbox
    _times: ResponseTimes
    _recovery: Recovery
    _filters: Filters
    _recent: RecentEvents
    _dissemination: Dissemination

    def __post_init__(self) -> None:
        self._arrived: deque[EventId] = deque()
        """Events whose waiting lines advance next."""
        self._lines: dict[LineName, deque[_HeldPart]] = {}
        """Messages that wait for an event that was offered before them."""
        self.held_count = 0
        self._waiting: dict[EventId, dict[LineName, None]] = {}
        """The lines that an event was offered in."""

    # --- events and offers from the parent ---

    def on_notify(self, peer: Peer, part: Notify) -> None:
        """Pass on an event from the parent, unless it waits behind one that was offered before."""
        name = part.attribute, part.event.id.publisher
        line = self._lines.get(name)
        if line is None or part.on_behalf != NO_PEER:
            self._dissemination.on_notify(peer, part)
            return
        for held in line:
            if _id(held.part) == part.event.id:
                held.peer, held.part = peer, part
                self._advance(name)
                return
        if part.is_resend or self.held_count >= HELD_COUNT_MAX:
            self._dissemination.on_notify(peer, part)
        else:
            self._hold(name, _HeldPart(peer, part))

    def on_offer(self, peer: Peer, part: Offer) -> None:
        """Wait for an offered event that may arrive by another tree, or request it."""
        if not self._recovery.knows_children(part.attribute):
            return
        name = part.attribute, part.id.publisher
        known = self._recent.get(part.id)
        if known is not None and name not in self._lines:
            self._dissemination.on_notify(peer, _as_notify(part, known))
        elif self.held_count >= HELD_COUNT_MAX:
            self._outbox.reject("offered events")
        elif name not in self._waiting.get(part.id, ()):
            self._waiting.setdefault(part.id, {})[name] = None
            held = _HeldPart(peer, part)
            self._hold(name, held)
            if known is None and not self._comes_by_another(part):
                self._request(held)
            if len(self._lines[name]) == 1:
                self._wait_for_first(name)

    def _comes_by_another(self, part: Offer) -> bool:
        names = [tree_name(attribute) for attribute in part.predicate.attributes]
        others = [self._filters.tables.get(n) for n in names if n != base_name(part.attribute)]
        there = [table for table in others if table is not None and table.shortcut is None]
        return any(_brings(table, part.predicate) for table in there)

    # --- lines ---

    def _hold(self, name: LineName, held: _HeldPart) -> None:
        self._lines.setdefault(name, deque()).append(held)
        self.held_count += 1

    def on_event(self, id: EventId) -> None:
        """Advance the lines that have waited for an event, and those that wait for these.

        This is a loop rather than a recursion, as a chain of waiting events may be long.
        """
        if id not in self._waiting:
            return
        self._arrived.append(id)
        if len(self._arrived) > 1:
            return  # The loop is running.
        while self._arrived:
            for name in list(self._waiting.get(self._arrived[0], ())):
                self._advance(name)
            self._arrived.popleft()

    def _advance(self, name: LineName, *, is_first_new: bool = False) -> None:
        """Take events from the head of a line, up to one that has not arrived.

        Only a new first event begins a new wait: otherwise, each arrival behind one that is lost
        would delay the request for it.
        """
        line = self._lines.get(name, deque())
        while line:
            held = line[0]
            part = held.part
            if isinstance(part, Offer):
                known = self._recent.get(part.id)
                if known is None:
                    if is_first_new:
                        self._wait_for_first(name)
                    return
                part = _as_notify(part, known)
            self._drop_first(name)
            is_first_new = True
            self._dissemination.on_notify(held.peer, part)

    def _drop_first(self, name: LineName) -> None:
        line = self._lines[name]
        id = _id(line.popleft().part)
        self.held_count -= 1
        lines = self._waiting.get(id, {})
        lines.pop(name, None)
        if not lines:
            self._waiting.pop(id, None)
        if not line:
            del self._lines[name]
            self._outbox.cancel_timer(("offer", *name))

    def _wait_for_first(self, name: LineName) -> None:
        self._outbox.set_timer(("offer", *name), self._times.timeout_us)

    def on_timer(self, attribute: str, publisher: Peer) -> None:
        """Request an offered event that has not arrived by another tree, or stop waiting."""
        name = attribute, publisher
        line = self._lines.get(name)
        if line is None:
            return
        if line[0].is_requested:
            self._drop_first(name)  # The rendezvous will retransmit it.
            self._advance(name, is_first_new=True)
        else:
            self._request(line[0])
            self._wait_for_first(name)

    def _request(self, held: _HeldPart) -> None:
        held.is_requested = True
        self._outbox.queue(held.peer, Want(_id(held.part), held.part.attribute))

    def check(self) -> None:
        """Assert the invariants: counts and indexes agree with the lines."""
        assert self.held_count == sum(map(len, self._lines.values()))
        assert not self._arrived
        assert all(self._lines.values())
        for id, names in self._waiting.items():
            assert names
            for name in names:
                assert any(_id(held.part) == id for held in self._lines[name])


def _brings(table: FilterTable, event: Predicate) -> bool:
    """Whether a tree, or one of its shards, carries an event to this node.

    Of a split attribute, this node does not know the children in the other shards.
    """
    own, children = table.interested(event)
    return bool(own) or (bool(children) and not is_split(table.epoch))


def _id(part: Notify | Offer) -> EventId:
    return part.id if isinstance(part, Offer) else part.event.id


def _as_notify(part: Offer, known: RecentEvent) -> Notify:
    return Notify(known.event, part.attribute, known.hops, False, NO_PEER)
