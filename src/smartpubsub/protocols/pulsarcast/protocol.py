"""Pulsarcast as a core: routes inputs to the components, and news between them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any, NamedTuple

from smartpubsub.kademlia.core import Kademlia
from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.ledger import USER_SHARE
from smartpubsub.kademlia.queries import Joined, Lost
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
from smartpubsub.protocols.pulsarcast import messages as pulsar
from smartpubsub.protocols.pulsarcast.audits import TopicAudits
from smartpubsub.protocols.pulsarcast.component import Overlay
from smartpubsub.protocols.pulsarcast.descriptor_search import (
    WAITING_BYTES_MAX,
    DescriptorSearch,
)
from smartpubsub.protocols.pulsarcast.dissemination import Forks, TopicDissemination
from smartpubsub.protocols.pulsarcast.events import TopicEvent
from smartpubsub.protocols.pulsarcast.fetcher import Backfill, Fetcher, ParentFetcher
from smartpubsub.protocols.pulsarcast.history import HistoryReader, Wanted
from smartpubsub.protocols.pulsarcast.importer import Importer
from smartpubsub.protocols.pulsarcast.keepers import Keepers
from smartpubsub.protocols.pulsarcast.liveness import Liveness
from smartpubsub.protocols.pulsarcast.membership import (
    Attached,
    HeadsHeard,
    Membership,
    MembershipNews,
    PlaceTaken,
    RootActive,
    TopicLeft,
)
from smartpubsub.protocols.pulsarcast.messages import Parcel, Part, parcels_of
from smartpubsub.protocols.pulsarcast.pages import PageRequests, PageServer
from smartpubsub.protocols.pulsarcast.permissions import Permissions
from smartpubsub.protocols.pulsarcast.persistence import TopicPersistence, read_stored
from smartpubsub.protocols.pulsarcast.publisher import (
    EARLY_BYTES_MAX,
    RequestSender,
    RequestServer,
    TopicPublisher,
)
from smartpubsub.protocols.pulsarcast.replicas import TopicReplica, TopicReplicas
from smartpubsub.protocols.pulsarcast.senders import PulsarSenders
from smartpubsub.protocols.pulsarcast.settings import PulsarSettings
from smartpubsub.protocols.pulsarcast.store import EventStore
from smartpubsub.protocols.pulsarcast.subscriptions import TopicSubscriptions
from smartpubsub.protocols.pulsarcast.topics import (
    TOPIC_BYTES_MAX,
    Rules,
    Topic,
    rules_ordered_by,
    topic_named_by,
)
from smartpubsub.protocols.pulsarcast.versions import Versions
from smartpubsub.protocols.runtime.deferred import DEFERRED_COUNT_MAX, Deferred
from smartpubsub.protocols.runtime.invariants import check_components
from smartpubsub.protocols.runtime.outbox import Outbox
from smartpubsub.protocols.runtime.randomness import branch_of, jittered
from smartpubsub.protocols.runtime.replication import Closest, SilentPeers
from smartpubsub.seam import (
    Departed,
    Disconnected,
    Effect,
    Event,
    Indication,
    Load,
    Loaded,
    Peer,
    Received,
    Started,
    TimerFired,
)

NAME = "pulsarcast"


class TopicStatus(NamedTuple):
    """A topic that this node replicates, and why."""

    replica: TopicReplica
    subscription_count: int
    is_keeper: bool


class Pulsarcast:
    """One node's share of Pulsarcast.

    Components are made in the order of their dependencies: each refers only to earlier ones. It
    reports news for later ones to this class, by a callback.
    """

    name = NAME
    messages: tuple[type, ...] = (Parcel,)

    def __init__(
        self, settings: PulsarSettings, kademlia: Kademlia, signing: Signing, rng: Random
    ) -> None:
        self.settings = settings
        self._rng = rng
        self._deferred = Deferred(DEFERRED_COUNT_MAX)
        self._has_loaded = False
        self._stored_requests: list[Any] = []
        self._loaded: list[TopicReplica] = []
        """The topics from before a restart, until the node has joined."""
        outbox: Outbox[Part] = Outbox(NAME, parcels_of)
        self._outbox = outbox
        self._overlay = Overlay(outbox, kademlia)
        self.liveness = Liveness(outbox, settings)
        self.permissions = Permissions(outbox, settings, signing)
        persistence = TopicPersistence(outbox, lambda id: self.keepers.is_keeper(id))
        base = outbox, settings, self._overlay, self.liveness, self.permissions, persistence
        self.descriptors = descriptors = DescriptorSearch(
            *base,
            lambda cid: self.replicas.version(cid),
            kademlia.ledger.open("waiting for descriptors", WAITING_BYTES_MAX),
        )
        bytes_max = settings.descriptor_bytes_max
        bytes_min = min(bytes_max, 2 * TOPIC_BYTES_MAX)
        self.replicas = replicas = TopicReplicas(
            *base,
            descriptors,
            self._on_version,
            kademlia.ledger.open("descriptors", bytes_max, max(bytes_max // USER_SHARE, bytes_min)),
        )
        self.store = EventStore(*base, replicas, self._on_pruned)
        self.membership = membership = Membership(
            *base, replicas, self.store, self._is_needed, self._on_membership_news
        )
        in_tree = replicas, membership
        self._versions = Versions(*base, *in_tree, descriptors)
        self.subscriptions = TopicSubscriptions(*base, *in_tree)
        self._forks = Forks()
        self._dissemination = TopicDissemination(
            *base, *in_tree, self.store, self.subscriptions, self._forks, self._on_accepted
        )
        silent = SilentPeers(outbox, settings.avoid_us)
        self.keepers = Keepers(
            *(*base, *in_tree, self._dissemination, silent),
            SilentPeers(outbox, settings.avoid_us),
            Closest(kademlia, silent),
            self._on_keeper,
        )
        self._pages = pages = PageRequests(*base)
        self._page_server = PageServer(*base, replicas)
        self.fetcher = Fetcher(*base, *in_tree, pages, self._dissemination, self.keepers)
        self._backfill = Backfill(*base, *in_tree, pages, self.keepers, self.fetcher)
        self._parent_fetcher = ParentFetcher(*base, *in_tree, pages, self.keepers, self.fetcher)
        self._requests = RequestSender(*base, *in_tree)
        self._publisher = TopicPublisher(
            *base,
            *in_tree,
            signing,
            self._versions,
            self._dissemination,
            self.keepers,
            self._parent_fetcher,
            self._requests,
        )
        self._request_server = RequestServer(
            *(*base, *in_tree, self.keepers, self._parent_fetcher, self._publisher),
            kademlia.ledger.open("drafts before their turn", EARLY_BYTES_MAX),
        )
        self._history = HistoryReader(*base, *in_tree, self._versions, self.keepers, pages)
        self._audits = TopicAudits(
            *(*base, *in_tree, pages, self.keepers, self.fetcher), branch_of(rng, "audits")
        )
        self._senders = PulsarSenders(*base, *in_tree, self.keepers, pages)
        self._importer = Importer(*base, *in_tree, self._dissemination)
        self._on_message: dict[type, Callable[[Contact, Any], None]] = {
            pulsar.Spread: lambda c, m: self._dissemination.on_spread(c.peer, m),
            pulsar.JoinTopic: membership.on_join,
            pulsar.Welcome: membership.on_welcome,
            pulsar.JoinElsewhere: membership.on_elsewhere,
            pulsar.Wait: lambda c, m: membership.on_wait(c.peer, m),
            pulsar.Leave: lambda c, m: membership.on_leave(c.peer, m),
            pulsar.Beat: membership.on_beat,
            pulsar.Fetch: lambda c, m: self._page_server.on_fetch(c.peer, m),
            pulsar.Range: lambda c, m: self._page_server.on_range(c.peer, m),
            pulsar.Page: lambda _, m: pages.on_page(m),
            pulsar.WantBlocks: lambda c, m: descriptors.on_want(c.peer, m),
            pulsar.Described: lambda _, m: descriptors.on_described(m.blocks),
            pulsar.InviteKeeper: self.keepers.on_invite,
            pulsar.KeepEvents: self.keepers.on_keep,
            pulsar.Kept: lambda c, m: self.keepers.on_kept(c.peer, m),
            pulsar.PublishRequest: lambda c, m: self._request_server.on_request(c.peer, m),
            pulsar.Granted: lambda _, m: self._requests.on_granted(m),
        }
        self._on_timer: dict[str, Callable[[Any], None]] = {
            "find": descriptors.on_timer,
            "read": self._history.on_timer,
            "subscribe": self.subscriptions.begin,
        }
        self._on_topic_timer: dict[str, Callable[[TopicReplica], None]] = {
            "join": membership.on_join_timer,
            "parent": membership.on_parent_timer,
            "attach": membership.attach,
            "describe": self._versions.on_timer,
            "check": self.fetcher.on_check,
            "fetch": self.fetcher.on_fetch_timer,
            "news": self.fetcher.on_news_timer,
            "audit": self._audits.on_timer,
            "backfill": self._backfill.on_timer,
            "keep": self.keepers.on_timer,
            "link": self._parent_fetcher.on_timer,
            "request": self._requests.on_timer,
        }

    # --- calls ---

    def _call(self, now: int, call: Callable[..., None], *arguments: object) -> list[Effect]:
        """Call a component once the node has joined the overlay; return the effects of now."""
        self._outbox.now = now
        self._deferred.call(partial(call, *arguments))
        return self._outbox.take()

    def create(
        self,
        name: str,
        now: int,
        *,
        rules: Rules | None = None,
        subtopics: Mapping[str, Cid] | None = None,
    ) -> tuple[Topic, list[Effect]]:
        """Make a topic of this node; deliver `TopicStored`."""
        self._outbox.now = now
        topic = self._publisher.create(name, rules or Rules(), subtopics or {})
        return topic, self._outbox.take()

    def create_topic(
        self, name: str, now: int, *, ordered_by: Peer | None = None
    ) -> tuple[Cid, list[Effect]]:
        """Make a topic; if a peer orders it, it alone publishes in it, for all authors."""
        rules = None if ordered_by is None else rules_ordered_by(ordered_by)
        topic, effects = self.create(name, now, rules=rules)
        return topic.cid, effects

    def update(
        self,
        topic: Cid,
        now: int,
        *,
        rules: Rules | None = None,
        subtopics: Mapping[str, Cid] | None = None,
    ) -> tuple[Topic, list[Effect]]:
        """Make a new version of a topic of this node, which it knows; deliver `TopicStored`."""
        self._outbox.now = now
        replica = self._known(topic)
        newest = replica.topic
        linked = newest.subtopics if subtopics is None else subtopics
        version = self._publisher.next_version(replica, rules or newest.rules, linked)
        return version, self._outbox.take()

    def subscribe(
        self, subscription: Subscription, now: int, *, is_kept: bool = False
    ) -> list[Effect]:
        """Add a subscription, whose predicate names a topic; deliver `Subscribed`.

        A durable subscription survives a restart, with the events that were not taken.
        """
        self._outbox.now = now
        self._deferred.must_have_room()
        self.subscriptions.add(subscription, is_kept=is_kept)
        return self._call(now, self.subscriptions.begin, subscription.number)

    def unsubscribe(self, number: int, now: int) -> list[Effect]:
        """End a subscription and deliver `Unsubscribed`."""
        self._outbox.now = now
        self.subscriptions.end(number)
        return self._outbox.take()

    def acknowledge(self, number: int, event: Cid, now: int) -> list[Effect]:
        """Take an event of a durable subscription, and all that were delivered before it."""
        self._outbox.now = now
        self.subscriptions.take(number, event)
        return self._outbox.take()

    def state_of(self, number: int, now: int) -> SubscriptionState:
        """Return how far one of this node's subscriptions has come."""
        return self.subscriptions.state_of(number)

    def publish(
        self, publication: Publication, now: int, *, wants_all: bool = False
    ) -> list[Effect]:
        """Publish in the topic that the predicate names; deliver `Published` or `Refused`."""
        self._outbox.now = now
        try:
            topic = topic_named_by(publication.predicate)
        except CidError as error:
            self._outbox.deliver(Refused(publication.id, str(error)))
            return self._outbox.take()
        return self.publish_in(topic, publication, now)

    def publish_in(
        self,
        topic: Cid,
        publication: Publication,
        now: int,
        parents: tuple[Cid, ...] | None = None,
    ) -> list[Effect]:
        """Publish in a topic; `parents` are the links, if its rules let publishers choose them."""
        return self._call(now, self._publisher.publish, publication, topic, parents)

    def read(self, topic: Cid, wanted: Wanted, now: int) -> tuple[int, list[Effect]]:
        """Read a topic's history; deliver `HistoryRead` with the number that this returns."""
        number = self._overlay.new_number()
        return number, self._call(now, self._history.read, topic, wanted, number)

    def describe(self, topic: Cid, now: int) -> tuple[int, list[Effect]]:
        """Find a topic's versions; deliver `TopicDescribed` with the number that this returns."""
        number = self._overlay.new_number()
        return number, self._call(now, self._versions.describe, topic, number)

    def pin(self, topic: Cid, is_pinned: bool, now: int) -> list[Effect]:
        """Retain all events of a topic that this node knows, or apply its retention again."""
        self._outbox.now = now
        replica = self._known(topic)
        replica.log.pin(is_pinned)
        self.replicas.store_state(replica)
        self.store.prune(replica)
        self._backfill.begin_if_needed(replica)
        self.membership.attach(replica)
        return self._outbox.take()

    def take(self, blocks: Sequence[bytes], now: int) -> tuple[int, list[Effect]]:
        """Import blocks and pin their topics; return how many were valid."""
        self._outbox.now = now
        return self._importer.take(blocks), self._outbox.take()

    def _known(self, topic: Cid) -> TopicReplica:
        replica = self.replicas.of_version(topic)
        if replica is None:
            raise KeyError(topic)
        return replica

    def gather(self) -> None:
        """Hold messages back until `release`."""
        self._outbox.gather()

    def release(self, now: int) -> list[Effect]:
        """Send the messages that were held back, those to one peer together."""
        self._outbox.now = now
        return self._outbox.release()

    # --- inputs ---

    def handle(self, event: Event, now: int) -> list[Effect]:
        """Return the effects of an input."""
        self._outbox.now = now
        match event:
            case Received(peer, Parcel(messages), addresses):
                if self._overlay.is_ready:
                    self._on_parcel(Contact.of(peer, addresses), messages)
            case TimerFired((_, *name)):
                self._on_timer_fired(name)
            case Indication(Joined()):
                self._overlay.note_joined()
                self._begin()
            case Disconnected(peer):
                self.membership.on_disconnected(peer)
                self.keepers.on_disconnected(peer)
            case Departed(peer) | Indication(Lost(peer)):
                self.membership.on_departed(peer)
                self.keepers.on_departed(peer)
            case Indication(item):
                self._overlay.on_result(item)
            case Started(incarnation):
                self._publisher.start(incarnation)
                self._requests.start(incarnation)
                self._outbox.emit(Load(NAME.encode() + b"/"))
                self._set_beat_timer()
            case Loaded(_, values):
                self._load(values)
                self._begin()
        return self._outbox.take()

    def _on_parcel(self, contact: Contact, messages: Iterable[Part]) -> None:
        self.liveness.note_heard(contact.peer)
        for message in messages:
            if self._senders.may_send(contact, message):
                self._on_message[type(message)](contact, message)

    def _on_timer_fired(self, name: Sequence[Any]) -> None:
        kind, *about = name
        if kind == "beat":
            self._beat()
        elif kind in self._on_timer:
            self._on_timer[kind](about[0])
        else:
            replica = self.replicas.get(about[0])
            if replica is not None:
                self._on_topic_timer[kind](replica)

    def _set_beat_timer(self) -> None:
        self._outbox.set_timer(("beat",), jittered(self.settings.beat_us, self._rng))

    def _beat(self) -> None:
        self._set_beat_timer()
        if not self._overlay.is_ready:
            return
        self._publisher.beat()
        for replica in list(self.replicas.by_id.values()):
            if self.settings.retention.age_us_max is not None:
                self.store.prune(replica)
            self.membership.beat(replica)
            self._backfill.begin_if_needed(replica)

    # --- starting ---

    def _load(self, values: Sequence[tuple[bytes, bytes]]) -> None:
        stored = read_stored(NAME, values, self.permissions)
        for record in stored.records:
            self._load_topic(record, stored.topics)
        for event in stored.events:
            self._dissemination.restore(event)
        for replica in self.replicas.by_id.values():
            self.fetcher.restore(replica)
            replica.log.audit()
        self._stored_requests = stored.requests
        self._loaded = list(self.replicas.by_id.values())
        for number in self.subscriptions.restore(stored.kept, stored.waiting):
            self._deferred.run_anyway(partial(self.subscriptions.begin, number))
        self._has_loaded = True

    def _load_topic(self, record: dict[str, Any], topics: Mapping[Cid, Topic]) -> None:
        meta, topic = topics.get(record["room"]), topics.get(record["topic"])
        if meta is None or topic is None:
            self._outbox.reject("incomplete")
            return
        replica = self.replicas.add(topic, meta)
        for cid in record["versions"]:
            if cid in topics:
                self.replicas.add_version(replica, topics[cid])
        replica.log.restore(record)
        if record["keeper"]:
            self.keepers.renew_lease(replica)
        # An application may need it; if none does, this node leaves when the lease ends.
        self.membership.stay(replica, self.settings.lease_us)

    def _begin(self) -> None:
        if not (self._has_loaded and self._overlay.is_ready):
            return
        # Requests from before a restart precede events that were published since.
        requests, self._stored_requests = self._stored_requests, []
        self._requests.restore(requests)
        loaded, self._loaded = self._loaded, []
        self._publisher.restore(loaded)
        self._deferred.open()
        for replica in list(self.replicas.by_id.values()):
            self.membership.attach(replica)

    # --- news ---

    def _on_version(self, replica: TopicReplica, peer: Peer) -> None:
        self.membership.send_beat(replica, peer, wants_answer=True)

    def _on_pruned(self, pruned: Sequence[TopicEvent]) -> None:
        self.subscriptions.on_pruned(pruned)

    def _on_accepted(self, replica: TopicReplica, event: TopicEvent, peer: Peer | None) -> None:
        self.fetcher.on_accepted(replica, event, peer)

    def _on_keeper(self, replica: TopicReplica) -> None:
        self._backfill.begin(replica)

    def _is_needed(self, replica: TopicReplica) -> bool:
        return (
            replica.log.is_pinned
            or bool(self.subscriptions.count(replica))
            or bool(self._versions.held_count(replica))
            or self.keepers.is_needed(replica)
        )

    def _on_membership_news(self, news: MembershipNews) -> None:
        """Hand news of the membership to the other components, in this order."""
        match news:
            case PlaceTaken(replica, heads, peer):
                if self.fetcher.on_place(replica, heads, peer):
                    self._backfill.begin_if_needed(replica)
                self._audits.begin(replica)
            case RootActive(replica):
                self.keepers.find(replica)
            case Attached(replica, newest):
                self.subscriptions.confirm(replica)
                self._versions.on_attached(replica, newest)
            case HeadsHeard(replica, heads, peer):
                self.fetcher.compare(replica, heads, peer)
            case TopicLeft(replica):
                self._versions.on_left(replica)
                self._dissemination.on_left(replica)
                self.keepers.on_left(replica)
                self.fetcher.on_left(replica)
                self._backfill.on_left(replica)
                self._parent_fetcher.on_left(replica)
                self._audits.on_left(replica)

    # --- inspection ---

    def topics(self) -> list[TopicStatus]:
        """Return the topics that this node replicates."""
        return [
            TopicStatus(
                replica, self.subscriptions.count(replica), self.keepers.is_keeper(replica.id)
            )
            for replica in self.replicas.by_id.values()
        ]

    def neighbours(self) -> list[Peer]:
        """Return the parents and the children in all trees."""
        replicas = self.replicas.by_id.values()
        return [peer for replica in replicas for peer in self.membership.neighbours(replica)]

    def convicted(self) -> dict[Peer, str]:
        """The authors that this node has convicted of a fork."""
        return dict.fromkeys(self._forks.convicted, "two events of a topic under one number")

    def inspect(self) -> Inspection:
        """Return this node's state for tests and tools."""
        return Inspection(bounds=self.tally().bounds, served=tuple(self.membership.served()))

    def check(self) -> None:
        """Assert the invariants of all components."""
        assert all(bound.held <= bound.held_max for bound in self.tally().bounds)
        check_components(self)

    def tally(self) -> Tally:
        """Return the sizes of bounded collections, and the refused messages by reason."""
        settings, replicas = self.settings, self.replicas.by_id.values()
        events = [len(replica.log) for replica in replicas if not replica.log.is_pinned]
        bounds = (
            Bound("topics", len(replicas), settings.topic_count_max),
            Bound("children", self.membership.child_count_max(), 2 * settings.fan_out_max),
            Bound("events", max(events, default=0), settings.retention.event_count_max),
            Bound("stored bytes", self.store.stored_bytes, settings.stored_bytes_max),
            Bound("open events", self.keepers.pending_count_max(), settings.pending_count_max),
        )
        return Tally(bounds, self._outbox.rejected)
