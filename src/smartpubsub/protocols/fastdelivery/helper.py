"""The helper's part: serve members of other nodes' groups, and confirm events to the owners.

A node grants owners, in all groups together, no more places than its capacity.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from smartpubsub.kademlia.keys import Contact
from smartpubsub.protocols.fastdelivery.component import FastComponent
from smartpubsub.protocols.fastdelivery.delivery import GroupDelivery, Transmission
from smartpubsub.protocols.fastdelivery.group import MemberInterest
from smartpubsub.protocols.fastdelivery.messages import (
    Agreed,
    Answer,
    Charge,
    Delegate,
    Got,
    GroupId,
    GroupNotify,
    NotHelping,
    Recruit,
    Relay,
    RelayConfirmed,
    Release,
    RequestDone,
    Working,
)
from smartpubsub.protocols.runtime.bounded import BoundedDict
from smartpubsub.seam import Peer

FINISHED_COUNT_MAX = 1_000
"""How many confirmations a helper keeps for owners that did not get them."""
VERSION_COUNT_MAX = 10_000
"""Of how many peers of a group a helper remembers the last delegation."""


@dataclass(slots=True, eq=False)
class HelperRole:
    """A node's role as a helper in one group."""

    term: int
    granted: int
    heard_us: int
    members: dict[Peer, Charge] = field(default_factory=dict)
    """The delegated members."""
    _versions: dict[Peer, int] = field(default_factory=lambda: BoundedDict(VERSION_COUNT_MAX))
    """The last delegation that was about a peer, whether or not the peer is still delegated."""
    _interest: MemberInterest = field(default_factory=MemberInterest)

    def apply(self, delegate: Delegate) -> bool:
        """Add and remove delegated members; False if that exceeds the granted places."""
        newer = [
            member
            for member in delegate.charges
            if delegate.version > self._versions.get(member.contact.peer, 0)
        ]
        added = sum(member.contact.peer not in self.members for member in newer)
        if len(self.members) + added > self.granted:
            return False
        for member in newer:
            peer = member.contact.peer
            self.members[peer] = member
            self._interest.put(peer, member.predicates)
            self._versions[peer] = delegate.version
        for peer in delegate.gone:
            if delegate.version > self._versions.get(peer, 0):
                self.members.pop(peer, None)
                self._interest.put(peer, ())
                self._versions[peer] = delegate.version
        return True

    def interested(self, relay: Relay) -> list[Peer]:
        """Return the delegated members that an event is for."""
        wanting = self._interest.of(relay.event.predicate)
        if relay.only:
            named = dict.fromkeys(relay.only)
            return [peer for peer in wanting if peer in named]
        return list(wanting)

    def check(self) -> None:
        """Assert that no more members are delegated than granted, each known by its interest."""
        assert 0 <= len(self.members) <= self.granted
        assert self._interest.peers() <= set(self.members)


@dataclass(slots=True)
class _RelayedEvent:
    """An event that this node is passing on."""

    waiting: dict[Peer, None]
    unreached: list[Peer] = field(default_factory=list)


