"""Which node serves which member of a group: regions, helpers, and the orders that follow.

The book does no I/O. Every change adds orders; the owner carries them out and reports the result to
the book as another change. `MEMBER_TRANSITIONS` and `DELEGATION_TRANSITIONS` are the two state
machines of a member.

A member moves to a helper only after the helper has confirmed it. A place at a helper counts as
taken from the moment the owner offers the member to it until the owner takes the member back. So no
limit is exceeded at any time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, TypeAlias

from smartpubsub.kademlia.keys import Contact
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.fastdelivery.settings import FastSettings
from smartpubsub.seam import Peer

MEASURED = "measured-"
"""The prefix of the names of measured regions; no region that a member declares starts so."""
COMPLAINTS = 2
"""A helper loses its role when this many members complain of it, or all that it serves."""


# --- states ---


class MemberState(Enum):
    """How a member is served."""

    WAITING = "waiting"
    """By no node; a node has to agree first."""
    DIRECT = "direct"
    """By the owner."""
    HELPER = "helper"
    """By the owner; it serves other members."""
    DELEGATED = "delegated"
    """By a helper."""
    SILENT = "silent"
    """By no node: it does not answer. Any message from it ends this."""


class Delegation(Enum):
    """What a helper knows of a member."""

    NONE = "none"
    OFFERED = "offered"
    """The owner has told the helper of the member; the helper has not confirmed it."""
    ACCEPTED = "accepted"


MEMBER_TRANSITIONS: dict[tuple[MemberState, str], MemberState] = {
    (MemberState.WAITING, "owner serves it"): MemberState.DIRECT,
    (MemberState.WAITING, "helper accepts it"): MemberState.DELEGATED,
    (MemberState.WAITING, "agrees to help"): MemberState.HELPER,
    (MemberState.WAITING, "does not answer"): MemberState.SILENT,
    (MemberState.DIRECT, "helper accepts it"): MemberState.DELEGATED,
    (MemberState.DIRECT, "agrees to help"): MemberState.HELPER,
    (MemberState.DIRECT, "does not answer"): MemberState.SILENT,
    (MemberState.DELEGATED, "loses its helper"): MemberState.WAITING,
    (MemberState.DELEGATED, "agrees to help"): MemberState.HELPER,
    (MemberState.DELEGATED, "does not answer"): MemberState.SILENT,
    (MemberState.HELPER, "is dismissed"): MemberState.DIRECT,
    (MemberState.HELPER, "stops helping"): MemberState.WAITING,
    (MemberState.HELPER, "does not answer"): MemberState.SILENT,
    (MemberState.SILENT, "is heard from"): MemberState.WAITING,
}

DELEGATION_TRANSITIONS: dict[tuple[Delegation, str], Delegation] = {
    (Delegation.NONE, "hand over"): Delegation.OFFERED,
    (Delegation.OFFERED, "helper confirms"): Delegation.ACCEPTED,
    (Delegation.OFFERED, "take back"): Delegation.NONE,
    (Delegation.ACCEPTED, "take back"): Delegation.NONE,
}

_SERVED_BY_OWNER = (MemberState.DIRECT, MemberState.HELPER)


# --- orders ---


class Serve(NamedTuple):
    """Tell a member that it is served, and send it the events that it has missed."""

    peer: Peer


class TurnAway(NamedTuple):
    """Refuse a new member: the group has no place for it."""

    peer: Peer


class AskToHelp(NamedTuple):
    """Ask a candidate to serve a number of members."""

    peer: Peer
    term: int
    wanted: int


class HandOver(NamedTuple):
    """Tell a helper to serve members as they are now."""

    helper: Peer
    term: int
    peers: tuple[Peer, ...]


class TakeBack(NamedTuple):
    """Tell a helper to stop serving a member."""

    helper: Peer
    term: int
    peer: Peer


class Dismiss(NamedTuple):
    """Tell a helper that it is not needed any more."""

    helper: Peer
    term: int


class Overload(NamedTuple):
    """Report that a region exceeds `direct_max` because no member in it can help."""

    region: str
    served: int


Order: TypeAlias = Serve | TurnAway | AskToHelp | HandOver | TakeBack | Dismiss | Overload


# --- members and regions ---


@dataclass(slots=True, eq=False)
class GroupMember:
    """A member of a group."""

    contact: Contact
    predicates: tuple[Predicate, ...]
    region: str
    capacity: int
    state: MemberState = MemberState.WAITING
    delegation: Delegation = Delegation.NONE
    helper: Peer | None = None
    """The helper that the member was offered to or is served by."""
    delegated: dict[Peer, None] = field(default_factory=dict)
    """The members that it serves as a helper, or that the owner has offered it."""
    term: int = 0
    granted: int = 0
    """How many members it has agreed to serve."""
    declined_until: int = -(1 << 62)
    was_served: bool = False
    """Whether it was ever served; the owner never turns such a member away."""
    delegated_us: int = 0
    """Since when its helper serves it."""
    unreached_by: dict[Peer, int] = field(default_factory=dict)
    """The helpers that did not reach it although the owner did, and until when the owner does not
    offer it to them."""
    complaints: dict[Peer, None] = field(default_factory=dict)
    """The members that have missed events which it has confirmed as their helper."""

    @property
    def peer(self) -> Peer:
        """The member's peer id."""
        return self.contact.peer

    @property
    def room(self) -> int:
        """How many more members it would serve."""
        return self.granted - len(self.delegated) if self.state is MemberState.HELPER else 0


