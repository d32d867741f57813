"""FastDelivery as a core: it hands what happens to the desk that it concerns."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

from smartpubsub.kademlia.core import Kademlia
from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.queries import Found, Joined
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.fastdelivery import parts
from smartpubsub.protocols.fastdelivery.advertising import Advertising
from smartpubsub.protocols.fastdelivery.boards import Boards
from smartpubsub.protocols.fastdelivery.finding import Finding
from smartpubsub.protocols.fastdelivery.group import Contract, everybody_may
from smartpubsub.protocols.fastdelivery.helping import Helping
from smartpubsub.protocols.fastdelivery.joining import Joining
from smartpubsub.protocols.fastdelivery.keeping import Keeping
from smartpubsub.protocols.fastdelivery.local import Local
from smartpubsub.protocols.fastdelivery.measuring import Measuring
from smartpubsub.protocols.fastdelivery.office import NAME, NUMBER_BITS, Office
from smartpubsub.protocols.fastdelivery.owning import Owning
from smartpubsub.protocols.fastdelivery.parts import Packet
from smartpubsub.protocols.fastdelivery.records import STORED, Records
from smartpubsub.protocols.fastdelivery.searching import Searching
from smartpubsub.protocols.fastdelivery.settings import FastSettings
from smartpubsub.protocols.fastdelivery.shapes import shape_of
from smartpubsub.protocols.fastdelivery.signatures import signed_invitation
from smartpubsub.protocols.fastdelivery.spreading import Spreading
from smartpubsub.protocols.fastdelivery.turns import Turns
from smartpubsub.protocols.publication import Publication, Signing
from smartpubsub.protocols.pubsub import (
    Bound,
    Inspection,
    Refused,
    Subscription,
    SubscriptionState,
    Tally,
)
from smartpubsub.seam import (
    Connect,
    Effect,
    Event,
    Loaded,
    Peer,
    Received,
    Started,
    TimerFired,
    Told,
)

_ANSWERS = frozenset(
    {
        parts.Got,
        parts.Confirmed,
        parts.Working,
        parts.NotHelping,
        parts.Joined,
        parts.Agreed,
        parts.Watchers,
        parts.Listed,
        parts.Measured,
        parts.Done,
    }
)


class FastDelivery:
    """One node's share of FastDelivery."""

    name = NAME
    messages: tuple[type, ...] = (Packet,)

    def __init__(
        self, settings: FastSettings, kademlia: Kademlia, signing: Signing, rng: Random
    ) -> None:
        self.office = office = Office(settings, kademlia, signing, rng)
        office.local = Local(office)
        office.finding = Finding(office)
        office.boards = Boards(office)
        office.advertising = Advertising(office)
        office.joining = Joining(office)
        office.owning = Owning(office)
        office.spreading = Spreading(office)
        office.turns = Turns(office)
        office.helping = Helping(office)
        office.measuring = Measuring(office)
        office.keeping = Keeping(office)
        office.records = Records(office)
        office.searching = Searching(office)
        self._has_joined = False
        self._early: list[Callable[[], object]] = []
        self._on_question: dict[type, Callable[[Contact, int, Any], None]] = {
            parts.Notify: office.joining.on_notify,
            parts.Relay: office.helping.on_relay,
            parts.Join: office.owning.on_join,
            parts.Recruit: office.helping.on_recruit,
            parts.Delegate: office.helping.on_delegate,
            parts.Release: office.helping.on_release,
            parts.Advertise: office.boards.on_advertise,
            parts.Search: office.boards.on_search,
            parts.Unwatch: office.boards.on_unwatch,
            parts.CopyBoard: office.boards.on_copy,
            parts.Pull: office.boards.on_pull,
            parts.Invite: office.joining.on_invite,
            parts.Measure: office.measuring.on_measure,
            parts.Keep: office.keeping.on_keep,
            parts.Expect: office.spreading.on_expect,
            parts.Ping: lambda contact, number, _: office.answer(
                contact.peer, number, parts.Done()
            ),
        }

    # --- what every protocol can be asked for ---

    def subscribe(self, subscription: Subscription, now: int) -> list[Effect]:
        """Join all groups whose events may match; `Subscribed` comes when it is in force."""
        self.office.now = now
        self.office.local.add(subscription)
        self._when_joined(partial(self.office.joining.subscribe, subscription))
        return self._taken()

    def unsubscribe(self, number: int, now: int) -> list[Effect]:
        """End a subscription; `Unsubscribed` comes when all owners know, or do not answer."""
        self.office.now = now
        subscription = self.office.local.remove(number)
        self._when_joined(partial(self.office.joining.unsubscribe, subscription))
        return self._taken()

    def state_of(self, number: int, now: int) -> SubscriptionState:
        """How far one of the node's subscriptions has come."""
        self.office.now = now
        return self.office.joining.state_of(number)

    def publish(
        self, publication: Publication, now: int, *, wants_all: bool = False
    ) -> list[Effect]:
        """Publish in a group that everybody finds who may want the event, a new one if need be."""
        self.office.now = now
        group = shape_of(publication.predicate)
        self._when_joined(
            partial(self._publish_in, group, publication, wants_all=wants_all, is_new=True)
        )
        return self._taken()

    # --- groups ---

    def create_group(
        self,
        predicate: Predicate,
        now: int,
        *,
        is_advertised: bool = True,
        is_private: bool = False,
        contract: Contract = everybody_may,
    ) -> list[Effect]:
        """Own a group from now on; `GroupOpened` comes when its events can go out."""
        self.office.now = now
        self._when_joined(
            partial(
                self.office.owning.create,
                predicate,
                is_advertised=is_advertised,
                is_private=is_private,
                contract=contract,
            )
        )
        return self._taken()

    def advertise(self, predicate: Predicate, now: int) -> list[Effect]:
        """Put a group of this node's on the boards, if it is not there yet, or once more."""
        self.office.now = now
        group = self.office.owning.groups[predicate]
        group.is_advertised = True
        self.office.records.put_group(group)
        self._when_joined(partial(self.office.advertising.advertise, group))
        return self._taken()

    def publish_in(
        self, group: Predicate, publication: Publication, now: int, *, wants_all: bool = False
    ) -> list[Effect]:
        """Publish in a group of this node's; `Published` or `Refused` comes."""
        self.office.now = now
        self._when_joined(
            partial(self._publish_in, group, publication, wants_all=wants_all, is_new=False)
        )
        return self._taken()

    def join_group(
        self,
        subscription: Subscription,
        owner: Contact,
        group: Predicate,
        now: int,
        invitation: bytes = b"",
    ) -> list[Effect]:
        """Join one group, of which the owner is known; `Subscribed` or `JoinRefused` comes."""
        self.office.now = now
        self.office.local.add(subscription)
        if owner.addresses:
            self.office.do(Connect(owner.peer, owner.addresses))
        self._when_joined(partial(self.office.joining.join, subscription, owner, group, invitation))
        return self._taken()

    def search(self, predicate: Predicate, number: int, now: int) -> list[Effect]:
        """Search the boards once; `SearchResult` comes under the number."""
        self.office.now = now
        self._when_joined(partial(self.office.searching.search, predicate, number))
        return self._taken()

    def invite(self, group: Predicate, peer: Peer) -> bytes:
        """An invitation for somebody to a private group of this node's."""
        return signed_invitation(self.office, group, peer)

    def _publish_in(
        self, predicate: Predicate, event: Publication, *, wants_all: bool, is_new: bool
    ) -> None:
        owning = self.office.owning
        group = owning.groups.get(predicate)
        if group is None and is_new:
            group = owning.create(predicate)
        if group is None:
            reason = (
                owning.too_many
                if is_new
                else f"only the owner publishes in a group, and this node owns no {predicate};"
                " create it first"
            )
            self.office.deliver(Refused(event.id, reason))
        else:
            self.office.spreading.publish(event, group, wants_all=wants_all)

    def _when_joined(self, action: Callable[[], object]) -> None:
        """Do something as soon as the node has its place in the overlay."""
        if self._has_joined:
            action()
        else:
            self._early.append(action)

    # --- what happens ---

    def handle(self, event: Event, now: int) -> list[Effect]:
        """What to do about an event."""
        office = self.office
        office.now = now
        match event:
            case Received(peer, Packet() as packet, addresses):
                office.hear(peer)
                office.owning.hear(peer)
                self._on_packet(Contact.of(peer, addresses), packet)
            case TimerFired((_, "ask", int(number))):
                office.on_ask_timer(number)
            case TimerFired((_, "turns")):
                office.turns.on_timer()
            case TimerFired((_, "tick")):
                self._tick()
            case Told(Found() as found):
                office.finding.on_found(found)
            case Told(Joined()):
                self._on_joined()
            case Loaded(prefix, values) if prefix == STORED:
                self._early.insert(0, partial(office.records.on_loaded, values))
                if self._has_joined:
                    self._do_early()
            case Started(incarnation):
                office.incarnation = incarnation
                office.last_number = incarnation << NUMBER_BITS
                office.records.load()
                office.set_timer(("tick",), now + self._spread(office.settings.probe_us))
        return self._taken()

    def _on_packet(self, contact: Contact, packet: Packet) -> None:
        number, part = packet
        kind = type(part)
        if kind in _ANSWERS:
            self.office.on_answer(contact.peer, number, part)  # type: ignore[arg-type]
        else:
            self._on_question[kind](contact, number, part)

    def _on_joined(self) -> None:
        if not self._has_joined:
            self._has_joined = True
            self._do_early()

    def _do_early(self) -> None:
        early, self._early = self._early, []
        for action in early:
            action()

    def _tick(self) -> None:
        office = self.office
        office.set_timer(("tick",), office.now + self._spread(office.settings.probe_us))
        office.forget()
        office.finding.tick()
        office.boards.tick()
        office.joining.tick()
        office.owning.tick()
        office.helping.tick()
        office.keeping.tick()

    def _taken(self) -> list[Effect]:
        office = self.office
        while office.to_self:
            said, office.to_self = office.to_self, []
            for packet in said:
                self._on_packet(office.own, packet)
        return office.taken()

    def _spread(self, interval: int) -> int:
        """An interval that differs a little from node to node, so that they do not act as one."""
        return interval * self.office.rng.randint(80, 120) // 100

    # --- for an onlooker ---

    def inspect(self) -> Inspection:
        """The node's state for an onlooker."""
        groups = self.office.owning.groups.values()
        served = dict.fromkeys(peer for group in groups for peer in group.requests)
        return Inspection(bounds=self.tally().bounds, served=tuple(served))

    def check(self) -> None:
        """Assert the invariants of the state."""
        assert all(bound.held <= bound.held_max for bound in self.tally().bounds)

    def tally(self) -> Tally:
        """How much there is of what has limits, and what was refused."""
        office, settings = self.office, self.office.settings
        groups = office.owning.groups.values()
        fan_out = max((group.book.fan_out for group in groups), default=0)
        bounds = (
            Bound("groups", len(groups), settings.group_count_max),
            Bound("memberships", len(office.joining.memberships), settings.group_count_max),
            Bound("fan-out", fan_out, settings.fan_out_max),
            Bound("members served for others", office.helping.charge_count, settings.capacity),
            Bound("open events", len(office.spreading.open), settings.open_count_max),
            Bound("events before their turn", office.turns.held_count, settings.held_count_max),
            Bound("boards", len(office.boards.boards), settings.board_count_max),
            Bound("events kept for others", office.keeping.kept_count, settings.kept_count_max),
        )
        return Tally(bounds, office.refusals)
