"""How an owner sends events to a group, and keeps each until everybody has confirmed it.

An event goes to a member straight or by its helper. What was sent to a member by one way is
confirmed before anything goes to it by another, so that a later event does not overtake an earlier
one; but that is not waited for for long.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from smartpubsub.protocols.fastdelivery import parts
from smartpubsub.protocols.fastdelivery.group import Group, Record
from smartpubsub.protocols.fastdelivery.members import Member, Place
from smartpubsub.protocols.fastdelivery.office import Office
from smartpubsub.protocols.fastdelivery.parts import Answer, Got, NotHelping, Notify, Relay
from smartpubsub.protocols.publication import EventId, Publication
from smartpubsub.protocols.pubsub import Confirmed, Published, Refused
from smartpubsub.seam import Peer


@dataclass(slots=True)
class _Lane:
    """What is on its way to a member, from all groups of this owner."""

    sent: dict[EventId, Peer] = field(default_factory=dict)
    """And to whom first."""
    held: dict[EventId, int] = field(default_factory=dict)
    """What must not overtake it, and since when it waits."""
    again: dict[EventId, None] = field(default_factory=dict)
    """What of that was sent before, in vain."""

    def is_clear_for(self, hop: Peer) -> bool:
        return not self.held and all(first == hop for first in self.sent.values())


class Spreading:
    """The events of this owner that are under way."""

    def __init__(self, office: Office) -> None:
        self._office = office
        self.open: dict[EventId, Record] = {}
        self._lanes: dict[Peer, _Lane] = {}
        self._has_timer = False

    def publish(self, event: Publication, group: Group, *, wants_all: bool) -> None:
        """Send an event to all members of a group that want it."""
        office = self._office
        if not group.predicate.matches(event.predicate):
            reason = f"{event.predicate} is no event of the group {group.predicate}"
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
        record.waiting = record.group.wants.of(record.event.predicate)
        self._send(record, list(record.waiting), is_first=True)
        self._check(record)

    # --- sending ---

    def _send(
        self,
        record: Record,
        peers: Sequence[Peer],
        *,
        is_first: bool = False,
        is_resend: bool = False,
        is_late: bool = False,
    ) -> None:
        group, event = record.group, record.event
        relays: dict[Peer, list[Peer]] = {}
        wanting: dict[Peer, int] = {}
        """How many want the event of those that each helper serves."""
        for peer in peers:
            member = group.book.members.get(peer)
            hop = _hop_to(member)
            if member is None or hop is None:
                # It gets it when it has a place; if that is soon, what comes later waits with it.
                if member is not None and member.place is Place.WAITING and not is_late:
                    self._hold(record, peer, is_resend=is_resend)
                continue
            wanting[hop] = wanting.get(hop, 0) + 1
            if not self._may_go(record, peer, hop, is_late=is_late, is_resend=is_resend):
                continue
            if member.place is Place.DIRECT:
                self._notify(record, peer, is_resend=is_resend)
            else:
                relays.setdefault(hop, []).append(peer)
        for helper, served in relays.items():
            # A helper finds out itself who wants an event, unless it is to be sent to some only.
            only = () if is_first and len(served) == wanting[helper] else tuple(served)
            term = group.book.members[helper].term
            self._office.ask(
                helper,
                Relay(group.predicate, term, event, only, is_resend),
                partial(self._on_relayed, record, helper, term, served),
                partial(self._on_silence, record, helper, served),
            )

    def _may_go(
        self, record: Record, peer: Peer, hop: Peer, *, is_late: bool, is_resend: bool
    ) -> bool:
        """Whether an event may be sent to a member now; if so, it is on its way."""
        lane = self._lanes.setdefault(peer, _Lane())
        id = record.event.id
        if id in lane.sent or id in lane.held:
            return False
        if is_late or lane.is_clear_for(hop):
            lane.sent[id] = hop
            return True
        self._hold(record, peer, is_resend=is_resend)
        return False

    def _hold(self, record: Record, peer: Peer, *, is_resend: bool) -> None:
        lane = self._lanes.setdefault(peer, _Lane())
        lane.held.setdefault(record.event.id, self._office.now)
        if is_resend:
            lane.again[record.event.id] = None
        self._set_timer()

    def _notify(self, record: Record, peer: Peer, *, is_resend: bool) -> None:
        self._office.ask(
            peer,
            Notify(record.group.predicate, record.event, 1, is_resend),
            partial(self._on_got, record, peer),
            partial(self._on_silence, record, peer, [peer]),
        )

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
            self._release(part.unreached)
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
        self._send(record, [peer for peer in peers if peer in record.waiting], is_resend=True)
        self._release(peers)
        self._check(record)

    def _confirm(self, record: Record, peers: Sequence[Peer]) -> None:
        for peer in peers:
            record.waiting.pop(peer, None)
        self._unsend(record, peers)
        self._release(peers)
        self._check(record)

    def _unsend(self, record: Record, peers: Sequence[Peer]) -> None:
        """An event is not on its way to some members any more."""
        for peer in peers:
            lane = self._lanes.get(peer)
            if lane is not None:
                lane.sent.pop(record.event.id, None)

    def _release(self, peers: Iterable[Peer], *, is_late: bool = False) -> None:
        """Send members what has waited for something else to arrive, if it has."""
        released: dict[tuple[EventId, bool], list[Peer]] = {}
        for peer in peers:
            lane = self._lanes.get(peer)
            if lane is None or lane.sent:
                continue
            for id in lane.held:
                released.setdefault((id, id in lane.again), []).append(peer)
            del self._lanes[peer]
        for id, is_resend in sorted(released):  # In the order in which they were published.
            record = self.open.get(id)
            if record is not None:
                waiting = [peer for peer in released[id, is_resend] if peer in record.waiting]
                self._send(record, waiting, is_late=is_late, is_resend=is_resend)

    def _set_timer(self) -> None:
        if not self._has_timer:
            self._has_timer = True
            self._office.set_timer(("held",), self._office.now + self._office.settings.hold_us_max)

    def on_held_timer(self) -> None:
        """Some events have waited long enough for those before them."""
        self._has_timer = False
        horizon_us = self._office.now - self._office.settings.hold_us_max
        late = {
            peer: lane
            for peer, lane in self._lanes.items()
            if lane.held and next(iter(lane.held.values())) <= horizon_us
        }
        for lane in late.values():
            lane.sent.clear()
        self._release(late, is_late=True)
        if any(lane.held for lane in self._lanes.values()):
            self._set_timer()

    # --- what happens to members ---

    def on_served(self, group: Group, peers: Sequence[Peer]) -> None:
        """Members have a place: they get what they have missed."""
        self._release(peers)
        for record in list(group.records.values()):
            missing = [peer for peer in peers if peer in record.waiting]
            if missing:
                self._send(record, missing, is_resend=True)

    def on_silent(self, group: Group, peer: Peer) -> None:
        """A member does not answer: events are kept for it, and not waited for otherwise."""
        for record in list(group.records.values()):
            if peer in record.waiting:
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
                if member is None or member.place is not Place.SILENT:
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


def _hop_to(member: Member | None) -> Peer | None:
    """Who is sent an event first that is for a member; None if it has no place now."""
    if member is None:
        return None
    if member.place in (Place.DIRECT, Place.HELPER):
        return member.peer
    return member.helper if member.place is Place.DELEGATED else None
