"""FastDelivery as a core: routes inputs to components and wires them to each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random
from types import MappingProxyType
from typing import Any, get_args

from smartpubsub.kademlia.core import Kademlia
from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.queries import Found, Joined
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.fastdelivery import messages as fast
from smartpubsub.protocols.fastdelivery.component import FastOutbox, FastRequests
from smartpubsub.protocols.fastdelivery.delivery import HOLD_TIMER, GroupDelivery
from smartpubsub.protocols.fastdelivery.directory import GroupDirectory
from smartpubsub.protocols.fastdelivery.directory_client import GroupAdvertiser, GroupSearch
from smartpubsub.protocols.fastdelivery.group import Contract, OwnedGroup, accept_all
from smartpubsub.protocols.fastdelivery.helper import GroupHelper
from smartpubsub.protocols.fastdelivery.keepers import KeeperLookup
from smartpubsub.protocols.fastdelivery.messages import Answer, GroupNotify, Packet, Question, Relay
from smartpubsub.protocols.fastdelivery.owner import GroupOwner
from smartpubsub.protocols.fastdelivery.persistence import GroupStore
from smartpubsub.protocols.fastdelivery.regions import RegionFinder
from smartpubsub.protocols.fastdelivery.replicas import GroupReplicas
from smartpubsub.protocols.fastdelivery.review import (
    RECENT_BYTES_MAX,
    REVIEW_TIMER,
    GroupReviews,
    RecentGroupEvents,
)
from smartpubsub.protocols.fastdelivery.senders import FastSenders
from smartpubsub.protocols.fastdelivery.settings import FastSettings
from smartpubsub.protocols.fastdelivery.shapes import shape_of
from smartpubsub.protocols.fastdelivery.signatures import GroupSignatures
from smartpubsub.protocols.fastdelivery.subscriber import GroupSubscriber
from smartpubsub.protocols.fastdelivery.timeouts import AnswerTimeouts
from smartpubsub.protocols.publication import Publication, Signing
from smartpubsub.protocols.pubsub import (
    Bound,
    Inspection,
    Subscription,
    SubscriptionState,
    Tally,
)
from smartpubsub.protocols.runtime.deferred import DEFERRED_COUNT_MAX, Deferred
from smartpubsub.protocols.runtime.invariants import check_components
from smartpubsub.protocols.runtime.lookups import Lookups
from smartpubsub.protocols.runtime.outbox import Outbox
from smartpubsub.protocols.runtime.randomness import branch_of, jittered
from smartpubsub.protocols.runtime.requests import REQUEST_TIMER, Requests
from smartpubsub.seam import (
    Connect,
    Departed,
    Effect,
    Event,
    Indication,
    Loaded,
    Peer,
    Received,
    Started,
    Timer,
    TimerFired,
)

NAME = "fast"
"""The prefix of timers and, with a slash, of storage keys."""
TICK_TIMER = "tick"

_ANSWERS = frozenset(get_args(Answer)) - {fast.Working}


def _mark_resend(question: Question) -> Question:
    if isinstance(question, GroupNotify | Relay):
        return question._replace(is_resend=True)
    return question


class FastDelivery:
    """One node's part in FastDelivery.

    Each component takes only components that are declared before it, so there are no cycles.
    """

    name = NAME
    messages: tuple[type, ...] = (Packet,)

    def __init__(
        self, settings: FastSettings, kademlia: Kademlia, signing: Signing, rng: Random
    ) -> None:
        self._settings = settings
        self._own = own = kademlia.own
        self._rng = rng
        self._to_self: list[Packet] = []
        """Messages of this node to itself, which use no link."""
        self._deferred = Deferred(DEFERRED_COUNT_MAX)
        self._stored: Sequence[tuple[bytes, bytes]] = ()
        """Stored groups and members that wait until the node has joined the overlay."""

        self._outbox: FastOutbox = Outbox(NAME, list)
        self._lookups = Lookups(self._outbox, kademlia)
        timeouts = AnswerTimeouts(settings)
        self._requests: FastRequests = Requests(
            self._outbox,
            self._send,
            timeouts,
            tries_max=settings.tries_max,
            mark_resend=_mark_resend,
        )
        self._signatures = GroupSignatures(signing, own, settings)
        outbox, requests, signatures = self._outbox, self._requests, self._signatures
        base = outbox, requests, signatures, settings, own, kademlia.ledger
        self._store = GroupStore(self._outbox)
        self._keepers = keepers = KeeperLookup(self._outbox, kademlia, self._lookups, settings)
        self._delivery = GroupDelivery(*base)
        self.directory = GroupDirectory(*base, keepers)
        self._search = GroupSearch(*base, keepers, rng)
        self._subscriber = GroupSubscriber(
            *base, self._search, self._delivery, lambda group: self._reviews.begin(group)
        )
        self._reviews = GroupReviews(
            *base, self._delivery, self._subscriber.is_helped, branch_of(rng, "reviews")
        )
        self.helper = GroupHelper(*base, self._delivery, self._subscriber.is_member)
        self._regions = RegionFinder(*base)
        self._replicas = GroupReplicas(*base, keepers)
        self._recent = RecentGroupEvents(outbox, settings)
        self._owner = GroupOwner(
            *base,
            timeouts,
            kademlia.blame,
            GroupAdvertiser(*base, keepers),
            self._regions,
            self._replicas,
            self._store,
            self._recent,
            self._delivery.deliver,
        )
        self._senders = FastSenders(*base, keepers, self._subscriber)
        self._on_question: dict[type, Callable[[Contact, int, Any], None]] = {
            fast.GroupNotify: self._subscriber.on_notify,
            fast.Relay: self.helper.on_relay,
            fast.Join: self._owner.on_join,
            fast.ServedBy: self._subscriber.on_served_by,
            fast.GroupEnded: self._subscriber.on_group_ended,
            fast.Recruit: self.helper.on_recruit,
            fast.Delegate: self.helper.on_delegate,
            fast.Release: self.helper.on_release,
            fast.Advertise: self.directory.on_advertise,
            fast.Search: self.directory.on_search,
            fast.Unwatch: self.directory.on_unwatch,
            fast.CopyDirectory: self.directory.on_copy,
            fast.PullDirectory: self.directory.on_pull,
            fast.Invite: self._subscriber.on_invite,
            fast.Measure: self._regions.on_measure,
            fast.Keep: self._replicas.on_keep,
            fast.Expect: self._owner.on_expect,
            fast.Review: self._owner.on_review,
            fast.Ping: self._on_ping,
        }

    def _call(
        self, now: int, call: Callable[..., Any], *arguments: object, **options: object
    ) -> list[Effect]:
        """Call a component once the node has joined the overlay; return the effects of now."""
        self._outbox.now = now
        self._deferred.call(partial(call, *arguments, **options))
        return self._take()

    # --- what every protocol offers ---

    def subscribe(self, subscription: Subscription, now: int) -> list[Effect]:
        """Join all groups whose events may match; deliver `Subscribed` when it is in force."""
        self._deferred.must_have_room()
        self._delivery.add(subscription)
        return self._call(now, self._subscriber.subscribe, subscription)

    def unsubscribe(self, number: int, now: int) -> list[Effect]:
        """End a subscription; deliver `Unsubscribed` when all owners know or do not answer."""
        self._outbox.now = now
        subscription = self._delivery.remove(number)
        self._deferred.run_anyway(partial(self._subscriber.unsubscribe, subscription))
        return self._take()

    def state_of(self, number: int, now: int) -> SubscriptionState:
        """Return how far a subscription has come."""
        self._outbox.now = now
        return self._subscriber.state_of(number)

    def publish(
        self, publication: Publication, now: int, *, wants_all: bool = False
    ) -> list[Effect]:
        """Publish in a group that every interested subscriber finds; create it if need be."""
        group = shape_of(publication.predicate)
        call = self._owner.publish
        return self._call(now, call, group, publication, wants_all=wants_all, creates=True)

    # --- groups ---

    @property
    def groups(self) -> Mapping[Predicate, OwnedGroup]:
        """The groups that this node owns, for reading."""
        return MappingProxyType(self._owner.groups)

    def create_group(
        self,
        predicate: Predicate,
        now: int,
        *,
        is_advertised: bool = True,
        is_private: bool = False,
        contract: Contract = accept_all,
    ) -> list[Effect]:
        """Own a group; deliver `GroupOpened` when its events can go out."""
        properties = {"is_advertised": is_advertised, "is_private": is_private}
        call = self._owner.create
        return self._call(now, call, predicate, contract=contract, **properties)

    def advertise(self, predicate: Predicate, now: int) -> list[Effect]:
        """Put a group of this node into its directories, or renew it there."""
        self._outbox.now = now
        self._deferred.must_have_room()
        self._owner.mark_advertised(predicate)
        return self._call(now, self._owner.advertise, predicate)

    def end_group(self, predicate: Predicate, now: int) -> tuple[str, list[Effect]]:
        """End a group of this node, unless events are in flight; return why not, or ""."""
        self._outbox.now = now
        problem = self._owner.end(predicate)
        return problem, self._take()

    def publish_in(
        self, group: Predicate, publication: Publication, now: int, *, wants_all: bool = False
    ) -> list[Effect]:
        """Publish in a group of this node; deliver `Published` or `Refused`."""
        call = self._owner.publish
        return self._call(now, call, group, publication, wants_all=wants_all, creates=False)

    def join_group(
        self,
        subscription: Subscription,
        owner: Contact,
        group: Predicate,
        now: int,
        invitation: bytes = b"",
    ) -> list[Effect]:
        """Join a group whose owner is known; deliver `Subscribed` or `JoinRefused`."""
        self._deferred.must_have_room()
        self._delivery.add(subscription, fast.GroupId(owner.peer, group))
        if owner.addresses:
            self._outbox.emit(Connect(owner.peer, owner.addresses))
        return self._call(now, self._subscriber.join, subscription, owner, group, invitation)

    def search(self, predicate: Predicate, number: int, now: int) -> list[Effect]:
        """Search directories once; deliver a `SearchResult` under the number."""
        return self._call(now, self._search.search, predicate, number)

    def invite(self, group: Predicate, peer: Peer) -> bytes:
        """Return an invitation for a peer to a private group of this node."""
        return self._signatures.invitation(group, peer)

    # --- inputs ---

    def handle(self, event: Event, now: int) -> list[Effect]:
        """Handle an input and return the effects."""
        self._outbox.now = now
        match event:
            case Received(peer, Packet() as packet, addresses):
                self._keepers.heard(peer)
                self._owner.heard(peer)
                self._on_packet(Contact.of(peer, addresses), packet)
            case TimerFired(timer):
                self._on_timer(timer)
            case Departed(peer):
                self._requests.on_departed(peer)
            case Indication(Found() as found):
                self._lookups.on_result(found)
            case Indication(Joined()):
                self._on_joined()
            case Loaded(prefix, values) if prefix == self._store.prefix:
                self._stored = values
                if self._deferred.is_open:
                    self._restore()
            case Started(incarnation):
                for component in (self._requests, self._subscriber, self._owner):
                    component.start(incarnation)
                self._store.load()
                self._set_tick_timer()
        return self._take()

    def _on_timer(self, timer: Timer) -> None:
        match timer:
            case (_, name) if name == REQUEST_TIMER:
                self._requests.on_timer()
            case (_, name, fast.GroupId() as group) if name == REVIEW_TIMER:
                self._reviews.on_timer(group)
            case (_, name) if name == HOLD_TIMER:
                self._delivery.on_hold_timer()
            case (_, name) if name == TICK_TIMER:
                self._tick()

    def _on_packet(self, contact: Contact, packet: Packet) -> None:
        number, part = packet
        kind = type(part)
        if not self._senders.may_send(contact, packet):
            return
        if kind is fast.Working:
            self._requests.on_progress(contact.peer, number)
        elif kind in _ANSWERS:
            self._requests.on_answer(contact.peer, number, part)  # type: ignore[arg-type]
        else:
            self._on_question[kind](contact, number, part)

    def _on_ping(self, contact: Contact, number: int, _: fast.Ping) -> None:
        self._requests.answer(contact.peer, number, fast.RequestDone())

    def _on_joined(self) -> None:
        if not self._deferred.is_open:
            self._restore()
            self._deferred.open()

    def _restore(self) -> None:
        values, self._stored = self._stored, ()
        self._owner.restore(self._store.read(values))

    def _set_tick_timer(self) -> None:
        self._outbox.set_timer((TICK_TIMER,), jittered(self._settings.probe_us, self._rng))

    def _tick(self) -> None:
        self._set_tick_timer()
        self._recent.forget_old()
        for component in (
            self._keepers,
            self.directory,
            self._subscriber,
            self._owner,
            self.helper,
            self._replicas,
        ):
            component.tick()

    def _send(self, peer: Peer, number: int, part: Question | Answer) -> None:
        packet = Packet(number, part)
        if peer == self._own.peer:
            self._to_self.append(packet)
        else:
            self._outbox.send(peer, packet)

    def _take(self) -> list[Effect]:
        while self._to_self:
            packets, self._to_self = self._to_self, []
            for packet in packets:
                self._on_packet(self._own, packet)
        return self._outbox.take()

    # --- inspection ---

    def neighbours(self) -> list[Peer]:
        """Return the members of own groups, and the owners of groups that the node is in."""
        members = [peer for group in self._owner.groups.values() for peer in group.requests]
        return [*members, *self._subscriber.owners()]

    def inspect(self) -> Inspection:
        """Return the node's state for an observer."""
        groups = self._owner.groups.values()
        served = dict.fromkeys(peer for group in groups for peer in group.requests)
        return Inspection(bounds=self.tally().bounds, served=tuple(served))

    def check(self) -> None:
        """Assert the invariants of all components."""
        assert all(bound.held <= bound.held_max for bound in self.tally().bounds)
        assert not self._to_self, "a message of this node to itself was not handled"
        check_components(self)

    def tally(self) -> Tally:
        """Return the sizes of bounded collections, and the rejected messages by reason."""
        settings, groups = self._settings, self._owner.groups.values()
        fan_out = max((group.book.fan_out for group in groups), default=0)
        memberships, held = self._subscriber.membership_count, self._delivery.held_count
        bounds = (
            Bound("groups", len(groups), settings.group_count_max),
            Bound("memberships", memberships, settings.group_count_max),
            Bound("fan-out", fan_out, settings.fan_out_max),
            Bound("delegated members", self.helper.delegated_count, settings.capacity),
            Bound("events in flight", self._owner.in_flight_count, settings.in_flight_count_max),
            Bound("bytes of own events", self._recent.bytes_held, RECENT_BYTES_MAX),
            Bound("held events", held, settings.held_count_max),
            Bound("directories", len(self.directory.directories), settings.directory_count_max),
            Bound("event replicas", self._replicas.count, settings.replica_count_max),
        )
        return Tally(bounds, self._outbox.rejected)
