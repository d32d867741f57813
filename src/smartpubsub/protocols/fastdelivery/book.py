"""Who serves whom in a group: regions, helpers, and what is to be done when that changes.

The book only keeps accounts. Every change returns orders, and what comes of an order is told to the
book as another change. A member has its place in one of five ways:

- waiting: for a place, which somebody has to agree to;
- direct: the publisher serves it;
- helper: the publisher serves it, and it serves others;
- delegated: a helper serves it;
- silent: it does not answer, and nobody tries to serve it until it is heard from.

Nobody is moved to a helper before the helper has said that it has it, and a place at a helper is
taken from when the helper is told until it is told otherwise: so no limit is ever exceeded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from smartpubsub.kademlia.keys import Contact
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.fastdelivery.members import Member, Place, Region
from smartpubsub.protocols.fastdelivery.orders import (
    AskToHelp,
    Dismiss,
    HandOver,
    Order,
    Overload,
    Serve,
    TakeBack,
    TurnAway,
)
from smartpubsub.protocols.fastdelivery.settings import FastSettings
from smartpubsub.seam import Peer


class Book:
    """The members of a group."""

    def __init__(self, settings: FastSettings, first_term: int = 0) -> None:
        self.members: dict[Peer, Member] = {}
        self.regions: dict[str, Region] = {}
        self._settings = settings
        self._last_term = first_term
        self._orders: list[Order] = []
        self._fan_out = 0
        self.now = 0

    def __len__(self) -> int:
        return len(self.members)

    @property
    def fan_out(self) -> int:
        """How many the publisher serves itself, helpers among them."""
        return self._fan_out

    def taken(self) -> list[Order]:
        """What is to be done."""
        orders, self._orders = self._orders, []
        return orders

    def helpers(self) -> Iterator[Member]:
        """All who help."""
        return (member for member in self.members.values() if member.place is Place.HELPER)

    # --- members ---

    def put(
        self, contact: Contact, predicates: tuple[Predicate, ...], region: str, capacity: int
    ) -> None:
        """Somebody joins, or says anew what it wants, where it is and what it offers."""
        member = self.members.get(contact.peer)
        if member is not None and member.region != region:
            self.remove(contact.peer)
            member = None
        if member is None:
            self._add(Member(contact, predicates, region, capacity))
            return
        member.contact, member.predicates, member.capacity = contact, predicates, capacity
        self._consider(member)
        if member.place is Place.SILENT:
            self.heard(contact.peer)
            return
        serving = member.helper or member.promised_to
        if serving is not None:  # What it was told of the member is out of date.
            term = self.members[serving].term
            self._orders.append(HandOver(serving, term, (member.peer,)))
        if member.place is Place.HELPER:
            self._limit(member)
        if member.place in (Place.DIRECT, Place.HELPER):
            self._orders.append(Serve(member.peer))
        self._settle(region)

    def _add(self, member: Member) -> None:
        region = self.regions.setdefault(member.region, Region(member.region))
        self.members[member.peer] = region.members[member.peer] = member
        region.places[member.place][member.peer] = member
        region.track(member)
        self._consider(member)
        self._settle(member.region)

    def remove(self, peer: Peer) -> None:
        """Somebody has left, or has lapsed."""
        member = self.members.get(peer)
        if member is None:
            return
        self._detach(member)
        if member.place is Place.HELPER:
            self._orders.append(Dismiss(peer, member.term))
            self._disband(member)
        self._set_place(member, Place.SILENT)
        if self.regions[member.region].asked == peer:
            self.regions[member.region].asked = None
        self._drop(member)
        if member.region in self.regions:
            self._settle(member.region)

    def _drop(self, member: Member) -> None:
        region = self.regions[member.region]
        del self.members[member.peer]
        region.drop(member)
        if not region.members:
            del self.regions[member.region]

    # --- what comes of orders ---

    def agreed(self, peer: Peer, term: int, granted: int) -> None:
        """A candidate has said how many it would serve; none if it declines."""
        member = self.members.get(peer)
        if member is None or self.regions[member.region].asked != peer:
            return
        self.regions[member.region].asked = None
        if min(granted, member.capacity) <= member.granted:
            member.unwilling_until = self.now + self._settings.decline_us
            self.regions[member.region].decline_count += 1
        else:
            if member.place is not Place.HELPER:
                self._detach(member)
                self._set_place(member, Place.HELPER)
                member.term = term
                self._orders.append(Serve(peer))
            member.granted = min(granted, member.capacity)
            self.regions[member.region].decline_count = 0
        self._consider(member)
        self._settle(member.region)

    def handed_over(
        self, helper: Peer, term: int, wanted: Mapping[Peer, tuple[Predicate, ...]]
    ) -> None:
        """A helper serves these now, for what they wanted when it was told."""
        serving = self.members.get(helper)
        if serving is None or serving.place is not Place.HELPER or serving.term != term:
            return
        for peer, predicates in wanted.items():
            member = self.members.get(peer)
            if member is None or member.predicates != predicates:
                continue  # It is being told something else.
            if member.promised_to == helper:
                member.promised_to = None
                member.helper = helper
                self._set_place(member, Place.DELEGATED)
            if member.helper == helper:
                self._orders.append(Serve(peer))
        self._settle(serving.region)

    def not_helping(self, peer: Peer, term: int) -> None:
        """A helper does not know any more that it is one."""
        member = self.members.get(peer)
        if member is not None and member.place is Place.HELPER and member.term == term:
            self._disband(member)
            self._set_place(member, Place.WAITING)
            self._settle(member.region)

    def silent(self, peer: Peer) -> None:
        """Somebody does not answer."""
        member = self.members.get(peer)
        if member is None or member.place is Place.SILENT:
            return
        region = self.regions[member.region]
        if region.asked == peer:
            region.asked = None
        self._detach(member)
        if member.place is Place.HELPER:
            self._disband(member)
        self._set_place(member, Place.SILENT)
        self._settle(member.region)

    def heard(self, peer: Peer) -> None:
        """Somebody who was silent is there again."""
        member = self.members.get(peer)
        if member is not None and member.place is Place.SILENT:
            self._set_place(member, Place.WAITING)
            self._settle(member.region)

    def settle(self) -> None:
        """Some time has passed: see whether somebody can help who would not before."""
        for name, region in list(self.regions.items()):
            for member in region.members.values():
                self._consider(member)
            region.decline_count = 0
            self._settle(name)

    # --- arranging ---

    def _settle(self, name: str) -> None:
        region, direct_max = self.regions[name], self._settings.direct_max
        if region.asked is not None and region.direct_count >= direct_max and not region.has_room:
            return  # Nothing can be done before there is an answer.
        self._delegate(region)
        for member in region.homeless:
            if region.direct_count >= direct_max or not self._has_fan_out:
                break
            self._set_place(member, Place.DIRECT)
            self._orders.append(Serve(member.peer))
        # Whoever is about to leave makes room for somebody who waits.
        leaving = len(region.leaving)
        # Where there is a helper that may serve more, it is to have all but the pool.
        may_extend = any(peer in region.able for peer in region.places[Place.HELPER])
        most = self._settings.pool if may_extend else direct_max
        is_crowded = region.direct_count - leaving + len(region.homeless) > most
        if region.asked is None and (is_crowded or (region.homeless and not self._has_fan_out)):
            self._seek_help(region)
        if region.direct_count <= direct_max:
            region.is_overloaded = False
        self._dismiss_idle(region)

    def _delegate(self, region: Region) -> None:
        """Give helpers those who wait and those who are served directly, but for a strong pool."""
        helpers = [m for m in region.at(Place.HELPER) if m.room > 0]
        if not helpers:
            return
        free = [m for m in region.at(Place.DIRECT) if m.promised_to is None]
        free = [*(m for m in free if m.peer != region.asked), *region.homeless]
        free.sort(key=lambda member: -member.capacity)
        left = free[self._settings.pool :]
        left.sort(key=lambda member: member.place is Place.DIRECT)  # Who waits comes first.
        for helper in helpers:
            given, left = left[: helper.room], left[helper.room :]
            if not given:
                return
            for member in given:
                member.promised_to = helper.peer
                helper.charges[member.peer] = None
                region.track(member)
            peers = tuple(member.peer for member in given)
            self._orders.append(HandOver(helper.peer, helper.term, peers))

    def _seek_help(self, region: Region) -> None:
        # Where many publishers want help and few give it, members would wait for all to decline.
        is_vain = region.decline_count >= self._settings.decline_count_max
        has_places = len(region.homeless) <= self._settings.fan_out_max - self._fan_out
        candidate = None if is_vain and has_places else self._candidate(region)
        if candidate is None:
            self._serve_all(region)
            return
        need = len(region.homeless) + max(0, region.direct_count - self._settings.pool)
        region.asked = candidate.peer
        if candidate.place is Place.HELPER:
            term, wanted = candidate.term, candidate.granted + max(need, candidate.granted)
        else:
            self._last_term += 1
            term, wanted = self._last_term, max(1, need)
        self._orders.append(AskToHelp(candidate.peer, term, min(wanted, candidate.capacity)))

    def _candidate(self, region: Region) -> Member | None:
        """A helper that may serve more; or else the most capable, if possible not yet in care."""
        able = [
            member
            for member in region.able.values()
            if member.promised_to is None and member.place is not Place.SILENT
        ]
        for places in ((Place.HELPER,), (Place.DIRECT, Place.WAITING), (Place.DELEGATED,)):
            some = [member for member in able if member.place in places]
            if not self._has_fan_out:  # Then only who is served anyway can be made a helper.
                some = [m for m in some if m.place in (Place.HELPER, Place.DIRECT)]
            if some:
                return max(some, key=lambda member: member.capacity - member.granted)
        return None

    def _consider(self, member: Member) -> None:
        """Take note whether a member may agree to serve somebody."""
        able = self.regions[member.region].able
        if member.capacity > member.granted and member.unwilling_until <= self.now:
            able[member.peer] = member
        else:
            able.pop(member.peer, None)

    def _serve_all(self, region: Region) -> None:
        """Nobody can help: serve those who wait directly, as far as that goes."""
        for member in region.homeless:
            if self._has_fan_out:
                self._set_place(member, Place.DIRECT)
                self._orders.append(Serve(member.peer))
            elif not member.was_served:
                self._orders.append(TurnAway(member.peer))
                self._drop(member)
        if region.direct_count > self._settings.direct_max and not region.is_overloaded:
            region.is_overloaded = True
            self._orders.append(Overload(region.name, region.direct_count))

    def _dismiss_idle(self, region: Region) -> None:
        """Helpers who serve nobody are served directly again."""
        for helper in region.at(Place.HELPER):
            has_place = region.direct_count < self._settings.direct_max
            if not helper.charges and has_place and region.asked != helper.peer:
                self._orders.append(Dismiss(helper.peer, helper.term))
                helper.granted = 0
                self._consider(helper)
                self._set_place(helper, Place.DIRECT)

    def _limit(self, helper: Member) -> None:
        """A helper offers less than it has agreed to: take back what is too much."""
        helper.granted = min(helper.granted, helper.capacity)
        for peer in list(helper.charges)[helper.granted :]:
            charge = self.members[peer]
            self._detach(charge)
            if charge.place is Place.DELEGATED:
                self._set_place(charge, Place.WAITING)

    def _detach(self, member: Member) -> None:
        """Nobody is to serve a member any more in the publisher's stead."""
        serving = member.helper or member.promised_to
        member.helper = member.promised_to = None
        self.regions[member.region].track(member)
        if serving is not None:
            helper = self.members[serving]
            del helper.charges[member.peer]
            self._orders.append(TakeBack(serving, helper.term, member.peer))

    def _disband(self, helper: Member) -> None:
        """Those in a helper's care are without it."""
        for peer in helper.charges:
            charge = self.members[peer]
            charge.helper = charge.promised_to = None
            self.regions[charge.region].track(charge)
            if charge.place is Place.DELEGATED:
                self._set_place(charge, Place.WAITING)
        helper.charges = {}
        helper.granted = 0
        self._consider(helper)

    def _set_place(self, member: Member, place: Place) -> None:
        served = (Place.DIRECT, Place.HELPER)
        self._fan_out += (place in served) - (member.place in served)
        places = self.regions[member.region].places
        del places[member.place][member.peer]
        places[place][member.peer] = member
        member.place = place
        self.regions[member.region].track(member)
        member.was_served |= place not in (Place.WAITING, Place.SILENT)

    @property
    def _has_fan_out(self) -> bool:
        return self._fan_out < self._settings.fan_out_max
