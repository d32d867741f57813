"""What a helper does: it serves members of others' groups, and tells their owners when all have it.

A node grants owners no more, in all groups together, than it has capacity for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from smartpubsub.kademlia.keys import Contact
from smartpubsub.protocols.fastdelivery.office import Office
from smartpubsub.protocols.fastdelivery.parts import (
    Agreed,
    Answer,
    Charge,
    Confirmed,
    Delegate,
    Done,
    Got,
    GroupId,
    NotHelping,
    Notify,
    Recruit,
    Relay,
    Release,
    Working,
)
from smartpubsub.protocols.fastdelivery.wants import Wants
from smartpubsub.seam import Peer

FINISHED_COUNT_MAX = 1_000
"""So many answers are remembered, for owners whom they did not reach."""


@dataclass(slots=True, eq=False)
class Post:
    """A node's work as a helper in one group."""

    term: int
    granted: int
    heard_us: int
    charges: dict[Peer, Charge] = field(default_factory=dict)
    _versions: dict[Peer, int] = field(default_factory=dict)
    """Which delegation spoke last of somebody, whether or not it is still in care."""
    _wants: Wants = field(default_factory=Wants)

    def apply(self, part: Delegate) -> bool:
        """Take what an owner says of its members; False if it is more than was granted."""
        news = [
            charge
            for charge in part.charges
            if part.version > self._versions.get(charge.contact.peer, 0)
        ]
        added = sum(charge.contact.peer not in self.charges for charge in news)
        if len(self.charges) + added > self.granted:
            return False
        for charge in news:
            self._file(charge)
            self._versions[charge.contact.peer] = part.version
        for peer in part.gone:
            if part.version > self._versions.get(peer, 0):
                self._unfile(peer)
                self._versions[peer] = part.version
        return True

    def interested(self, relay: Relay) -> list[Peer]:
        """Those in care who want an event."""
        wanting = self._wants.of(relay.event.predicate)
        if relay.only:
            asked = dict.fromkeys(relay.only)
            return [peer for peer in wanting if peer in asked]
        return list(wanting)

    def _file(self, charge: Charge) -> None:
        self.charges[charge.contact.peer] = charge
        self._wants.put(charge.contact.peer, charge.predicates)

    def _unfile(self, peer: Peer) -> None:
        self.charges.pop(peer, None)
        self._wants.put(peer, ())


@dataclass(slots=True)
class _Work:
    """An event that is being passed on."""

    waiting: dict[Peer, None]
    unreached: list[Peer] = field(default_factory=list)


class Helping:
    """The groups in which this node helps."""

    def __init__(self, office: Office) -> None:
        self._office = office
        self.posts: dict[GroupId, Post] = {}
        self._works: dict[tuple[Peer, int], _Work] = {}
        """By the owner and the number of its question."""
        self._finished: dict[tuple[Peer, int], Confirmed] = {}

    @property
    def granted(self) -> int:
        """How many this node has agreed to serve."""
        return sum(post.granted for post in self.posts.values())

    @property
    def charge_count(self) -> int:
        """How many this node serves."""
        return sum(len(post.charges) for post in self.posts.values())

    # --- being asked to help ---

    def on_recruit(self, contact: Contact, number: int, part: Recruit) -> None:
        """An owner asks whether this node would serve so many: as many as it has room for."""
        office = self._office
        id = GroupId(contact.peer, part.group)
        post = self.posts.get(id)
        if post is not None and part.term > post.term:
            post = None  # The owner has started again, or has given it up before.
            del self.posts[id]
        held = post.granted if post is not None else 0
        free = office.settings.capacity - self.granted
        granted = max(held, min(part.wanted, held + free))
        may = post is not None or len(self.posts) < office.settings.post_count_max
        if not may:
            office.refusals["groups to help in"] += 1
        if granted <= held or not may or not office.joining.is_member(id):
            office.answer(contact.peer, number, Agreed(held))
            return
        if post is None:
            post = self.posts[id] = Post(part.term, granted, office.now)
        post.granted = granted
        office.answer(contact.peer, number, Agreed(granted))

    def on_delegate(self, contact: Contact, number: int, part: Delegate) -> None:
        """An owner hands members over, or takes some back."""
        post = self._post(contact, part)
        if post is None or not post.apply(part):
            self._office.answer(contact.peer, number, NotHelping())
        else:
            self._office.answer(contact.peer, number, Done())

    def on_release(self, contact: Contact, number: int, part: Release) -> None:
        """An owner needs no help any more."""
        if self._post(contact, part) is not None:
            del self.posts[GroupId(contact.peer, part.group)]
        self._office.answer(contact.peer, number, Done())

    def _post(self, contact: Contact, part: Delegate | Release | Relay) -> Post | None:
        post = self.posts.get(GroupId(contact.peer, part.group))
        if post is None or post.term != part.term:
            return None
        post.heard_us = self._office.now
        return post

    # --- passing events on ---

    def on_relay(self, contact: Contact, number: int, part: Relay) -> None:
        """An event for those in care, and perhaps for this node."""
        office, key = self._office, (contact.peer, number)
        if key in self._works:
            office.answer(contact.peer, number, Working())
            return
        if key in self._finished:
            office.answer(contact.peer, number, self._finished[key])
            return
        event = part.event
        if event.id.publisher != contact.peer or not office.signing.is_signed(event):
            office.refusals["events"] += 1
            return
        post = self._post(contact, part)
        if post is None:
            office.answer(contact.peer, number, NotHelping())
            return
        priors = dict(part.turns)
        wanting = post.interested(part)
        work = self._works[key] = _Work(dict.fromkeys(wanting))
        own = office.own.peer
        if not part.only or own in part.only:
            work.waiting[own] = None
            office.turns.take(event, 1, priors.get(own, 0), key, partial(self._end, key, own))
        elif not wanting:
            self._check(key, work)
        for peer in wanting:
            notify = Notify(part.group, event, 2, part.is_resend, priors.get(peer, 0))
            office.ask(
                peer, notify, partial(self._on_got, key, peer), partial(self._miss, key, peer)
            )

    def _on_got(self, key: tuple[Peer, int], peer: Peer, part: Answer) -> None:
        if isinstance(part, Got) and not part.is_wanted:
            self._miss(key, peer)  # Its owner finds out why.
        else:
            self._end(key, peer)

    def _miss(self, key: tuple[Peer, int], peer: Peer) -> None:
        if key in self._works:
            self._works[key].unreached.append(peer)
        self._end(key, peer)

    def _end(self, key: tuple[Peer, int], peer: Peer) -> None:
        work = self._works.get(key)
        if work is not None:
            work.waiting.pop(peer, None)
            self._check(key, work)

    def _check(self, key: tuple[Peer, int], work: _Work) -> None:
        if work.waiting:
            return
        del self._works[key]
        self._finished[key] = confirmed = Confirmed(tuple(work.unreached))
        if len(self._finished) > FINISHED_COUNT_MAX:
            del self._finished[next(iter(self._finished))]
        self._office.answer(*key, confirmed)

    def tick(self) -> None:
        """Forget owners that have not been heard from for long."""
        horizon_us = self._office.now - 2 * self._office.settings.renew_us
        for id in [id for id, post in self.posts.items() if post.heard_us <= horizon_us]:
            del self.posts[id]