@dataclass(eq=False)
class GroupHelper(FastComponent):
    """The groups in which this node helps."""

    _delivery: GroupDelivery
    _is_member: Callable[[GroupId], bool]

    def __post_init__(self) -> None:
        self.roles: dict[GroupId, HelperRole] = {}
        self._relayed: dict[Transmission, _RelayedEvent] = {}
        """By the owner and the number of its request."""
        self._account = self._ledger.open("relayed events", self._settings.relayed_count_max)
        self._finished: dict[Transmission, RelayConfirmed] = BoundedDict(FINISHED_COUNT_MAX)

    @property
    def granted(self) -> int:
        """How many places this node has granted."""
        return sum(role.granted for role in self.roles.values())

    @property
    def delegated_count(self) -> int:
        """How many members are delegated to this node."""
        return sum(len(role.members) for role in self.roles.values())

    # --- the role ---

    def on_recruit(self, contact: Contact, number: int, question: Recruit) -> None:
        """Grant an owner the places that it asks for, as far as capacity is left."""
        id = GroupId(contact.peer, question.group)
        role = self.roles.get(id)
        if role is not None and question.term > role.term:
            role = None  # The owner has restarted, or has dismissed this helper in between.
            del self.roles[id]
        held = role.granted if role is not None else 0
        free = self._settings.capacity - self.granted
        granted = max(held, min(question.wanted, held + free))
        may = role is not None or len(self.roles) < self._settings.helped_group_count_max
        if not may:
            self._outbox.reject("helper roles")
        if granted <= held or not may or not self._is_member(id):
            self._requests.answer(contact.peer, number, Agreed(held))
            return
        if role is None:
            role = self.roles[id] = HelperRole(question.term, granted, self._outbox.now)
        role.granted = granted
        self._requests.answer(contact.peer, number, Agreed(granted))

    def on_delegate(self, contact: Contact, number: int, question: Delegate) -> None:
        """Take members over from an owner, and give members back."""
        role = self._role(contact, question)
        is_helping = role is not None and role.apply(question)
        self._requests.answer(contact.peer, number, RequestDone() if is_helping else NotHelping())

    def on_release(self, contact: Contact, number: int, question: Release) -> None:
        """Stop helping in a group."""
        if self._role(contact, question) is not None:
            del self.roles[GroupId(contact.peer, question.group)]
        self._requests.answer(contact.peer, number, RequestDone())

    def _role(self, contact: Contact, question: Delegate | Release | Relay) -> HelperRole | None:
        role = self.roles.get(GroupId(contact.peer, question.group))
        if role is None or role.term != question.term:
            return None
        role.heard_us = self._outbox.now
        return role

    # --- events ---

    def on_relay(self, contact: Contact, number: int, question: Relay) -> None:
        """Pass an event on to delegated members, and deliver it here if it is for this node."""
        key = (contact.peer, number)
        if key in self._relayed:
            self._requests.answer(contact.peer, number, Working())
            return
        if key in self._finished:
            self._requests.answer(contact.peer, number, self._finished[key])
            return
        event = question.event
        if not self._signatures.is_event_signed(event):
            self._outbox.reject("events")
            return
        role = self._role(contact, question)
        if role is None:
            self._requests.answer(contact.peer, number, NotHelping())
            return
        if not self._account.fits(contact.peer, 1):
            self._account.refuse()  # The owner sends it again later.
            self._outbox.reject("relayed events")
            return
        priors = dict(question.turns)
        wanting = role.interested(question)
        relayed = self._relayed[key] = _RelayedEvent(dict.fromkeys(wanting))
        self._account.change(contact.peer, 1)
        own = self._own.peer
        if not question.only or own in question.only:
            relayed.waiting[own] = None
            then = partial(self._note_done, key, own)
            group = GroupId(contact.peer, question.group)
            if not self._delivery.take(event, group, 1, priors.get(own, 0), key, then):
                self._note_unreached(key, own)
        elif not wanting:
            self._conclude(key, relayed)
        for peer in wanting:
            prior = priors.get(peer, 0)
            self._requests.ask(
                peer,
                GroupNotify(question.group, event, 2, question.is_resend, prior),
                partial(self._on_got, key, peer),
                partial(self._note_unreached, key, peer),
            )

    def _on_got(self, key: Transmission, peer: Peer, answer: Answer) -> None:
        if isinstance(answer, Got) and not answer.is_wanted:
            self._note_unreached(key, peer)  # The owner finds out why.
        else:
            self._note_done(key, peer)

    def _note_unreached(self, key: Transmission, peer: Peer) -> None:
        if key in self._relayed:
            self._relayed[key].unreached.append(peer)
        self._note_done(key, peer)

    def _note_done(self, key: Transmission, peer: Peer) -> None:
        relayed = self._relayed.get(key)
        if relayed is not None:
            relayed.waiting.pop(peer, None)
            self._conclude(key, relayed)

    def _conclude(self, key: Transmission, relayed: _RelayedEvent) -> None:
        if relayed.waiting:
            return
        del self._relayed[key]
        self._account.change(key[0], -1)
        self._finished[key] = confirmed = RelayConfirmed(tuple(relayed.unreached))
        self._requests.answer(*key, confirmed)

    def tick(self) -> None:
        """Give up roles in groups whose owners have not been heard from for 2t."""
        horizon_us = self._outbox.now - 2 * self._settings.renew_us
        for id in [id for id, role in self.roles.items() if role.heard_us <= horizon_us]:
            del self.roles[id]

    def check(self) -> None:
        """Assert that this node serves no more members than it has capacity for."""
        assert 0 <= self.granted <= self._settings.capacity, "more granted than there is capacity"
        for role in self.roles.values():
            role.check()
        assert all(relayed.waiting for relayed in self._relayed.values())
        assert self._account.size == len(self._relayed)