@dataclass(slots=True, eq=False)
class Region:
    """The members of one region."""

    name: str
    members: dict[Peer, GroupMember] = field(default_factory=dict)
    by_state: dict[MemberState, dict[Peer, GroupMember]] = field(
        default_factory=lambda: {state: {} for state in MemberState}
    )
    candidates: dict[Peer, GroupMember] = field(default_factory=dict)
    """Members that may agree to serve others, or more than they do."""
    unoffered: dict[Peer, GroupMember] = field(default_factory=dict)
    """Waiting members that no helper has been told of."""
    leaving: dict[Peer, GroupMember] = field(default_factory=dict)
    """Directly served members that a helper has been told of."""
    asked: Peer | None = None
    """The candidate that is being asked to help."""
    decline_count: int = 0
    """How many candidates have declined in a row."""
    is_overloaded: bool = False

    def at(self, state: MemberState) -> list[GroupMember]:
        """Return the members in a state, in the order in which they reached it."""
        return list(self.by_state[state].values())

    @property
    def direct_count(self) -> int:
        """How many members the owner serves itself, not counting helpers."""
        return len(self.by_state[MemberState.DIRECT])

    @property
    def unserved(self) -> list[GroupMember]:
        """Waiting members that no helper has been told of, except the asked candidate."""
        return [member for peer, member in self.unoffered.items() if peer != self.asked]

    @property
    def has_room(self) -> bool:
        """Whether a helper would serve one more member."""
        return any(helper.room > 0 for helper in self.by_state[MemberState.HELPER].values())

    def track(self, member: GroupMember) -> None:
        """Update the indexes of unoffered and leaving members."""
        is_offered = member.delegation is Delegation.OFFERED
        is_waiting = member.state is MemberState.WAITING
        is_direct = member.state is MemberState.DIRECT
        _keep(self.unoffered, member, is_waiting and not is_offered)
        _keep(self.leaving, member, is_direct and is_offered)

    def drop(self, member: GroupMember) -> None:
        """Remove a member from the region."""
        everywhere = (self.members, self.by_state[member.state], self.candidates)
        for members in (*everywhere, self.unoffered, self.leaving):
            members.pop(member.peer, None)


def _keep(members: dict[Peer, GroupMember], member: GroupMember, is_one: bool) -> None:
    if is_one:
        members[member.peer] = member
    else:
        members.pop(member.peer, None)


