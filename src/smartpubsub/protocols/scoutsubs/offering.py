"""One copy of an event to a node that wants it in several trees.

A node with filters in several trees would get an event that matches in two of them twice. So it
tells its parent in a tree which filters it has in others (or somebody whom the parent sends to
past it); the parent then does not send an event
that matches one of those, but offers it: its id and its predicate, in the event's place among the
others of its publisher. Usually the event itself comes by the other tree. If it does not, the node
asks for it.

A node names only filters in trees that come earlier than this one in an order that all share, so
one of the trees always brings the event itself. What parents know of it need not be up to date: at
worst an event comes twice, or has to be asked for.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from smartpubsub.kademlia.keys import key_of
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.publication import EventId, Publication
from smartpubsub.protocols.scoutsubs.branches import base_of, is_split, name_of
from smartpubsub.protocols.scoutsubs.child import Child
from smartpubsub.protocols.scoutsubs.messages import NOBODY, Elsewhere, Notify, Offer, Want
from smartpubsub.protocols.scoutsubs.office import Office
from smartpubsub.protocols.scoutsubs.tree import Role, Tree
from smartpubsub.seam import Peer

ELSEWHERE_COUNT_MAX = 64
"""How many filters in other trees a parent is told of."""
MEMBER_COUNT_MAX = 1_000
"""Of trees with more filters than this none are told: it would take long to look for them."""
TELL_US = 50_000
"""What changes within this time is told at once."""
TELL_AGAIN_US = 250_000
"""What changes after that is not told sooner than after this time."""
RECENT_US = 60_000_000
RECENT_COUNT_MAX = 10_000
RECENT_BYTES_MAX = 8 << 20
HELD_COUNT_MAX = 10_000
"""How much waits for events that were offered; what is offered beyond that is sent again later."""


class _Recent(NamedTuple):
    """An event that the node has, and over how many links it came."""

    event: Publication
    hops: int
    since_us: int


@dataclass(slots=True)
class _Held:
    """What has come down a tree and waits for its turn: an event, or the offer of one."""

    peer: Peer
    part: Notify | Offer
    is_wanted: bool = False
    """Whether it was asked for."""


class Offering:
    """What a node has instead of second copies."""

    def __init__(self, office: Office) -> None:
        self._office = office
        self._recent: dict[EventId, _Recent] = {}
        self._recent_bytes = 0
        self._arrived: list[EventId] = []
        self._lines: dict[tuple[str, Peer], deque[_Held]] = {}
        """By attribute and publisher: what waits for an event that was offered before it."""
        self._held_count = 0
        self._waiting: dict[EventId, dict[tuple[str, Peer], None]] = {}
        """The lines that an event has been offered in."""
        self._told: dict[str, tuple[Peer, tuple[Predicate, ...]]] = {}
        """What parents were told."""
        self._is_to_be_told = False
        self._told_us = -TELL_AGAIN_US

    @property
    def held_count(self) -> int:
        """How much waits for an event that was offered."""
        return self._held_count

    # --- who is offered what ---

    def is_to_be_offered(self, event: Publication, child: Child) -> bool:
        """Whether a child gets an event by another tree as well."""
        for name in event.predicate.attributes:
            for wanted in child.elsewhere.get(name, ()):
                if wanted.matches(event.predicate):
                    return True
        return False

    def on_changed(self) -> None:
        """Filters have changed; after a moment the parents in other trees hear of it."""
        if not self._is_to_be_told:
            self._is_to_be_told = True
            at = max(self._office.now + TELL_US, self._told_us + TELL_AGAIN_US)
            self._office.set_timer(("elsewhere",), at)

    def tell_all(self) -> None:
        """Tell the parents what has changed."""
        self._is_to_be_told = False
        self._told_us = self._office.now
        others: tuple[Predicate, ...] = ()
        for base, trees in groupby(self._with_parents(), lambda tree: base_of(tree.attribute)):
            shown: tuple[Predicate, ...] = ()
            for tree in trees:
                self._tell(tree, others if tree.direct is None else _of_only_child(tree))
                if tree.attribute == base and len(others) < ELSEWHERE_COUNT_MAX:
                    shown = _shown(tree)
            others = (*others, *shown)[:ELSEWHERE_COUNT_MAX]

    def tell_again(self, tree: Tree) -> None:
        """Tell a tree's parent, who may not know it."""
        self._told.pop(tree.attribute, None)
        self.on_changed()

    def _with_parents(self) -> list[Tree]:
        """The trees by which events come down to the node, in the order that all share."""
        trees = self._office.trees.values()
        below = [t for t in trees if t.role is Role.CHILD and t.parent and not t.is_empty]
        return sorted(below, key=lambda t: (key_of(base_of(t.attribute).encode()), t.attribute))

    def _tell(self, tree: Tree, others: tuple[Predicate, ...]) -> None:
        assert tree.parent is not None
        parent = tree.parent.peer
        if self._told.get(tree.attribute, (parent, ())) != (parent, others):
            self._office.say(parent, Elsewhere(tree.attribute, others))
        self._told[tree.attribute] = (parent, others)

    def on_elsewhere(self, peer: Peer, part: Elsewhere) -> None:
        """A child says which filters it has in other trees."""
        tree = self._office.trees.get(part.attribute)
        child = tree.children.get(peer) if tree else None
        if child is not None:
            child.elsewhere = {}
            for wanted in part.others[:ELSEWHERE_COUNT_MAX]:
                child.elsewhere.setdefault(next(iter(wanted.attributes)), []).append(wanted)
            if tree is not None and tree.direct is not None:
                self.on_changed()

    # --- events ---

    def keep(self, event: Publication, hops: int) -> None:
        """Keep an event for a while, for the other trees that it may be offered in."""
        if len(event.predicate.attributes) == 1 or event.id in self._recent:
            return
        self._recent[event.id] = _Recent(event, hops, self._office.now)
        self._recent_bytes += event.wire_bytes
        while len(self._recent) > RECENT_COUNT_MAX or self._recent_bytes > RECENT_BYTES_MAX:
            self._forget_oldest()
        if event.id in self._waiting:
            self._arrived.append(event.id)

    def _forget_oldest(self) -> None:
        oldest = self._recent.pop(next(iter(self._recent)))
        self._recent_bytes -= oldest.event.wire_bytes

    def on_notify(self, peer: Peer, part: Notify) -> None:
        """An event comes down; it waits its turn behind one that was offered before it."""
        name = part.attribute, part.event.id.publisher
        line = self._lines.get(name)
        if line is None or part.on_behalf != NOBODY:
            self._office.spreading.on_notify(peer, part)
            return
        for held in line:
            if _id(held.part) == part.event.id:
                held.peer, held.part = peer, part
                self._advance(name)
                return
        if part.is_resend or self._held_count >= HELD_COUNT_MAX:
            self._office.spreading.on_notify(peer, part)
        else:
            self._hold(name, _Held(peer, part))

    def on_offer(self, peer: Peer, part: Offer) -> None:
        """An event is offered that may come by another tree."""
        if not self._office.is_ready:
            return
        name = part.attribute, part.id.publisher
        known = self._recent.get(part.id)
        if known is not None and name not in self._lines:
            self._office.spreading.on_notify(peer, _as_notify(part, known))
        elif self._held_count >= HELD_COUNT_MAX:
            self._office.refusals["offered events"] += 1
        elif name not in self._waiting.get(part.id, ()):
            self._waiting.setdefault(part.id, {})[name] = None
            held = _Held(peer, part)
            self._hold(name, held)
            if known is None and not self._comes_by_another(part):
                self._want(held)
            if len(self._lines[name]) == 1:
                self._wait_for_first(name)

    def _comes_by_another(self, part: Offer) -> bool:
        names = [name_of(attribute) for attribute in part.predicate.attributes]
        others = [self._office.trees.get(n) for n in names if n != base_of(part.attribute)]
        there = [tree for tree in others if tree is not None and tree.direct is None]
        return any(_brings(tree, part.predicate) for tree in there)

    # --- lines ---

    def _hold(self, name: tuple[str, Peer], held: _Held) -> None:
        self._lines.setdefault(name, deque()).append(held)
        self._held_count += 1

    def settle(self) -> None:
        """Let go on what has waited for events that have come now."""
        while self._arrived:
            for name in list(self._waiting.get(self._arrived.pop(0), ())):
                self._advance(name)

    def _advance(self, name: tuple[str, Peer]) -> None:
        """Hand on what is at the head of a line, up to an event that has not come."""
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
            self._office.spreading.on_notify(held.peer, part)

    def _drop_first(self, name: tuple[str, Peer]) -> None:
        line = self._lines[name]
        id = _id(line.popleft().part)
        self._held_count -= 1
        lines = self._waiting.get(id, {})
        lines.pop(name, None)
        if not lines:
            self._waiting.pop(id, None)
        if not line:
            del self._lines[name]
            self._office.cancel_timer(("offered", *name))

    def _wait_for_first(self, name: tuple[str, Peer]) -> None:
        office = self._office
        office.set_timer(("offered", *name), office.now + office.patience_us)

    def on_timer(self, *name: str | Peer) -> None:
        """An event that was offered has not come by another tree."""
        attribute, publisher = name
        assert isinstance(attribute, str)
        assert isinstance(publisher, bytes)
        key = attribute, publisher
        line = self._lines.get(key)
        if line is None:
            return
        if line[0].is_wanted:
            self._drop_first(key)  # Whoever has it in care will send it again.
            self._advance(key)
        else:
            self._want(line[0])
            self._wait_for_first(key)

    def _want(self, held: _Held) -> None:
        held.is_wanted = True
        self._office.say(held.peer, Want(_id(held.part), held.part.attribute))

    def on_want(self, peer: Peer, part: Want) -> None:
        """A child asks for an event that it was offered."""
        tree = self._office.trees.get(part.attribute)
        found = self._recent.get(part.id)
        if tree is None or found is None:
            return
        for child in tree.children.values():
            if peer in (child.contact.peer, child.path) and any(
                wanted.matches(found.event.predicate) for wanted in child.filters
            ):
                hops = found.hops + 1
                self._office.say(peer, Notify(found.event, part.attribute, hops, False, NOBODY))
                return

    def tick(self) -> None:
        """Once in a while: forget events that nobody will ask for any more."""
        oldest_us = self._office.now - RECENT_US
        while self._recent and next(iter(self._recent.values())).since_us < oldest_us:
            self._forget_oldest()


def _brings(tree: Tree, event: Predicate) -> bool:
    """Whether a tree, or one of its branches, brings an event to the node.

    Of a split one nobody knows here what comes for those below: they are others in each branch.
    """
    own, children = tree.interested(event)
    return bool(own) or (bool(children) and not is_split(tree.stage))


def _shown(tree: Tree) -> tuple[Predicate, ...]:
    # Where a shortcut past the node is offered, events do not come to it.
    if tree.direct is not None or tree.member_count > MEMBER_COUNT_MAX:
        return ()
    if is_split(tree.stage):  # Those below are others in each branch.
        return tuple(dict.fromkeys(wanted for wanted, _ in tree.own.values()))
    return tree.summary()


def _of_only_child(tree: Tree) -> tuple[Predicate, ...]:
    """What the parent has to know of whoever it sends to instead of the node."""
    (child,) = tree.live_children()
    return tuple(wanted for some in child.elsewhere.values() for wanted in some)


def _id(part: Notify | Offer) -> EventId:
    return part.id if isinstance(part, Offer) else part.event.id


def _as_notify(part: Offer, known: _Recent) -> Notify:
    return Notify(known.event, part.attribute, known.hops, False, NOBODY)
