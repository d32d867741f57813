"""An owner's groups: who may join, and the book's orders carried out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import groupby

from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.settings import SECOND
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.fastdelivery.book import (
    AskToHelp,
    Book,
    Dismiss,
    HandOver,
    MemberState,
    Order,
    Overload,
    Serve,
    TakeBack,
    TurnAway,
)
from smartpubsub.protocols.fastdelivery.group import Contract, Group, everybody_may, nobody_may_yet
from smartpubsub.protocols.fastdelivery.office import Office
from smartpubsub.protocols.fastdelivery.parts import (
    Agreed,
    Answer,
    Charge,
    Delegate,
    Done,
    GroupId,
    Invite,
    Join,
    Joined,
    NotHelping,
    Notice,
    Ping,
    Recruit,
    Release,
    Request,
    Watched,
)
from smartpubsub.protocols.fastdelivery.signatures import is_invited, is_request_signed
from smartpubsub.protocols.fastdelivery.told import GroupOpened, GroupRefused, Overloaded
from smartpubsub.seam import Peer

NO_SUCH_GROUP = "its owner has no such group; look with group search how it is called"
TERM_BITS = 32
"""Terms of a later incarnation are higher than all those of earlier ones."""


class Owning:
    """The groups of this node."""

    def __init__(self, office: Office) -> None:
        self._office = office
        self.groups: dict[Predicate, Group] = {}
        self._silent: dict[Peer, dict[Predicate, Group]] = {}
        """In which groups somebody is known to be silent."""

    # --- groups ---

    def create(
        self,
        predicate: Predicate,
        *,
        is_advertised: bool = True,
        is_private: bool = False,
        contract: Contract = everybody_may,
    ) -> Group | None:
        """A new group, or the one that is there, with this contract; None if it is refused."""
        office = self._office
        group = self.groups.get(predicate)
        if group is not None:
            problem = group.difference(is_advertised, is_private, contract)
            if problem:
                office.deliver(GroupRefused(self.id_of(group), problem))
                return None
            group.contract = contract
            office.records.put_group(group)
            if group.is_open:
                office.deliver(GroupOpened(self.id_of(group)))
            return group
        if len(self.groups) >= office.settings.group_count_max:
            office.refusals["groups"] += 1
            told = GroupId(office.own.peer, predicate)
            office.deliver(GroupRefused(told, self.too_many))
            return None
        book = Book(office.settings, office.incarnation << TERM_BITS)
        group = Group(
            predicate, book, is_advertised=is_advertised, is_private=is_private, contract=contract
        )
        self.groups[predicate] = group
        office.records.put_group(group)
        if is_advertised:
            office.advertising.advertise(group)
        else:
            self.open(group)
        return group

    @property
    def too_many(self) -> str:
        """Why there can be no further group."""
        limit = self._office.settings.group_count_max
        return f"this node has as many groups as it may, {limit}; raise its limit group_count_max"

    def open(self, group: Group) -> None:
        """All who waited for such a group are known: events can go out."""
        if not group.is_open:
            group.is_open = True
            self._office.deliver(GroupOpened(self.id_of(group)))
            self._office.spreading.on_open(group)

    def id_of(self, group: Group) -> GroupId:
        """What others call a group of this node's."""
        return GroupId(self._office.own.peer, group.predicate)

    def take_watchers(self, group: Group, notice: Notice, watched: Sequence[Watched]) -> None:
        """A board names some who waited for such a group: they are members from now on.

        Each is told, so that it can say itself what it wants; until then this is all that is known,
        and lapses as the search would.
        """
        office = self._office
        for request, life_s in watched:
            peer = request.contact.peer
            if peer == office.own.peer or not is_request_signed(office, request):
                continue
            known = group.requests.get(peer)
            wanted = request.predicates
            if known is not None:
                if all(predicate in known.predicates for predicate in wanted):
                    continue
                wanted = tuple(dict.fromkeys((*known.predicates, *wanted)))
            if group.is_private:
                continue
            # Who may not join is told so when it asks.
            office.ask(peer, Invite(notice), lambda _: None, tries_max=office.settings.tries_max)
            if self._refusal(group, request, b""):
                continue
            version = known.version if known is not None else 0
            renewed_us = office.now - 2 * office.settings.renew_us + life_s * SECOND
            self._take(
                group,
                request._replace(predicates=wanted, version=version),
                min(renewed_us, office.now),
            )

    def restore(self, predicate: Predicate, request: Request, renewed_us: int) -> None:
        """A member of before the node has started again."""
        group = self.groups.get(predicate)
        if group is not None:
            self._take(group, request, renewed_us)

    # --- joining and leaving ---

    def on_join(self, contact: Contact, number: int, part: Join) -> None:
        """Somebody joins, renews, changes what it wants, or leaves."""
        office, peer, request = self._office, contact.peer, part.request
        group = self.groups.get(part.group)
        if group is None:
            office.answer(peer, number, Joined(NO_SUCH_GROUP))
            return
        if request.contact.peer != peer or not is_request_signed(office, request):
            office.refusals["requests"] += 1
            office.answer(peer, number, Joined("the request is not signed by who sends it"))
            return
        known = group.requests.get(peer)
        if known is not None and request.version < known.version:
            return  # A later one has overtaken it, and is answered.
        if not request.predicates:
            self.remove(group, peer)
            office.answer(peer, number, Joined(""))
            return
        is_as_before = known is not None and _told_apart(known) == _told_apart(request)
        if is_as_before and group.contract is nobody_may_yet:
            refusal = ""  # It was let in before the node has started again.
        else:
            refusal = self._refusal(group, request, part.invitation)
        if refusal:
            self.remove(group, peer)
            office.refusals["joins"] += 1
            office.answer(peer, number, Joined(refusal))
            return
        group.questions[peer] = number
        self._take(group, request, office.now)

    def _refusal(self, group: Group, request: Request, invitation: bytes) -> str:
        peer = request.contact.peer
        is_full = len(group.requests) >= self._office.settings.member_count_max
        if is_full and peer not in group.requests:
            return "the group has as many members as it can have; try again later"
        if group.is_private and not is_invited(self._office, group.predicate, peer, invitation):
            if invitation:
                return (
                    "the group is private, and this is no invitation to it for this node; ask again"
                )
            return "the group is private; ask its owner for an invitation, and join with that"
        return group.contract(request)

    def _take(self, group: Group, request: Request, renewed_us: int) -> None:
        office, peer = self._office, request.contact.peer
        known = group.requests.get(peer)
        group.requests[peer] = request
        group.renewed_us[peer] = max(renewed_us, group.renewed_us.get(peer, renewed_us))
        office.records.put_member(group, request)
        if known is None or _told_apart(known) != _told_apart(request):
            group.wants.put(peer, request.predicates)
        if request.region:
            self._place(group, request, request.region)
        else:
            office.measuring.measure(group, request)

    def place(self, group: Group, request: Request, region: str) -> None:
        """It is known where a member is."""
        if group.requests.get(request.contact.peer) is request:
            self._place(group, request, region)

    def _place(self, group: Group, request: Request, region: str) -> None:
        contact, predicates, _, capacity, *_ = request
        member = group.book.members.get(contact.peer)
        is_same = member is not None and (
            (member.contact, member.predicates, member.region, member.capacity)
            == (contact, predicates, region, capacity)
        )
        if not is_same:
            group.book.now = self._office.now
            group.book.put(contact, predicates, region, capacity)
        elif member is not None and member.state is MemberState.SILENT:
            self._hear_in(group, contact.peer)
        elif member is not None and member.state is not MemberState.WAITING:
            self._answer(group, contact.peer, "")
        self.carry_out(group)

    def remove(self, group: Group, peer: Peer) -> None:
        """Somebody is no member any more."""
        if group.requests.pop(peer, None) is None:
            return
        group.renewed_us.pop(peer, None)
        group.questions.pop(peer, None)
        group.wants.put(peer, ())
        self._office.records.drop_member(group, peer)
        self._forget_silence(group, peer)
        group.book.remove(peer)
        self._office.spreading.on_gone(group, peer)
        self.carry_out(group)

    def _answer(self, group: Group, peer: Peer, refusal: str) -> None:
        number = group.questions.pop(peer, None)
        if number is not None:
            self._office.answer(peer, number, Joined(refusal))

    # --- orders ---

    def carry_out(self, group: Group) -> None:
        """Do what a group's book wants done."""
        group.book.now = self._office.now
        while orders := group.book.take_orders():
            for is_serving, some in groupby(orders, lambda order: isinstance(order, Serve)):
                if is_serving:
                    self._serve(group, [order.peer for order in some if isinstance(order, Serve)])
                else:
                    for order in some:
                        self._carry_out(group, order)

    def _serve(self, group: Group, peers: Sequence[Peer]) -> None:
        """Members have their places: they are told, and get all together what they have missed."""
        for peer in peers:
            self._forget_silence(group, peer)
            self._answer(group, peer, "")
        self._office.spreading.on_served(group, peers)

    def _carry_out(self, group: Group, order: Order) -> None:
        office = self._office
        match order:
            case TurnAway(peer):
                self._answer(group, peer, "the group has no place left; try again later")
                office.refusals["members"] += 1
                self.remove(group, peer)
            case AskToHelp(peer, term, wanted):
                office.ask(
                    peer,
                    Recruit(group.predicate, term, wanted),
                    partial(self._on_agreed, group, peer, term),
                    partial(self.on_silence, group, peer),
                )
            case HandOver(helper, term, peers):
                charges = [group.book.members[p] for p in peers if p in group.book.members]
                named = tuple(Charge(m.contact, m.predicates) for m in charges)
                self._delegate(group, helper, term, charges=named)
            case TakeBack(helper, term, peer):
                self._delegate(group, helper, term, gone=(peer,))
            case Dismiss(helper, term):
                office.ask(helper, Release(group.predicate, term), lambda _: None)
            case Overload(region, served):
                office.deliver(Overloaded(self.id_of(group), region, served))

    def _delegate(
        self,
        group: Group,
        helper: Peer,
        term: int,
        *,
        charges: tuple[Charge, ...] = (),
        gone: tuple[Peer, ...] = (),
    ) -> None:
        group.last_delegation += 1
        part = Delegate(group.predicate, term, group.last_delegation, charges, gone)
        wanted = {charge.contact.peer: charge.predicates for charge in charges}
        self._office.ask(
            helper,
            part,
            partial(self._on_delegated, group, helper, term, wanted),
            partial(self.on_silence, group, helper),
        )

    def _on_agreed(self, group: Group, peer: Peer, term: int, part: Answer) -> None:
        if isinstance(part, Agreed):
            group.book.now = self._office.now
            group.book.agreed(peer, term, part.granted)
            self.carry_out(group)

    def _on_delegated(
        self,
        group: Group,
        helper: Peer,
        term: int,
        wanted: Mapping[Peer, tuple[Predicate, ...]],
        part: Answer,
    ) -> None:
        if isinstance(part, Done):
            group.book.handed_over(helper, term, wanted)
            self.carry_out(group)
        elif isinstance(part, NotHelping):
            self.on_not_helping(group, helper, term)

    def on_not_helping(self, group: Group, helper: Peer, term: int) -> None:
        """A helper has forgotten that it is one."""
        group.book.now = self._office.now
        group.book.not_helping(helper, term)
        self.carry_out(group)

    # --- who is there ---

    def on_silence(self, group: Group, peer: Peer) -> None:
        """Somebody does not answer."""
        member = group.book.members.get(peer)
        if member is None or member.state is MemberState.SILENT:
            return
        group.book.now = self._office.now
        group.book.silent(peer)
        self._silent.setdefault(peer, {})[group.predicate] = group
        self._office.spreading.on_silent(group, peer)
        self.carry_out(group)

    def doubt(self, group: Group, peer: Peer) -> None:
        """A helper could not reach somebody: the owner tries itself, and serves it otherwise."""
        self.on_silence(group, peer)
        self._office.ask(peer, Ping(), lambda _: self.hear(peer))

    def hear(self, peer: Peer) -> None:
        """Somebody has said something: if it was silent it gets a place again."""
        for group in list(self._silent.get(peer, {}).values()):
            self._hear_in(group, peer)

    def _hear_in(self, group: Group, peer: Peer) -> None:
        self._forget_silence(group, peer)
        group.book.now = self._office.now
        group.book.heard(peer)
        self.carry_out(group)

    def _forget_silence(self, group: Group, peer: Peer) -> None:
        groups = self._silent.get(peer)
        if groups is not None:
            groups.pop(group.predicate, None)
            if not groups:
                del self._silent[peer]

    def tick(self) -> None:
        """Renew notices, forget who has not renewed, and look whether helpers are there."""
        office = self._office
        horizon_us = office.now - 2 * office.settings.renew_us
        for group in list(self.groups.values()):
            office.advertising.renew(group)
            for peer in [p for p, at in group.renewed_us.items() if at <= horizon_us]:
                self.remove(group, peer)
            for helper in list(group.book.helpers()):
                self._delegate(group, helper.peer, helper.term)
            group.book.now = office.now
            group.book.settle()
            self.carry_out(group)
        for peer in list(self._silent):
            office.ask(peer, Ping(), lambda _: None, tries_max=1)


def _told_apart(request: Request) -> tuple[object, ...]:
    """What of a request makes a difference."""
    return request._replace(version=0, signature=b"")
