"""The owner's part: admit members, arrange which node serves them, and disseminate events.

A group's book decides which node serves which member; the owner carries out the book's orders. An
event goes to a member directly or by its helper, and stays in flight until every member that wants
it has confirmed it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby

from smartpubsub.kademlia.blame import DROPPED, Blame
from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.settings import SECOND
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.fastdelivery.book import (
    MEASURED,
    AskToHelp,
    Book,
    Dismiss,
    GroupMember,
    HandOver,
    MemberState,
    Order,
    Overload,
    Serve,
    TakeBack,
    TurnAway,
)
from smartpubsub.protocols.fastdelivery.component import FastComponent
from smartpubsub.protocols.fastdelivery.directory_client import GroupAdvertiser
from smartpubsub.protocols.fastdelivery.group import (
    Contract,
    EventInFlight,
    MemberPaths,
    OwnedGroup,
    accept_all,
    accept_none_yet,
)
from smartpubsub.protocols.fastdelivery.messages import (
    Agreed,
    Answer,
    Charge,
    Delegate,
    Expect,
    Got,
    GroupEnded,
    GroupId,
    GroupNotify,
    Invite,
    Join,
    Joined,
    NotHelping,
    Notice,
    Ping,
    Recruit,
    Relay,
    RelayConfirmed,
    Release,
    Request,
    RequestDone,
    Review,
    Reviewed,
    ServedBy,
    Turn,
    Watched,
    Working,
    canonical_text,
)
from smartpubsub.protocols.fastdelivery.persistence import (
    GroupStore,
    Stored,
    StoredGroup,
    StoredMember,
)
from smartpubsub.protocols.fastdelivery.regions import RegionFinder
from smartpubsub.protocols.fastdelivery.replicas import GroupReplicas
from smartpubsub.protocols.fastdelivery.results import (
    GroupOpened,
    GroupRefused,
    NotAdvertised,
    Overloaded,
)
from smartpubsub.protocols.fastdelivery.review import RecentGroupEvents
from smartpubsub.protocols.publication import EventId, Publication
from smartpubsub.protocols.pubsub import Confirmed, Published, Refused
from smartpubsub.protocols.runtime.bounded import BoundedDict
from smartpubsub.protocols.runtime.requests import Timeouts
from smartpubsub.seam import Peer

NO_SUCH_GROUP = "its owner has no such group; look with group search how it is called"
TERM_BITS = 31
"""The terms of a later incarnation are higher than all those of earlier ones."""
HEARD_COUNT_MAX = 100_000
MEMBER_SHARE = 128
"""One peer may have the bytes of all members divided by this."""
MEMBER_BYTES_MIN = 4_096
_MEMBER_BYTES = 200
"""About what is stored of a member beside its predicates, region and addresses."""
_NEVER = -(1 << 62)


@dataclass(eq=False)
class GroupOwner(FastComponent):
    """The groups of this node, their members, and their events in flight."""

    _timeouts: Timeouts
    _blame: Blame
    _advertiser: GroupAdvertiser
    _regions: RegionFinder
    _replicas: GroupReplicas
    _store: GroupStore
    _recent: RecentGroupEvents
    _deliver: Callable[[Publication, GroupId, int], None]
    """Delivers an event of this node to its own application."""

    def __post_init__(self) -> None:
        self._first_term = 0
        self.groups: dict[Predicate, OwnedGroup] = {}
        self._silent: dict[Peer, dict[Predicate, OwnedGroup]] = {}
        """The groups in which each silent peer is a member."""
        self._heard_us: dict[Peer, int] = BoundedDict(HEARD_COUNT_MAX)
        """When each peer has last sent a message, if it did so recently."""
        self._in_flight: dict[EventId, EventInFlight] = {}
        self._paths = MemberPaths()
        self._account = self._ledger.open(
            "members of groups",
            self._settings.member_bytes_max,
            max(self._settings.member_bytes_max // MEMBER_SHARE, MEMBER_BYTES_MIN),
        )

    @property
    def in_flight_count(self) -> int:
        """How many events are not confirmed by all members that want them."""
        return len(self._in_flight)

    def start(self, incarnation: int) -> None:
        """Number terms above those of earlier incarnations."""
        self._first_term = incarnation << TERM_BITS

    # --- groups ---

    def create(
        self,
        predicate: Predicate,
        *,
        is_advertised: bool = True,
        is_private: bool = False,
        contract: Contract = accept_all,
    ) -> OwnedGroup | None:
        """Create a group, or set the contract of an existing one; None if that is refused."""
        group = self.groups.get(predicate)
        if group is not None:
            problem = group.difference(is_advertised, is_private, contract)
            if problem:
                self._outbox.deliver(GroupRefused(self._id_of(group), problem))
                return None
            group.contract = contract
            self._store_group(group)
            if group.is_open:
                self._outbox.deliver(GroupOpened(self._id_of(group)))
            return group
        if len(self.groups) >= self._settings.group_count_max:
            self._outbox.reject("groups")
            id = GroupId(self._own.peer, predicate)
            self._outbox.deliver(GroupRefused(id, self._too_many_groups))
            return None
        outbox = self._outbox
        group = OwnedGroup(
            predicate,
            Book(self._settings, lambda: outbox.now, self._first_term, self._blame_of),
            is_advertised=is_advertised,
            is_private=is_private,
            contract=contract,
        )
        self.groups[predicate] = group
        self._store_group(group)
        if is_advertised:
            self._advertise(group)
        else:
            self._open(group)
        return group

    def mark_advertised(self, predicate: Predicate) -> None:
        """Make a group an advertised one."""
        group = self.groups[predicate]
        group.is_advertised = True
        self._store_group(group)

    def advertise(self, predicate: Predicate) -> None:
        """Put a group into its directories now."""
        self._advertise(self.groups[predicate])

    def _advertise(self, group: OwnedGroup) -> None:
        group.advertised_us = self._outbox.now
        self._advertiser.advertise(
            group.predicate,
            partial(self._take_watchers, group),
            partial(self._on_advertised, group),
        )

    def _on_advertised(self, group: OwnedGroup, problem: str) -> None:
        if not self._is_current(group):
            return
        if problem:
            self._outbox.deliver(NotAdvertised(self._id_of(group), problem))
        self._open(group)

    def _open(self, group: OwnedGroup) -> None:
        """Send the group's events from now on: all waiting subscribers are known."""
        if not group.is_open:
            group.is_open = True
            self._outbox.deliver(GroupOpened(self._id_of(group)))
            for event in list(group.in_flight.values()):
                self._disseminate(event)

    def end(self, predicate: Predicate) -> str:
        """End a group and tell its members; return why it cannot end, or "".

        A member that the owner does not reach learns it when it renews its request.
        """
        group = self.groups[predicate]
        if group.in_flight:
            return f"{len(group.in_flight)} of its events are not confirmed by all members yet"
        for peer in [*group.requests]:
            self._remove(group, peer)
            self._requests.inform(peer, GroupEnded(predicate))
        del self.groups[predicate]
        self._store.drop_group(predicate)
        return ""

    def restore(self, stored: Iterable[Stored]) -> None:
        """Restore the groups and members of an earlier incarnation.

        A member that seems to have lapsed, or to be renewed in the future, gets time to renew its
        request: the clock may have jumped.
        """
        now, renew_us = self._outbox.now, self._settings.renew_us
        for entry in stored:
            if isinstance(entry, StoredGroup):
                self.create(
                    entry.predicate,
                    is_advertised=entry.is_advertised,
                    is_private=entry.is_private,
                    contract=accept_none_yet if entry.has_contract else accept_all,
                )
            elif entry.group in self.groups:
                is_plausible = now - 2 * renew_us < entry.renewed_us <= now
                renewed_us = entry.renewed_us if is_plausible else now - renew_us
                self._admit(self.groups[entry.group], entry.request, renewed_us)

    def _store_group(self, group: OwnedGroup) -> None:
        has_contract = group.contract is not accept_all
        stored = StoredGroup(group.predicate, group.is_advertised, group.is_private, has_contract)
        self._store.put_group(stored)

    @property
    def _too_many_groups(self) -> str:
        limit = self._settings.group_count_max
        return f"this node has as many groups as it may, {limit}; raise its limit group_count_max"

    def _is_current(self, group: OwnedGroup) -> bool:
        """Whether a group has not ended meanwhile, nor been created again."""
        return self.groups.get(group.predicate) is group

    def _id_of(self, group: OwnedGroup) -> GroupId:
        return GroupId(self._own.peer, group.predicate)

    # --- admission ---

    def _take_watchers(self, group: OwnedGroup, notice: Notice, watched: Sequence[Watched]) -> None:
        """Admit subscribers whose standing searches find the group.

        The owner tells each of them of the group, so that it can join. Until it does, its search
        serves as its request, and the membership expires with the search.
        """
        now, settings = self._outbox.now, self._settings
        if not self._is_current(group):
            return
        for request, life_s in watched:
            peer = request.contact.peer
            if peer == self._own.peer or not self._signatures.is_request_signed(request):
                continue
            known = group.requests.get(peer)
            wanted = request.predicates
            if known is not None:
                if all(predicate in known.predicates for predicate in wanted):
                    continue
                wanted = tuple(dict.fromkeys((*known.predicates, *wanted)))
            if group.is_private:
                continue
            # A subscriber that may not join learns that from the answer to its join request.
            self._requests.inform(peer, Invite(notice))
            version = known.version if known is not None else 0
            merged = request._replace(predicates=wanted, version=version)
            if self._refusal(group, request, b"") != "" or not self._has_room_for(group, merged):
                continue
            renewed_us = min(now - 2 * settings.renew_us + life_s * SECOND, now)
            self._admit(group, merged, renewed_us)

    def on_join(self, contact: Contact, number: int, question: Join) -> None:
        """Admit, renew, update or remove a member."""
        peer, request = contact.peer, question.request
        group = self.groups.get(question.group)
        if group is None:
            self._requests.answer(peer, number, Joined(NO_SUCH_GROUP))
            return
        if not self._signatures.is_request_signed(request):
            self._outbox.reject("requests")
            unsigned = "the node that sent the request has not signed it"
            self._requests.answer(peer, number, Joined(unsigned))
            return
        known = group.requests.get(peer)
        if known is not None and request.version < known.version:
            return  # A newer request has overtaken it, and is answered.
        if not request.predicates:
            self._remove(group, peer)
            self._requests.answer(peer, number, Joined(""))
            return
        is_same = known is not None and _unversioned(known) == _unversioned(request)
        refusal = self._refusal(group, request, question.invitation)
        if is_same and group.contract is accept_none_yet:
            refusal = ""  # An earlier incarnation has admitted it.
        if refusal is None:
            return  # The node sends its request again until it is answered.
        if refusal:
            self._remove(group, peer)
            self._outbox.reject("joins")
            self._requests.answer(peer, number, Joined(refusal))
            return
        group.unanswered[peer] = number
        self._admit(group, request, self._outbox.now)

    def _refusal(self, group: OwnedGroup, request: Request, invitation: bytes) -> str | None:
        peer = request.contact.peer
        is_full = len(group.requests) >= self._settings.member_count_max
        if is_full and peer not in group.requests:
            return "the group has as many members as it can have; try again later"
        if not self._has_room_for(group, request):
            self._account.refuse()
            return "the owner has no room for so many predicates; want fewer, or try again later"
        is_invited = self._signatures.is_invited
        if group.is_private and not is_invited(group.predicate, peer, invitation):
            if invitation:
                return (
                    "the group is private, and this is no invitation to it for this node; ask again"
                )
            return "the group is private; ask its owner for an invitation, and join with that"
        return group.contract(request)

    def _has_room_for(self, group: OwnedGroup, request: Request) -> bool:
        """Whether the storage has room for a request in place of the member's earlier one."""
        peer = request.contact.peer
        more = _stored_bytes(request) - _stored_bytes(group.requests.get(peer))
        return more <= 0 or self._account.fits(peer, more)

    def _admit(self, group: OwnedGroup, request: Request, renewed_us: int) -> None:
        peer = request.contact.peer
        known, wanted_us = group.requests.get(peer), group.wanted_us.get(peer, {})
        self._account.change(peer, _stored_bytes(request) - _stored_bytes(known))
        is_repeated = known == request
        if known is not None and is_repeated:
            request = known  # `_place` compares requests by identity.
        group.requests[peer] = request
        if known is None or known.incarnation != request.incarnation:
            group.started_us[peer] = self._outbox.now
        group.wanted_us[peer] = {
            predicate: wanted_us.get(predicate, self._outbox.now)
            for predicate in request.predicates
        }
        group.renewed_us[peer] = max(renewed_us, group.renewed_us.get(peer, renewed_us))
        self._store.put_member(StoredMember(group.predicate, request, group.renewed_us[peer]))
        if known is None or _unversioned(known) != _unversioned(request):
            group.interest.put(peer, request.predicates)
        if request.region and not request.region.startswith(MEASURED):
            self._place(group, request, request.region)
        elif not is_repeated or peer in group.book.members:  # Else it is being measured already.
            self._regions.find(group.book, peer, partial(self._place, group, request))

    def _place(self, group: OwnedGroup, request: Request, region: str) -> None:
        """Enter a member into the book, unless it has sent another request meanwhile."""
        contact, predicates, _, capacity, *_ = request
        if group.requests.get(contact.peer) is not request:
            return
        member = group.book.members.get(contact.peer)
        is_same = member is not None and (
            (member.contact, member.predicates, member.region, member.capacity)
            == (contact, predicates, region, capacity)
        )
        if not is_same:
            self._forget_silence(group, contact.peer)  # The book serves it again.
            group.book.put(contact, predicates, region, capacity)
        elif member is not None and member.state is MemberState.SILENT:
            self._serve_again_in(group, contact.peer)
        elif member is not None and member.state is not MemberState.WAITING:
            self._answer_join(group, contact.peer, "")
        self._carry_out(group)

    def _remove(self, group: OwnedGroup, peer: Peer) -> None:
        """Remove a member from a group."""
        known = group.requests.pop(peer, None)
        if known is None:
            return
        self._account.change(peer, -_stored_bytes(known))
        group.wanted_us.pop(peer, None)
        group.renewed_us.pop(peer, None)
        group.started_us.pop(peer, None)
        group.unanswered.pop(peer, None)
        group.interest.put(peer, ())
        self._store.drop_member(group.predicate, peer)
        self._forget_silence(group, peer)
        group.book.remove(peer)
        for event in list(group.in_flight.values()):
            if peer in event.waiting:
                self._confirm(event, [peer])
        self._carry_out(group)

    def _answer_join(self, group: OwnedGroup, peer: Peer, refusal: str) -> None:
        number = group.unanswered.pop(peer, None)
        if number is not None:
            member = group.book.members.get(peer)
            helper = member.helper if member is not None and not refusal else None
            self._requests.answer(peer, number, Joined(refusal, helper or b""))

    # --- orders of the book ---

    def _carry_out(self, group: OwnedGroup) -> None:
        """Carry out all orders of a group's book."""
        while orders := group.book.take_orders():
            for is_serving, some in groupby(orders, lambda order: isinstance(order, Serve)):
                if is_serving:
                    self._serve(group, [order.peer for order in some if isinstance(order, Serve)])
                else:
                    for order in some:
                        self._carry_out_one(group, order)

    def _serve(self, group: OwnedGroup, peers: Sequence[Peer]) -> None:
        """Tell members that they are served, and send them the events in flight that they lack."""
        for peer in peers:
            self._forget_silence(group, peer)
            self._answer_join(group, peer, "")
        for event in list(group.in_flight.values()):
            self._send(event, [peer for peer in peers if peer in event.waiting])

    def _carry_out_one(self, group: OwnedGroup, order: Order) -> None:
        match order:
            case TurnAway(peer):
                self._answer_join(group, peer, "the group has no place left; try again later")
                self._outbox.reject("members")
                self._remove(group, peer)
            case AskToHelp(peer, term, wanted):
                self._requests.ask(
                    peer,
                    Recruit(group.predicate, term, wanted),
                    partial(self._on_agreed, group, peer, term),
                    partial(self._on_silence, group, peer),
                )
            case HandOver(helper, term, peers):
                members = [group.book.members[p] for p in peers if p in group.book.members]
                charges = tuple(Charge(m.contact, m.predicates) for m in members)
                for member in members:  # They accept events from this helper from now on.
                    served_by = ServedBy(group.predicate, helper)
                    self._requests.inform(member.peer, served_by)
                self._delegate(group, helper, term, charges=charges)
            case TakeBack(helper, term, peer):
                # An event that the helper gets after this order does not go to the member.
                for event in group.in_flight.values():
                    if event.sent.get(peer) == helper:
                        self._unsend(event, [peer])
                self._delegate(group, helper, term, gone=(peer,))
            case Dismiss(helper, term):
                self._requests.inform(helper, Release(group.predicate, term))
            case Overload(region, served):
                self._outbox.deliver(Overloaded(self._id_of(group), region, served))

    def _delegate(
        self,
        group: OwnedGroup,
        helper: Peer,
        term: int,
        *,
        charges: tuple[Charge, ...] = (),
        gone: tuple[Peer, ...] = (),
    ) -> None:
        group.last_delegation += 1
        wanted = {charge.contact.peer: charge.predicates for charge in charges}
        self._requests.ask(
            helper,
            Delegate(group.predicate, term, group.last_delegation, charges, gone),
            partial(self._on_delegated, group, helper, term, wanted),
            partial(self._on_silence, group, helper),
        )

    def _on_agreed(self, group: OwnedGroup, peer: Peer, term: int, answer: Answer) -> None:
        if isinstance(answer, Agreed):
            group.book.agreed(peer, term, answer.granted)
            self._carry_out(group)

    def _on_delegated(
        self,
        group: OwnedGroup,
        helper: Peer,
        term: int,
        wanted: Mapping[Peer, tuple[Predicate, ...]],
        answer: Answer,
    ) -> None:
        if isinstance(answer, RequestDone):
            group.book.handed_over(helper, term, wanted)
            self._carry_out(group)
        elif isinstance(answer, NotHelping):
            self._on_not_helping(group, helper, term)

    def _on_not_helping(self, group: OwnedGroup, helper: Peer, term: int) -> None:
        group.book.not_helping(helper, term)
        self._carry_out(group)

    # --- silent members ---

    def _on_silence(self, group: OwnedGroup, peer: Peer) -> None:
        """Stop serving a member that does not answer; its events stay in flight."""
        member = group.book.members.get(peer)
        if member is None or member.state is MemberState.SILENT:
            return
        group.book.silent(peer)
        self._silent.setdefault(peer, {})[group.predicate] = group
        for event in list(group.in_flight.values()):
            if peer in event.waiting:
                self._paths.remove(event.event.id, peer)
                self._conclude(event)
        self._carry_out(group)

    def _probe(self, group: OwnedGroup, peer: Peer, helper: Peer) -> None:
        """Ping a member that its helper does not reach; if it answers, serve it in another way."""
        group.book.unreached(peer, helper)
        self._on_silence(group, peer)
        excuse = partial(group.book.excuse, peer, helper)
        self._requests.ask(peer, Ping(), lambda _: self._serve_again(peer), excuse)

    def heard(self, peer: Peer) -> None:
        """Note that a peer has sent a message; serve it again if it was silent."""
        self._heard_us[peer] = self._outbox.now
        self._serve_again(peer)

    def _serve_again(self, peer: Peer) -> None:
        for group in list(self._silent.get(peer, {}).values()):
            self._serve_again_in(group, peer)

    def _serve_again_in(self, group: OwnedGroup, peer: Peer) -> None:
        self._forget_silence(group, peer)
        group.book.heard(peer)
        self._carry_out(group)

    def _forget_silence(self, group: OwnedGroup, peer: Peer) -> None:
        groups = self._silent.get(peer)
        if groups is not None:
            groups.pop(group.predicate, None)
            if not groups:
                del self._silent[peer]

    def _was_heard(self, peer: Peer) -> bool:
        """Whether a peer has sent a message within the time of an answer."""
        recent_us = max(self._settings.hold_us, self._timeouts.timeout_us())
        return self._heard_us.get(peer, _NEVER) > self._outbox.now - recent_us

    # --- publishing ---

    def publish(
        self, predicate: Predicate, event: Publication, *, wants_all: bool, creates: bool
    ) -> None:
        """Publish an event in a group of this node, unless it is in flight already.

        With `creates`, create the group if it does not exist.
        """
        if event.id in self._in_flight:
            self._in_flight[event.id].wants_all |= wants_all
            return
        group = self.groups.get(predicate)
        if group is None and creates:
            group = self.create(predicate)
        if group is None:
            reason = (
                self._too_many_groups
                if creates
                else f"only the owner publishes in a group, and this node owns no {predicate};"
                " create it first"
            )
            self._outbox.deliver(Refused(event.id, reason))
            return
        if not group.predicate.matches(event.predicate):
            reason = (
                f"{event.predicate} does not match the predicate of the group {group.predicate};"
                " publish it in another group"
            )
            self._outbox.deliver(Refused(event.id, reason))
            return
        if len(self._in_flight) >= self._settings.in_flight_count_max:
            self._outbox.reject("events in flight")
            reason = "too many events wait to be confirmed; try again later"
            self._outbox.deliver(Refused(event.id, reason))
            return
        self._deliver(event, self._id_of(group), 0)
        in_flight = EventInFlight(event, group, wants_all)
        self._in_flight[event.id] = group.in_flight[event.id] = in_flight
        if group.is_open:
            self._disseminate(in_flight)

    def _disseminate(self, event: EventInFlight) -> None:
        """Send an event to all members that want it."""
        members, id = event.group.book.members, event.event.id
        self._recent.keep(event.group.predicate, event.event)
        for peer in event.group.interest.of(event.event.predicate):
            member = members.get(peer)
            if member is None or member.state is MemberState.SILENT:
                event.waiting[peer] = 0  # It gets the event later; no other event waits for that.
            else:
                event.waiting[peer] = self._paths.append(id, peer, _hop_to(member))
        self._send(event, list(event.waiting), is_first=True)
        self._conclude(event)

    def _send(self, event: EventInFlight, peers: Sequence[Peer], *, is_first: bool = False) -> None:
        """Send an event to the given members that are served and that it is not on its way to."""
        members = event.group.book.members
        relays: dict[tuple[Peer, bool], list[Peer]] = {}
        for peer in peers:
            member = members.get(peer)
            hop = _hop_to(member)
            if member is None or hop is None or event.sent.get(peer) is not None:
                continue  # An unserved member gets the event once it is served.
            is_resend = peer in event.sent
            event.sent[peer] = hop
            if member.state is MemberState.DIRECT:
                self._notify(event, peer, is_resend=is_resend)
            else:
                relays.setdefault((hop, is_resend), []).append(peer)
        for (helper, is_resend), served in relays.items():
            self._relay(event, members[helper], served, is_first=is_first, is_resend=is_resend)

    def _notify(self, event: EventInFlight, peer: Peer, *, is_resend: bool) -> None:
        prior = self._prior(event, peer)
        self._requests.ask(
            peer,
            GroupNotify(event.group.predicate, event.event, 1, is_resend, prior),
            partial(self._on_got, event, peer),
            partial(self._on_unconfirmed, event, peer, [peer]),
        )

    def _relay(
        self,
        event: EventInFlight,
        helper: GroupMember,
        served: list[Peer],
        *,
        is_first: bool,
        is_resend: bool,
    ) -> None:
        # The helper matches the event itself, unless it is for some delegated members only.
        known = dict.fromkeys(served)
        wanting = (peer for peer in helper.delegated if peer in event.waiting)
        is_for_all = is_first and all(peer in known for peer in wanting)
        priors = ((peer, self._prior(event, peer)) for peer in served)
        turns = tuple(Turn(peer, prior) for peer, prior in priors if prior)
        only = () if is_for_all else tuple(served)
        self._requests.ask(
            helper.peer,
            Relay(event.group.predicate, helper.term, event.event, only, is_resend, turns),
            partial(self._on_relayed, event, helper.peer, helper.term, served),
            partial(self._on_unconfirmed, event, helper.peer, served),
        )

    def _prior(self, event: EventInFlight, peer: Peer) -> int:
        """Return the number of the predecessor that a member has not confirmed; 0 for none."""
        number = event.waiting.get(peer, 0)
        before = self._in_flight.get(event.event.id._replace(number=number)) if number else None
        return number if before is not None and peer in before.waiting else 0

    def on_expect(self, contact: Contact, number: int, question: Expect) -> None:
        """Answer a member that waits for an event whether a live peer is bringing it."""
        peer = contact.peer
        id = EventId(self._own.peer, question.incarnation, question.number)
        event = self._in_flight.get(id)
        hop = event.sent.get(peer) if event is not None and peer in event.waiting else None
        is_under_way = hop is not None and self._was_heard(hop)
        self._requests.answer(peer, number, Working() if is_under_way else RequestDone())

    def on_review(self, contact: Contact, number: int, question: Review) -> None:
        """Send a member the events that it lacks although its helper has confirmed them."""
        peer, group = contact.peer, self.groups.get(question.group)
        wanted_us = {} if group is None else group.wanted_us.get(peer, {})
        events = self._recent.missed(question, wanted_us)
        confirmed = [event for event in events if not self._is_under_way(event.id, peer)]
        self._requests.answer(peer, number, Reviewed(tuple(confirmed)))
        if group is not None and confirmed:
            self._blame_helper(group, peer, confirmed)

    def _blame_helper(
        self, group: OwnedGroup, peer: Peer, confirmed: Sequence[Publication]
    ) -> None:
        """Blame the helper of a member that lacks events which the helper has confirmed.

        A member that has restarted since an event was published may have had it.
        """
        member = group.book.members.get(peer)
        if member is None:
            return
        since_us = max(member.delegated_us, group.started_us[peer])
        if all(event.created_us < since_us for event in confirmed):
            return
        helper = group.book.complain(peer)
        if helper is not None:
            self._blame.put(helper, DROPPED, self._outbox.now)
            self._carry_out(group)

    def _blame_of(self, peer: Peer) -> int:
        return self._blame.level(peer, self._outbox.now)

    def _is_under_way(self, id: EventId, peer: Peer) -> bool:
        event = self._in_flight.get(id)
        return event is not None and peer in event.waiting

    # --- confirmations ---

    def _on_got(self, event: EventInFlight, peer: Peer, answer: Answer) -> None:
        if isinstance(answer, Got):
            self._confirm(event, [peer])
            if not answer.is_wanted:
                self._remove(event.group, peer)

    def _on_relayed(
        self, event: EventInFlight, helper: Peer, term: int, peers: list[Peer], answer: Answer
    ) -> None:
        if isinstance(answer, RelayConfirmed):
            # Members that the event goes to on another path by now are not this helper's.
            served = [peer for peer in peers if event.sent.get(peer) == helper]
            missed = dict.fromkeys(answer.unreached)
            unreached = [peer for peer in served if peer in missed]
            self._confirm(event, [peer for peer in served if peer not in missed])
            self._unsend(event, unreached)
            for peer in unreached:
                if peer in event.waiting:
                    self._probe(event.group, peer, helper)
        elif isinstance(answer, NotHelping):
            self._unsend(event, peers)
            self._on_not_helping(event.group, helper, term)
            self._resend(event, peers)

    def _on_unconfirmed(self, event: EventInFlight, hop: Peer, peers: list[Peer]) -> None:
        self._unsend(event, peers)
        self._on_silence(event.group, hop)
        self._resend(event, peers)

    def _unsend(self, event: EventInFlight, peers: Sequence[Peer]) -> None:
        """Note that an event is not on its way to members any more."""
        for peer in peers:
            if peer in event.sent:
                event.sent[peer] = None

    def _resend(self, event: EventInFlight, peers: list[Peer]) -> None:
        """Send an event again to members that have another path; others get it once served."""
        self._send(event, [peer for peer in peers if peer in event.waiting])
        self._conclude(event)

    def _confirm(self, event: EventInFlight, peers: Sequence[Peer]) -> None:
        for peer in peers:
            if event.waiting.pop(peer, None) is not None:
                event.sent.pop(peer, None)
                self._paths.remove(event.event.id, peer)
        self._conclude(event)

    def _conclude(self, event: EventInFlight) -> None:
        """Report an event as published, and as confirmed, once it is."""
        group, id = event.group, event.event.id
        if not group.is_open or id not in self._in_flight:
            return
        if not event.is_published:
            silent = []
            for peer in event.waiting:
                member = group.book.members.get(peer)
                if member is None or member.state is not MemberState.SILENT:
                    return
                silent.append(peer)
            event.is_published = True
            self._replicas.replicate(
                group.predicate,
                event.event,
                silent,
                event.waiting.__contains__,
                partial(self._outbox.deliver, Published(id)),
            )
        if not event.waiting:
            del self._in_flight[id], group.in_flight[id]
            if event.wants_all:
                self._outbox.deliver(Confirmed(id))

    # --- upkeep ---

    def tick(self) -> None:
        """Renew advertisements, remove lapsed members, and probe helpers and silent members."""
        now, renew_us = self._outbox.now, self._settings.renew_us
        for peer in [peer for peer in self._heard_us if not self._was_heard(peer)]:
            del self._heard_us[peer]
        for group in list(self.groups.values()):
            if group.is_advertised and now - group.advertised_us >= renew_us:
                self._advertise(group)
            for peer in [p for p, at in group.renewed_us.items() if at <= now - 2 * renew_us]:
                self._remove(group, peer)
            for helper in list(group.book.helpers()):
                self._delegate(group, helper.peer, helper.term)
            group.book.settle()
            self._carry_out(group)
        for peer in list(self._silent):
            self._requests.inform(peer, Ping(), tries_max=1)

    def check(self) -> None:
        """Assert that groups, silent members and events in flight agree."""
        assert len(self.groups) <= self._settings.group_count_max
        assert len(self._in_flight) <= self._settings.in_flight_count_max
        self._account.check()
        requests = (each for group in self.groups.values() for each in group.requests.values())
        assert self._account.size == sum(map(_stored_bytes, requests))
        in_groups = sum(len(group.in_flight) for group in self.groups.values())
        assert in_groups == len(self._in_flight)
        self._paths.check()
        for predicate, group in self.groups.items():
            assert group.predicate == predicate
            group.check()
        for peer, groups in self._silent.items():
            for group in groups.values():
                member = group.book.members[peer]
                assert member.state is MemberState.SILENT, "a served member counts as silent"


def _hop_to(member: GroupMember | None) -> Peer | None:
    """Return the peer that an event for a member is sent to first; None if it is not served."""
    if member is None:
        return None
    if member.state in (MemberState.DIRECT, MemberState.HELPER):
        return member.peer
    return member.helper if member.state is MemberState.DELEGATED else None


def _stored_bytes(request: Request | None) -> int:
    """About how many bytes the node stores of a member's request."""
    if request is None:
        return 0
    texts = [request.region, *map(canonical_text, request.predicates)]
    return _MEMBER_BYTES + sum(map(len, texts)) + sum(map(len, request.contact.addresses))


def _unversioned(request: Request) -> Request:
    """Return a request without the fields that differ between renewals."""
    return request._replace(version=0, signature=b"")
