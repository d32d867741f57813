"""Offered events: one copy of an event to a node that wants it in several trees.

A parent that knows of an overlap (`filters.py`) offers an event in place of sending it: the id and
the predicate, in the event's place among the others of its publisher. Usually the event itself
comes by the other tree. If it does not, the node requests it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from smartpubsub.predicates import Predicate
from smartpubsub.protocols.publication import EventId, Publication
from smartpubsub.protocols.scoutsubs.attestation import ScoutOutbox
from smartpubsub.protocols.scoutsubs.dissemination import Dissemination
from smartpubsub.protocols.scoutsubs.filter_table import FilterTable
from smartpubsub.protocols.scoutsubs.filters import Filters
from smartpubsub.protocols.scoutsubs.messages import NOBODY, Notify, Offer, Want
from smartpubsub.protocols.scoutsubs.recovery import Recovery
from smartpubsub.protocols.scoutsubs.shard_names import base_name, is_split, tree_name
from smartpubsub.protocols.scoutsubs.timeouts import ResponseTimes
from smartpubsub.seam import Peer

RECENT_US = 60_000_000
RECENT_COUNT_MAX = 10_000
RECENT_BYTES_MAX = 8 << 20
HELD_COUNT_MAX = 10_000
"""The limit of what waits for offered events; offers beyond it are retransmitted later."""

LineName: TypeAlias = tuple[str, Peer]
"""An attribute and a publisher."""


class _RecentEvent(NamedTuple):
    """A recent event, and the number of links that it has passed."""

    event: Publication
    hops: int
    since_us: int


@dataclass(slots=True)
class _HeldPart:
    """An event, or the offer of one, that waits for its turn."""

    peer: Peer
    part: Notify | Offer
    is_requested: bool = False


@dataclass(eq=False)
class Offers:
    """The offers that this node has, and the recent events that it may be asked for."""

    _outbox: ScoutOutbox
    _times: ResponseTimes
    _recovery: Recovery
    _filters: Filters
    _dissemination: Dissemination

    def __post_init__(self) -> None:
        self._recent: dict[EventId, _RecentEvent] = {}
        self._recent_bytes = 0
        self._arrived: list[EventId] = []
        self._lines: dict[LineName, deque[_HeldPart]] = {}
        """What waits for an event that was offered before it."""
        self.held_count = 0
        self._waiting: dict[EventId, dict[LineName, None]] = {}
        """The lines that an event was offered in."""

    def keep(self, event: Publication, hops: int) -> None:
        """Keep an event for a while, as it may be offered in other trees."""
        if len(event.predicate.attributes) == 1 or event.id in self._recent:
            return
        self._recent[event.id] = _RecentEvent(event, hops, self._outbox.now)
        self._recent_bytes += event.wire_bytes
        while len(self._recent) > RECENT_COUNT_MAX or self._recent_bytes > RECENT_BYTES_MAX:
            self._forget_oldest()
        if event.id in self._waiting:
            self._arrived.append(event.id)

    def _forget_oldest(self) -> None:
        oldest = self._recent.pop(next(iter(self._recent)))
        self._recent_bytes -= oldest.event.wire_bytes

    # --- events and offers from the parent ---

    def on_notify(self, peer: Peer, part: Notify) -> None:
        """An event comes down the tree; it waits behind an event that was offered before it."""
        name = part.attribute, part.event.id.publisher
        line = self._lines.get(name)
        if line is None or part.on_behalf != NOBODY:
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
        """An event is offered that may come by another tree."""
        if not self._recovery.is_ready:
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
        there = [table for table in others if table is not None and table.direct is None]
        return any(_brings(table, part.predicate) for table in there)

    # --- lines ---

    def _hold(self, name: LineName, held: _HeldPart) -> None:
        self._lines.setdefault(name, deque()).append(held)
        self.held_count += 1

    def settle(self) -> None:
        """Let pass what has waited for events that have arrived now."""
        while self._arrived:
            for name in list(self._waiting.get(self._arrived.pop(0), ())):
                self._advance(name)

    def _advance(self, name: LineName) -> None:
        """Take events from the head of a line, up to one that has not arrived."""
        line = self._lines.get(name, deque())
        while line:
            held = line[0]
            part = held.part
            if isinstance(part, Offer):
                known = self._recent.get(part.id)
                if known is None:
                    self._wait_for_first(name)
                    return
                part = _as_notify(part, known)
            self._drop_first(name)
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
        """An offered event has not come by another tree."""
        name = attribute, publisher
        line = self._lines.get(name)
        if line is None:
            return
        if line[0].is_requested:
            self._drop_first(name)  # The rendezvous will retransmit it.
            self._advance(name)
        else:
            self._request(line[0])
            self._wait_for_first(name)

    def _request(self, held: _HeldPart) -> None:
        held.is_requested = True
        self._outbox.queue(held.peer, Want(_id(held.part), held.part.attribute))

    def on_want(self, peer: Peer, part: Want) -> None:
        """A child requests an event that it was offered."""
        table = self._filters.tables.get(part.attribute)
        found = self._recent.get(part.id)
        if table is None or found is None:
            return
        for child in table.children.values():
            path = self._dissemination.path_of(part.attribute, child)
            if peer in (child.contact.peer, path) and any(
                wanted.matches(found.event.predicate) for wanted in child.filters
            ):
                hops = found.hops + 1
                self._outbox.queue(peer, Notify(found.event, part.attribute, hops, False, NOBODY))
                return

    def tick(self) -> None:
        """Forget events that no child will request any more."""
        oldest_us = self._outbox.now - RECENT_US
        while self._recent and next(iter(self._recent.values())).since_us < oldest_us:
            self._forget_oldest()

    def check(self) -> None:
        """Assert the invariants: counts and indexes agree with the lines."""
        assert self.held_count == sum(map(len, self._lines.values()))
        assert self._recent_bytes == sum(r.event.wire_bytes for r in self._recent.values())
        assert all(self._lines.values())
        for id, names in self._waiting.items():
            assert names
            for name in names:
                assert any(_id(held.part) == id for held in self._lines[name])


def _brings(table: FilterTable, event: Predicate) -> bool:
    """Whether a tree, or one of its shards, carries an event to this node.

    Of a split one it is not known here what comes for the children: each shard has other ones.
    """
    own, children = table.interested(event)
    return bool(own) or (bool(children) and not is_split(table.epoch))


def _id(part: Notify | Offer) -> EventId:
    return part.id if isinstance(part, Offer) else part.event.id


def _as_notify(part: Offer, known: _RecentEvent) -> Notify:
    return Notify(known.event, part.attribute, known.hops, False, NOBODY)
