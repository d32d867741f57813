"""How an owner sends events to a group, and keeps each until everybody has confirmed it.

An event goes to a member straight or by its helper. Links keep order; where the one before it has
gone to the same member by another way, an event says which that is, and the member waits for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from smartpubsub.kademlia.keys import Contact
from smartpubsub.protocols.fastdelivery import parts
from smartpubsub.protocols.fastdelivery.book import GroupMember, MemberState
from smartpubsub.protocols.fastdelivery.group import Group, Record
from smartpubsub.protocols.fastdelivery.office import Office
from smartpubsub.protocols.fastdelivery.parts import (
    Answer,
    Done,
    Expect,
    Got,
    NotHelping,
    Notify,
    Relay,
    Turn,
    Working,
)
from smartpubsub.protocols.publication import EventId, Publication
from smartpubsub.protocols.pubsub import Confirmed, Published, Refused
from smartpubsub.seam import Peer


@dataclass(slots=True)
class _Lane:
    """What a member has not confirmed, from all groups of this owner, in order."""

    ways: dict[EventId, Peer | None] = field(default_factory=dict)
    """And to whom each went first, if it had a place."""
    is_mixed: bool = False
    """Whether they have gone by more than one way, so that links alone do not keep their order."""


class Spreading:
    """The events of this owner that are under way."""

    def __init__(self, office: Office) -> None:
        self._office = office
        self.open: dict[EventId, Record] = {}
        self._lanes: dict[Peer, _Lane] = {}

    def publish(self, event: Publication, group: Group, *, wants_all: bool) -> None:
        """Send an event to all members of a group that want it."""
        office = self._office
        if not group.predicate.matches(event.predicate):
            reason = (
                f"{event.predicate} is no event of the group {group.predicate}, whose predicate it"
                " does not match; publish it in another"
            )
            office.deliver(Refused(event.id, reason))
            return
        if len(self.open) >= office.settings.open_count_max:
            office.refusals["open events"] += 1
            office.deliver(Refused(event.id, "too many events wait to be confirmed; try later"))
            return
        office.local.deliver(event, 0)
        record = Record(event, group, wants_all)
        self.open[event.id] = group.records[event.id] = record
        if group.is_open:
            self._spread(record)

    def on_open(self, group: Group) -> None:
        """Events that were published before the group was open can go out."""
        for record in list(group.records.values()):
            self._spread(record)

    def _spread(self, record: Record) -> None:
        members = record.group.book.members
        for peer in record.group.wants.of(record.event.predicate):
            record.waiting[peer] = self._line_up(record.event.id, peer, members.get(peer))
        self._send(record, list(record.waiting), is_first=True)
        self._check(record)

    def _line_up(self, id: EventId, peer: Peer, member: GroupMember | None) -> int:
        """Which event a member is to get before another one; 0 if links see to that."""
        if member is None or member.state is MemberState.SILENT:
            return 0  # It gets it when it is heard from, and nothing else waits for that.
        lane = self._lanes.setdefault(peer, _Lane())
        hop, prior = _hop_to(member), 0
        if lane.ways:
            last, way = next(reversed(lane.ways.items()))
            lane.is_mixed = lane.is_mixed or way != hop or hop is None
            prior = last.number if lane.is_mixed else 0
        lane.ways[id] = hop
        return prior

    def _drop_out(self, id: EventId, peer: Peer) -> None:
        """Nothing that goes to a member is to come after this event any more."""
        lane = self._lanes.get(peer)
        if lane is not None:
            lane.ways.pop(id, None)
            if not lane.ways:
                del self._lanes[peer]

    # --- sending ---

    def _send(self, record: Record, peers: Sequence[Peer], *, is_first: bool = False) -> None:
        """Send an event to those of some members who have a place, unless it is on its way."""
        members = record.group.book.members
        relays: dict[tuple[Peer, bool], list[Peer]] = {}
        for peer in peers:
            member = members.get(peer)
            hop = _hop_to(member)
            if member is None or hop is None or record.sent.get(peer) is not None:
                continue  # Who has no place now gets it when it has one.
            is_resend = peer in record.sent
            record.sent[peer] = hop
            if member.state is MemberState.DIRECT:
                self._notify(record, peer, is_resend=is_resend)
            else:
                relays.setdefault((hop, is_resend), []).append(peer)
        for (helper, is_resend), served in relays.items():
            self._relay(record, members[helper], served, is_first=is_first, is_resend=is_resend)

    def _notify(self, record: Record, peer: Peer, *, is_resend: bool) -> None:
        prior = self._prior(record, peer)
        self._office.ask(
            peer,
            Notify(record.group.predicate, record.event, 1, is_resend, prior),
            partial(self._on_got, record, peer),
            partial(self._on_silence, record, peer, [peer]),
        )

    def _relay(
        self,
        record: Record,
        helper: GroupMember,
        served: list[Peer],
        *,
        is_first: bool,
        is_resend: bool,
    ) -> None:
        # A helper finds out itself who wants an event, unless it is to be sent to some only.
        known = dict.fromkeys(served)
        wanting = (peer for peer in helper.delegated if peer in record.waiting)
        is_for_all = is_first and all(peer in known for peer in wanting)
        priors = ((peer, self._prior(record, peer)) for peer in served)
        turns = tuple(Turn(peer, prior) for peer, prior in priors if prior)
        only = () if is_for_all else tuple(served)
        relay = Relay(record.group.predicate, helper.term, record.event, only, is_resend, turns)
        self._office.ask(
            helper.peer,
            relay,
            partial(self._on_relayed, record, helper.peer, helper.term, served),
            partial(self._on_silence, record, helper.peer, served),
        )

    def _prior(self, record: Record, peer: Peer) -> int:
        """Which event a member is still to wait for before this one."""
        number = record.waiting.get(peer, 0)
        before = self.open.get(record.event.id._replace(number=number)) if number else None
        return number if before is not None and peer in before.waiting else 0

    def on_expect(self, contact: Contact, number: int, part: Expect) -> None:
        """A member waits for an event: is it on its way, by somebody who was heard just now?"""
        office, peer = self._office, contact.peer
        record = self.open.get(EventId(office.own.peer, part.incarnation, part.number))
        hop = record.sent.get(peer) if record is not None and peer in record.waiting else None
        is_under_way = hop is not None and office.was_heard(hop)
        office.answer(peer, number, Working() if is_under_way else Done())

    # --- confirmations ---

    def _on_got(self, record: Record, peer: Peer, part: Answer) -> None:
        if isinstance(part, Got):
            self._confirm(record, [peer])
            if not part.is_wanted:
                self._office.owning.remove(record.group, peer)

    def _on_relayed(
        self, record: Record, helper: Peer, term: int, peers: list[Peer], part: Answer
    ) -> None:
        owning = self._office.owning
        if isinstance(part, parts.Confirmed):
            missed = dict.fromkeys(part.unreached)
            self._confirm(record, [peer for peer in peers if peer not in missed])
            self._unsend(record, part.unreached)
            for peer in missed:
                if peer in record.waiting:
                    owning.doubt(record.group, peer)
        elif isinstance(part, NotHelping):
            self._unsend(record, peers)
            owning.on_not_helping(record.group, helper, term)
            self._try_again(record, peers)

    def _on_silence(self, record: Record, hop: Peer, peers: list[Peer]) -> None:
        self._unsend(record, peers)
        self._office.owning.on_silence(record.group, hop)
        self._try_again(record, peers)

    def _try_again(self, record: Record, peers: list[Peer]) -> None:
        """Send to those who have another place already; the others get it when they have one."""
        self._send(record, [peer for peer in peers if peer in record.waiting])
        self._check(record)

    def _confirm(self, record: Record, peers: Sequence[Peer]) -> None:
        for peer in peers:
            if record.waiting.pop(peer, None) is not None:
                record.sent.pop(peer, None)
                self._drop_out(record.event.id, peer)
        self._check(record)

    def _unsend(self, record: Record, peers: Sequence[Peer]) -> None:
        """An event is not on its way to some members any more."""
        for peer in peers:
            if peer in record.sent:
                record.sent[peer] = None

    # --- what happens to members ---

    def on_served(self, group: Group, peers: Sequence[Peer]) -> None:
        """Members have a place: they get what they have missed."""
        for record in list(group.records.values()):
            self._send(record, [peer for peer in peers if peer in record.waiting])

    def on_silent(self, group: Group, peer: Peer) -> None:
        """A member does not answer: events are kept for it, and not waited for otherwise."""
        for record in list(group.records.values()):
            if peer in record.waiting:
                self._drop_out(record.event.id, peer)
                self._check(record)

    def on_gone(self, group: Group, peer: Peer) -> None:
        """Somebody is no member any more."""
        for record in list(group.records.values()):
            if peer in record.waiting:
                self._confirm(record, [peer])

    def _check(self, record: Record) -> None:
        """Take note of how far an event has come."""
        if not record.group.is_open or record.event.id not in self.open:
            return
        members = record.group.book.members
        if not record.is_published:
            silent = []
            for peer in record.waiting:
                member = members.get(peer)
                if member is None or member.state is not MemberState.SILENT:
                    return
                silent.append(peer)
            record.is_published = True
            self._office.keeping.keep(record, silent)
        if not record.waiting:
            del self.open[record.event.id], record.group.records[record.event.id]
            if record.wants_all:
                self._office.deliver(Confirmed(record.event.id))

    def on_kept(self, record: Record) -> None:
        """Whoever does not answer will get the event even if this node is gone by then."""
        self._office.deliver(Published(record.event.id))


def _hop_to(member: GroupMember | None) -> Peer | None:
    """Who is sent an event first that is for a member; None if it has no place now."""
    if member is None:
        return None
    if member.state in (MemberState.DIRECT, MemberState.HELPER):
        return member.peer
    return member.helper if member.state is MemberState.DELEGATED else None