class Book:
    """The members of a group."""

    def __init__(
        self,
        settings: FastSettings,
        clock: Callable[[], int],
        first_term: int = 0,
        blame_of: Callable[[Peer], int] = lambda _peer: 0,
    ) -> None:
        self.members: dict[Peer, GroupMember] = {}
        self.regions: dict[str, Region] = {}
        self._settings = settings
        self._clock = clock
        self._last_term = first_term
        self._blame_of = blame_of
        self._last_region = 0
        self._orders: list[Order] = []
        self._fan_out = 0

    def __len__(self) -> int:
        return len(self.members)

    @property
    def fan_out(self) -> int:
        """How many members the owner serves itself, helpers included."""
        return self._fan_out

    def take_orders(self) -> list[Order]:
        """Return the orders that have not been taken yet."""
        orders, self._orders = self._orders, []
        return orders

    def helpers(self) -> Iterator[GroupMember]:
        """Iterate over all helpers."""
        return (m for m in self.members.values() if m.state is MemberState.HELPER)

    # --- measured regions ---

    def landmarks(self) -> dict[str, Contact]:
        """Return a member of each measured region that answers."""
        found = {}
        for name, region in self.regions.items():
            if name.startswith(MEASURED):
                there = (m for m in region.members.values() if m.state is not MemberState.SILENT)
                member = next(there, None)
                if member is not None:
                    found[name] = member.contact
        return found

    def new_region(self) -> str:
        """Return a name for a region that is not known yet."""
        self._last_region += 1
        return f"{MEASURED}{self._last_region}"

    # --- members ---

    def put(
        self, contact: Contact, predicates: tuple[Predicate, ...], region: str, capacity: int
    ) -> None:
        """Add a member, or update its interest, region and capacity."""
        member = self.members.get(contact.peer)
        if member is not None and member.region != region:
            self.remove(contact.peer)
            member = None
        if member is None:
            self._add(GroupMember(contact, predicates, region, capacity))
            return
        member.contact, member.predicates, member.capacity = contact, predicates, capacity
        self._consider(member)
        if member.state is MemberState.SILENT:
            self.heard(contact.peer)
            return
        if member.helper is not None:  # The helper does not know the member's new interest.
            term = self.members[member.helper].term
            self._orders.append(HandOver(member.helper, term, (member.peer,)))
        if member.state is MemberState.HELPER:
            self._limit(member)
        if member.state in _SERVED_BY_OWNER:
            self._orders.append(Serve(member.peer))
        self._settle(region)

    def _add(self, member: GroupMember) -> None:
        region = self.regions.setdefault(member.region, Region(member.region))
        self.members[member.peer] = region.members[member.peer] = member
        region.by_state[member.state][member.peer] = member
        region.track(member)
        self._consider(member)
        self._settle(member.region)

    def remove(self, peer: Peer) -> None:
        """Remove a member that has left or lapsed."""
        member = self.members.get(peer)
        if member is None:
            return
        self._detach(member)
        if member.state is MemberState.HELPER:
            self._orders.append(Dismiss(peer, member.term))
            self._disband(member)
        if self.regions[member.region].asked == peer:
            self.regions[member.region].asked = None
        self._drop(member)
        if member.region in self.regions:
            self._settle(member.region)

    def _drop(self, member: GroupMember) -> None:
        region = self.regions[member.region]
        self._fan_out -= member.state in _SERVED_BY_OWNER
        del self.members[member.peer]
        region.drop(member)
        if not region.members:
            del self.regions[member.region]

    # --- results of orders ---

    def agreed(self, peer: Peer, term: int, granted: int) -> None:
        """Take a candidate's answer: how many members it would serve; 0 if it declines."""
        member = self.members.get(peer)
        if member is None or self.regions[member.region].asked != peer:
            return
        self.regions[member.region].asked = None
        if member.state not in _SERVED_BY_OWNER and not self._has_fan_out:
            self._orders.append(Dismiss(peer, term))  # Other members have taken the last places.
            granted = 0
        if min(granted, member.capacity) <= member.granted:
            member.declined_until = self._clock() + self._settings.decline_us
            self.regions[member.region].decline_count += 1
        else:
            if member.state is not MemberState.HELPER:
                self._detach(member)
                self._move(member, "agrees to help")
                member.term, member.complaints = term, {}
                self._orders.append(Serve(peer))
            member.granted = min(granted, member.capacity)
            self.regions[member.region].decline_count = 0
        self._consider(member)
        self._settle(member.region)

    def handed_over(
        self, helper: Peer, term: int, wanted: Mapping[Peer, tuple[Predicate, ...]]
    ) -> None:
        """Take a helper's confirmation that it serves members with these predicates."""
        serving = self.members.get(helper)
        if serving is None or serving.state is not MemberState.HELPER or serving.term != term:
            return
        for peer, predicates in wanted.items():
            member = self.members.get(peer)
            if member is None or member.predicates != predicates:
                continue  # The helper is being told of the member's newer interest.
            if member.helper == helper:
                if member.delegation is Delegation.OFFERED:
                    self._delegation(member, "helper confirms")
                    member.delegated_us = self._clock()
                    self._move(member, "helper accepts it")
                self._orders.append(Serve(peer))
        self._settle(serving.region)

    def not_helping(self, peer: Peer, term: int) -> None:
        """Take the answer of a helper that does not know its role, such as after a restart."""
        member = self.members.get(peer)
        if member is not None and member.state is MemberState.HELPER and member.term == term:
            self._disband(member)
            self._move(member, "stops helping")
            self._settle(member.region)

    def complain(self, peer: Peer) -> Peer | None:
        """Take the complaint of a member that lacks an event which its helper has confirmed.

        Return the helper. It loses its role if two members complain; one member alone may lie.
        """
        member = self.members.get(peer)
        if member is None or member.state is not MemberState.DELEGATED or member.helper is None:
            return None
        helper = self.members[member.helper]
        helper.complaints[peer] = None
        if len(helper.complaints) >= min(COMPLAINTS, len(helper.delegated)):
            helper.declined_until = self._clock() + self._settings.decline_us
            region = self.regions[helper.region]
            region.asked = None if region.asked == helper.peer else region.asked
            self._orders.append(Dismiss(helper.peer, helper.term))
            self._disband(helper)
            self._move(helper, "stops helping")
            self._settle(helper.region)
        return helper.peer

    def silent(self, peer: Peer) -> None:
        """Stop serving a member that does not answer."""
        member = self.members.get(peer)
        if member is None or member.state is MemberState.SILENT:
            return
        region = self.regions[member.region]
        if region.asked == peer:
            region.asked = None
        self._detach(member)
        if member.state is MemberState.HELPER:
            self._disband(member)
        self._move(member, "does not answer")
        self._settle(member.region)

    def unreached(self, peer: Peer, helper: Peer) -> None:
        """Offer a member no more, for a while, to a helper that does not reach it."""
        member = self.members.get(peer)
        if member is not None:
            member.unreached_by[helper] = self._clock() + self._settings.renew_us

    def excuse(self, peer: Peer, helper: Peer) -> None:
        """Offer a member to a helper again: the owner does not reach it either."""
        member = self.members.get(peer)
        if member is not None:
            member.unreached_by.pop(helper, None)

    def heard(self, peer: Peer) -> None:
        """Serve a member again that was silent."""
        member = self.members.get(peer)
        if member is not None and member.state is MemberState.SILENT:
            self._move(member, "is heard from")
            self._settle(member.region)

    def settle(self) -> None:
        """Arrange all regions anew; forget whom helpers refused, or did not reach, long ago."""
        now = self._clock()
        for name, region in list(self.regions.items()):
            for member in region.members.values():
                self._consider(member)
                for helper in [h for h, until in member.unreached_by.items() if until <= now]:
                    del member.unreached_by[helper]
            region.decline_count = 0
            self._settle(name)

    # --- arranging ---

    def _settle(self, name: str) -> None:
        region, direct_max = self.regions[name], self._settings.direct_max
        if region.asked is not None and region.direct_count >= direct_max and not region.has_room:
            return  # The book can do nothing before the candidate answers.
        self._delegate(region)
        for member in region.unserved:
            if region.direct_count >= direct_max or not self._has_fan_out:
                break
            self._move(member, "owner serves it")
            self._orders.append(Serve(member.peer))
        # A leaving member makes room for a waiting one.
        leaving = len(region.leaving)
        # A full helper that may serve more gets all members but the pool.
        helpers = region.by_state[MemberState.HELPER]
        may_extend = any(not h.room and peer in region.candidates for peer, h in helpers.items())
        most = self._settings.pool if may_extend else direct_max
        is_crowded = region.direct_count - leaving + len(region.unserved) > most
        if region.asked is None and (is_crowded or (region.unserved and not self._has_fan_out)):
            self._seek_help(region)
        if region.direct_count <= direct_max:
            region.is_overloaded = False
        self._dismiss_idle(region)

    def _delegate(self, region: Region) -> None:
        """Offer waiting and directly served members to helpers, except for a strong pool.

        No helper is offered a member that it does not reach.
        """
        helpers = [m for m in region.at(MemberState.HELPER) if m.room > 0]
        if not helpers:
            return
        free = [m for m in region.at(MemberState.DIRECT) if m.delegation is Delegation.NONE]
        free = [*(m for m in free if m.peer != region.asked), *region.unserved]
        free.sort(key=lambda member: -member.capacity)
        left = free[self._settings.pool :]
        left.sort(key=lambda member: member.state is MemberState.DIRECT)  # Waiting members first.
        for helper in helpers:
            able = [member for member in left if helper.peer not in member.unreached_by]
            given = able[: helper.room]
            if not given:
                continue
            for member in given:
                helper.delegated[member.peer] = None
                member.helper = helper.peer
                self._delegation(member, "hand over")
            left = [member for member in left if member.helper is None]
            peers = tuple(member.peer for member in given)
            self._orders.append(HandOver(helper.peer, helper.term, peers))

    def _seek_help(self, region: Region) -> None:
        # If many owners compete for few helpers, members would wait for all of them to decline.
        is_vain = region.decline_count >= self._settings.decline_count_max
        has_places = len(region.unserved) <= self._settings.fan_out_max - self._fan_out
        candidate = None if is_vain and has_places else self._candidate(region)
        if candidate is None:
            self._serve_all(region)
            return
        need = len(region.unserved) + max(0, region.direct_count - self._settings.pool)
        region.asked = candidate.peer
        if candidate.state is MemberState.HELPER:
            term, wanted = candidate.term, candidate.granted + max(need, candidate.granted)
        else:
            self._last_term += 1
            term, wanted = self._last_term, max(1, need)
        self._orders.append(AskToHelp(candidate.peer, term, min(wanted, candidate.capacity)))

    def _candidate(self, region: Region) -> GroupMember | None:
        """Choose a full helper that may serve more; else the least blamed, most capable member."""
        able = [
            member
            for member in region.candidates.values()
            if member.delegation is not Delegation.OFFERED
            and member.state is not MemberState.SILENT
            and not member.room
        ]
        preferred = (
            (MemberState.HELPER,),
            (MemberState.DIRECT, MemberState.WAITING),
            (MemberState.DELEGATED,),
        )
        for states in preferred:
            some = [member for member in able if member.state in states]
            if not self._has_fan_out:  # Another helper would exceed the fan-out.
                some = [m for m in some if m.state in _SERVED_BY_OWNER]
            if some:
                return max(some, key=self._fitness)
        return None

    def _fitness(self, member: GroupMember) -> tuple[int, int]:
        """How well a candidate would help; peers that are blamed for lost events come last."""
        return -self._blame_of(member.peer), member.capacity - member.granted

    def _consider(self, member: GroupMember) -> None:
        """Update whether a member is a candidate for helping."""
        candidates = self.regions[member.region].candidates
        is_willing = member.declined_until <= self._clock()
        _keep(candidates, member, member.capacity > member.granted and is_willing)

    def _serve_all(self, region: Region) -> None:
        """Serve waiting members directly, as far as the fan-out allows: no member can help."""
        for member in region.unserved:
            if self._has_fan_out:
                self._move(member, "owner serves it")
                self._orders.append(Serve(member.peer))
            elif not member.was_served:
                self._orders.append(TurnAway(member.peer))
                self._drop(member)
        if region.direct_count > self._settings.direct_max and not region.is_overloaded:
            region.is_overloaded = True
            self._orders.append(Overload(region.name, region.direct_count))

    def _dismiss_idle(self, region: Region) -> None:
        """Serve helpers without delegated members directly again."""
        for helper in region.at(MemberState.HELPER):
            has_place = region.direct_count < self._settings.direct_max
            if not helper.delegated and has_place and region.asked != helper.peer:
                self._orders.append(Dismiss(helper.peer, helper.term))
                helper.granted = 0
                self._consider(helper)
                self._move(helper, "is dismissed")

    def _limit(self, helper: GroupMember) -> None:
        """Take back the members that exceed a helper's current capacity."""
        helper.granted = min(helper.granted, helper.capacity)
        for peer in list(helper.delegated)[helper.granted :]:
            member = self.members[peer]
            self._detach(member)
            if member.state is MemberState.DELEGATED:
                self._move(member, "loses its helper")

    def _detach(self, member: GroupMember) -> None:
        """Take a member back from its helper, if it has one."""
        if member.helper is None:
            return
        helper = self.members[member.helper]
        member.helper = None
        self._delegation(member, "take back")
        del helper.delegated[member.peer]
        self._orders.append(TakeBack(helper.peer, helper.term, member.peer))

    def _disband(self, helper: GroupMember) -> None:
        """Take all members from a helper that does not serve them any more."""
        for peer in helper.delegated:
            member = self.members[peer]
            member.helper = None
            self._delegation(member, "take back")
            if member.state is MemberState.DELEGATED:
                self._move(member, "loses its helper")
        helper.delegated, helper.complaints = {}, {}
        helper.granted = 0
        self._consider(helper)

    def _delegation(self, member: GroupMember, trigger: str) -> None:
        member.delegation = DELEGATION_TRANSITIONS[member.delegation, trigger]
        self.regions[member.region].track(member)

    def _move(self, member: GroupMember, trigger: str) -> None:
        state = MEMBER_TRANSITIONS[member.state, trigger]
        self._fan_out += (state in _SERVED_BY_OWNER) - (member.state in _SERVED_BY_OWNER)
        region = self.regions[member.region]
        del region.by_state[member.state][member.peer]
        region.by_state[state][member.peer] = member
        member.state = state
        region.track(member)
        member.was_served |= state not in (MemberState.WAITING, MemberState.SILENT)

    @property
    def _has_fan_out(self) -> bool:
        return self._fan_out < self._settings.fan_out_max

    def check(self) -> None:
        """Assert that every member is served once and that no limit is exceeded."""
        members = self.members
        assert sum(len(region.members) for region in self.regions.values()) == len(members)
        served = sum(member.state in _SERVED_BY_OWNER for member in members.values())
        assert served == self._fan_out <= self._settings.fan_out_max, "fan-out"
        for region in self.regions.values():
            assert region.asked is None or region.asked in region.members
            assert sum(map(len, region.by_state.values())) == len(region.members)
        for peer, member in members.items():
            region = self.regions[member.region]
            assert region.members[peer] is region.by_state[member.state][peer] is member
            is_delegated = member.delegation is Delegation.ACCEPTED
            assert (member.state is MemberState.DELEGATED) == is_delegated
            assert (member.delegation is Delegation.NONE) == (member.helper is None)
            if member.helper is not None:
                helper = members[member.helper]
                assert helper.state is MemberState.HELPER, "a delegated member has no helper"
                assert helper.region == member.region, "a helper serves another region"
                assert peer in helper.delegated
            assert not member.delegated or member.state is MemberState.HELPER
            assert all(members[other].helper == peer for other in member.delegated)
            assert 0 <= len(member.delegated) <= member.granted <= member.capacity, "capacity"
            assert member.term <= self._last_term, "a helper has a term of the future"
