"""Pulsarcast as a core: it hands what happens to the desk that it concerns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any

from smartpubsub.kademlia.core import Kademlia
from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.queries import Joined
from smartpubsub.protocols.blocks import Cid, CidError
from smartpubsub.protocols.publication import Publication, Signing
from smartpubsub.protocols.pubsub import (
    Bound,
    Inspection,
    Refused,
    Subscription,
    SubscriptionState,
    Tally,
)
from smartpubsub.protocols.pulsarcast import parts
from smartpubsub.protocols.pulsarcast.backfilling import Backfill
from smartpubsub.protocols.pulsarcast.beating import Beating
from smartpubsub.protocols.pulsarcast.catching_up import CatchingUp
from smartpubsub.protocols.pulsarcast.describing import Describing
from smartpubsub.protocols.pulsarcast.finding import Finding
from smartpubsub.protocols.pulsarcast.gathering import Wanted
from smartpubsub.protocols.pulsarcast.importing import Importing
from smartpubsub.protocols.pulsarcast.joining import Joining
from smartpubsub.protocols.pulsarcast.keeping import Keepers
from smartpubsub.protocols.pulsarcast.linking import Linking
from smartpubsub.protocols.pulsarcast.office import NAME, Office
from smartpubsub.protocols.pulsarcast.parts import Parcel
from smartpubsub.protocols.pulsarcast.publishing import Publishing
from smartpubsub.protocols.pulsarcast.reading import Reading
from smartpubsub.protocols.pulsarcast.requesting import Requesting
from smartpubsub.protocols.pulsarcast.room import Room
from smartpubsub.protocols.pulsarcast.settings import PulsarSettings
from smartpubsub.protocols.pulsarcast.spreading import Spreading
from smartpubsub.protocols.pulsarcast.storing import STORED, Storing
from smartpubsub.protocols.pulsarcast.subscribing import Subscribing
from smartpubsub.protocols.pulsarcast.topics import Rules, Topic, topic_named_by
from smartpubsub.seam import (
    Disconnected,
    Effect,
    Event,
    Load,
    Loaded,
    Received,
    Started,
    TimerFired,
    Told,
)


class Pulsarcast:
    """One node's share of Pulsarcast."""

    name = NAME
    messages: tuple[type, ...] = (Parcel,)

    def __init__(
        self, settings: PulsarSettings, kademlia: Kademlia, signing: Signing, rng: Random
    ) -> None:
        self.office = office = Office(settings, kademlia, signing, rng)
        office.describing = Describing(office)
        office.finding = Finding(office)
        office.joining = Joining(office)
        office.beating = Beating(office)
        office.spreading = Spreading(office)
        office.catching_up = CatchingUp(office)
        office.backfilling = Backfill(office)
        office.keeping = Keepers(office)
        office.linking = Linking(office)
        office.publishing = Publishing(office)
        office.requesting = Requesting(office)
        office.storing = Storing(office)
        office.subscribing = Subscribing(office)
        office.reading = Reading(office)
        office.importing = Importing(office)
        self._has_loaded = False
        self._early: list[Callable[[], None]] = []
        joining, catching_up, keeping = office.joining, office.catching_up, office.keeping
        self._on_part: dict[type, Callable[[Contact, Any], None]] = {
            parts.Spread: lambda c, p: office.spreading.on_spread(c.peer, p),
            parts.Join: joining.on_join,
            parts.Welcome: joining.on_welcome,
            parts.Elsewhere: joining.on_elsewhere,
            parts.Wait: lambda c, p: joining.on_wait(c.peer, p),
            parts.Leave: lambda c, p: joining.on_leave(c.peer, p),
            parts.Beat: office.beating.on_beat,
            parts.Fetch: lambda c, p: catching_up.on_fetch(c.peer, p),
            parts.Range: lambda c, p: office.backfilling.on_range(c.peer, p),
            parts.Page: self._on_page,
            parts.Want: lambda c, p: office.finding.on_want(c.peer, p),
            parts.Described: lambda _, p: office.finding.on_described(p),
            parts.Invite: keeping.on_invite,
            parts.Keep: keeping.on_keep,
            parts.Kept: lambda c, p: keeping.on_kept(c.peer, p),
            parts.Request: lambda c, p: office.requesting.on_request(c.peer, p),
            parts.Granted: lambda _, p: office.requesting.on_granted(p),
        }
        self._on_room_timer: dict[str, Callable[[Room], None]] = {
            "join": joining.on_join_timer,
            "parent": office.beating.on_parent_timer,
            "attach": joining.on_attach_timer,
            "describe": office.describing.on_timer,
            "check": catching_up.on_check,
            "fetch": catching_up.on_fetch_timer,
            "news": catching_up.on_news,
            "backfill": office.backfilling.on_timer,
            "keep": keeping.on_timer,
            "link": office.linking.on_timer,
            "request": office.requesting.on_timer,
        }

    # --- what can be wanted ---

    def create(
        self,
        name: str,
        now: int,
        *,
        rules: Rules | None = None,
        subtopics: Mapping[str, Cid] | None = None,
    ) -> tuple[Topic, list[Effect]]:
        """Make a topic of this node's; `TopicStored` comes."""
        self.office.now = now
        topic = self.office.publishing.create(name, rules or Rules(), subtopics or {})
        return topic, self.office.taken()

    def update(
        self,
        topic: Cid,
        now: int,
        *,
        rules: Rules | None = None,
        subtopics: Mapping[str, Cid] | None = None,
    ) -> tuple[Topic, list[Effect]]:
        """Make a new version of a topic of this node's, which it knows; `TopicStored` comes."""
        self.office.now = now
        room = self.office.room_of[topic]
        version = self.office.publishing.next_version(
            room,
            rules or room.topic.rules,
            room.topic.subtopics if subtopics is None else subtopics,
        )
        return version, self.office.taken()

    def subscribe(
        self, subscription: Subscription, now: int, *, is_kept: bool = False
    ) -> list[Effect]:
        """Take a new subscription, whose predicate names a topic; `Subscribed` comes.

        One that is kept is there again after a restart, with all that has come for it and that
        nobody has taken.
        """
        self.office.now = now
        self.office.subscribing.wanted[subscription.number] = subscription
        if is_kept:
            self.office.subscribing.keep(subscription)
        self._when_loaded(lambda: self.office.subscribing.begin(subscription.number))
        return self.office.taken()

    def unsubscribe(self, number: int, now: int) -> list[Effect]:
        """End a subscription; nothing is delivered to it any more, and `Unsubscribed` comes."""
        self.office.now = now
        self.office.subscribing.end(number)
        return self.office.taken()

    def take_told(self, number: int, event: Cid, now: int) -> list[Effect]:
        """Have what a subscription that is kept was told wait no more, up to and with an event."""
        self.office.now = now
        self.office.subscribing.take(number, event)
        return self.office.taken()

    def state_of(self, number: int, now: int) -> SubscriptionState:
        """How far one of the node's subscriptions has come."""
        return self.office.subscribing.state_of(number)

    def publish(
        self, publication: Publication, now: int, *, wants_all: bool = False
    ) -> list[Effect]:
        """Publish in the topic that the predicate names; `Published` or `Refused` comes."""
        self.office.now = now
        try:
            topic = topic_named_by(publication.predicate)
        except CidError as error:
            self.office.deliver(Refused(publication.id, str(error)))
            return self.office.taken()
        return self.publish_in(topic, publication, now)

    def publish_in(
        self,
        topic: Cid,
        publication: Publication,
        now: int,
        parents: tuple[Cid, ...] | None = None,
    ) -> list[Effect]:
        """Publish in a topic, linked to what the application says if that is the topic's rule."""
        self.office.now = now
        self._when_loaded(lambda: self.office.publishing.publish(publication, topic, parents))
        return self.office.taken()

    def read(self, topic: Cid, wanted: Wanted, now: int) -> tuple[int, list[Effect]]:
        """Read a topic's history; `HistoryRead` comes, with the number that this gives."""
        self.office.now = now
        number = self.office.new_number()
        self._when_loaded(lambda: self.office.reading.read(topic, wanted, number))
        return number, self.office.taken()

    def describe(self, topic: Cid, now: int) -> tuple[int, list[Effect]]:
        """Find a topic's versions; `TopicDescribed` comes, with the number that this gives."""
        self.office.now = now
        number = self.office.new_number()
        self._when_loaded(lambda: self.office.describing.describe(topic, number))
        return number, self.office.taken()

    def pin(self, topic: Cid, is_pinned: bool, now: int) -> list[Effect]:
        """Keep a topic that the node knows whole, whatever its retention is, or not any more."""
        self.office.now = now
        room = self.office.room_of[topic]
        room.is_pinned = is_pinned
        self.office.storing.store_room(room)
        self.office.storing.let_go(room)
        self.office.backfilling.begin_if_wanted(room)
        self.office.joining.attach(room)
        return self.office.taken()

    def take(self, blocks: Sequence[bytes], now: int) -> tuple[int, list[Effect]]:
        """Take blocks from a file, and pin their topics; how many were good."""
        self.office.now = now
        return self.office.importing.take(blocks), self.office.taken()

    def _when_loaded(self, action: Callable[[], None]) -> None:
        """Do something as soon as the node knows again what it knew before a restart."""
        if self._has_loaded and self.office.is_ready:
            action()
        else:
            self._early.append(action)

    # --- what happens ---

    def handle(self, event: Event, now: int) -> list[Effect]:
        """What to do about an event."""
        office = self.office
        office.now = now
        match event:
            case Received(peer, Parcel(said), addresses):
                if office.is_ready:
                    self._on_parcel(Contact.of(peer, addresses), said)
            case TimerFired((_, *name)):
                self._on_timer(name)
            case Told(Joined(known)):
                self._on_joined(known)
            case Told(item):
                office.on_told(item)
            case Disconnected(peer):
                office.beating.on_disconnected(peer)
                office.keeping.on_disconnected(peer)
            case Started(incarnation):
                office.incarnation = incarnation
                office.do(Load(STORED))
                office.set_timer(("beat",), office.spread_out(office.settings.beat_us))
            case Loaded(_, values):
                office.storing.load(values)
                for number in office.subscribing.resume():
                    self._early.append(partial(office.subscribing.begin, number))
                self._has_loaded = True
                self._begin()
        return office.taken()

    def _on_parcel(self, contact: Contact, said: tuple[parts.Part, ...]) -> None:
        self.office.has_company = True
        self.office.hear_from(contact.peer)
        for part in said:
            self._on_part[type(part)](contact, part)

    def _on_page(self, contact: Contact, part: parts.Page) -> None:
        self.office.catching_up.on_page(contact.peer, part)
        self.office.backfilling.on_page(contact.peer, part)
        self.office.reading.on_page(contact.peer, part)
        self.office.linking.on_page(contact.peer, part)

    def _on_joined(self, known: int) -> None:
        if known:
            self.office.has_company = True
        self.office.is_ready = True
        self._begin()

    def _begin(self) -> None:
        if not (self._has_loaded and self.office.is_ready):
            return
        # What was asked for before a restart comes before what was published since.
        requests, self.office.storing.requests = self.office.storing.requests, []
        self.office.requesting.resume(requests)
        early, self._early = self._early, []
        for action in early:
            action()
        for room in list(self.office.rooms.values()):
            self.office.joining.attach(room)

    def _on_timer(self, name: list[Any]) -> None:
        kind, *about = name
        if kind == "beat":
            self._beat()
        elif kind == "find":
            self.office.finding.on_timer(about[0])
        elif kind == "read":
            self.office.reading.on_timer(about[0])
        elif kind == "subscribe":
            self.office.subscribing.begin(about[0])
        else:
            room = self.office.rooms.get(about[0])
            if room is not None:
                self._on_room_timer[kind](room)

    def _beat(self) -> None:
        office = self.office
        office.set_timer(("beat",), office.spread_out(office.settings.beat_us))
        if not office.is_ready:
            return
        for room in list(office.rooms.values()):
            if office.settings.retention.age_us_max is not None:
                office.storing.let_go(room)
            office.beating.beat(room)
            office.backfilling.begin_if_wanted(room)

    # --- for an onlooker ---

    def inspect(self) -> Inspection:
        """The node's state for an onlooker."""
        rooms = self.office.rooms.values()
        served = dict.fromkeys(peer for room in rooms for peer in room.children)
        return Inspection(bounds=self.tally().bounds, served=tuple(served))

    def check(self) -> None:
        """Assert the invariants of the state."""
        assert all(bound.held <= bound.held_max for bound in self.tally().bounds)

    def tally(self) -> Tally:
        """How much there is of what has limits, and what was refused."""
        settings, rooms = self.office.settings, self.office.rooms
        children = [len(room.children) for room in rooms.values()]
        events = [len(room.log) for room in rooms.values() if not room.is_pinned]
        pending = [len(room.keeping) for room in rooms.values()]
        bounds = (
            Bound("topics", len(rooms), settings.room_count_max),
            Bound("children", max(children, default=0), 2 * settings.fan_out_max),
            Bound("events", max(events, default=0), settings.retention.event_count_max),
            Bound("stored bytes", self.office.storing.event_bytes, settings.stored_bytes_max),
            Bound("open events", max(pending, default=0), settings.pending_count_max),
        )
        return Tally(bounds, dict(self.office.refused))
