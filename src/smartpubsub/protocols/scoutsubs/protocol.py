"""ScoutSubs: routes inputs to the components, and news from one component to the others.

Each component owns its state and knows only those before it in this order: outbox, lookups, failure
detector, proximity, replica choice, persistence, recovery, history, audit keeper, replicas,
membership, filters, subscriptions, replication, anti-entropy, local delivery, replay, shards,
recent events, dissemination, offers, forwarding, custody, admission, root lookup, tree keepers,
convictions, keeper copies, placement, publisher, auditor, senders. A component reports news that
concern later ones here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

from smartpubsub.kademlia.core import Kademlia
from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.queries import Found, Joined
from smartpubsub.kademlia.settings import MINUTE
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.publication import Publication, Signing
from smartpubsub.protocols.pubsub import (
    Bound,
    Inspection,
    Refused,
    Subscription,
    SubscriptionState,
    Summary,
    Tally,
)
from smartpubsub.protocols.runtime.deferred import DEFERRED_COUNT_MAX, Deferred
from smartpubsub.protocols.runtime.failure_detector import (
    DetectorSettings,
    FailureDetector,
    PeerDown,
    PeerRestarted,
    PeerTrusted,
    PeerUp,
)
from smartpubsub.protocols.runtime.invariants import check_components
from smartpubsub.protocols.runtime.lookups import Lookups
from smartpubsub.protocols.runtime.outbox import BATCH_TIMER, LATE_TIMER
from smartpubsub.protocols.runtime.randomness import branch_of, jittered
from smartpubsub.protocols.scoutsubs import announcement_turns, messages, new_trees
from smartpubsub.protocols.scoutsubs.admission import Admission
from smartpubsub.protocols.scoutsubs.attestation import STATEMENTS, Attestation, ScoutOutbox
from smartpubsub.protocols.scoutsubs.audit import QUESTION_TIMER, TREES_MAX, Auditor
from smartpubsub.protocols.scoutsubs.audit_keeper import KEPT_BYTES_MAX, AuditKeeper
from smartpubsub.protocols.scoutsubs.convictions import Convictions
from smartpubsub.protocols.scoutsubs.custody import Custody
from smartpubsub.protocols.scoutsubs.dissemination import Dissemination
from smartpubsub.protocols.scoutsubs.filter_table import Interested
from smartpubsub.protocols.scoutsubs.filters import (
    ChildAnnounced,
    EpochChanged,
    Filters,
    OwnFilterInForce,
    TableChanged,
)
from smartpubsub.protocols.scoutsubs.forwarding import Forwarding
from smartpubsub.protocols.scoutsubs.fragments import INCOMPLETE_COUNT_MAX, Reassembly
from smartpubsub.protocols.scoutsubs.history import History, HistoryAntiEntropy
from smartpubsub.protocols.scoutsubs.inspection import ScoutView, TreeView
from smartpubsub.protocols.scoutsubs.keeper_copies import (
    COPIES_BYTES_MAX,
    COPIES_MAX,
    COPIES_TIMER,
    KeeperCopies,
)
from smartpubsub.protocols.scoutsubs.keepers import TreeKeepers
from smartpubsub.protocols.scoutsubs.local_delivery import LocalDelivery
from smartpubsub.protocols.scoutsubs.membership import (
    BecameRoot,
    ParentChanged,
    Role,
    TreeAdded,
    TreeMembership,
)
from smartpubsub.protocols.scoutsubs.messages import Bundle
from smartpubsub.protocols.scoutsubs.offers import HELD_COUNT_MAX, Offers
from smartpubsub.protocols.scoutsubs.persistence import MARKS_TIMER, Persistence
from smartpubsub.protocols.scoutsubs.placement import Placement
from smartpubsub.protocols.scoutsubs.proximity import Proximity
from smartpubsub.protocols.scoutsubs.publisher import LAST_KNOWN_MAX, Publisher
from smartpubsub.protocols.scoutsubs.ranges import RANGED, is_range, singly
from smartpubsub.protocols.scoutsubs.recent_events import RecentEvents
from smartpubsub.protocols.scoutsubs.recovery import Recovery
from smartpubsub.protocols.scoutsubs.replay import Past, Replay
from smartpubsub.protocols.scoutsubs.replica_choice import ReplicaChoice, ReplicaSilent
from smartpubsub.protocols.scoutsubs.replicas import EventReplicas, TableReplicas
from smartpubsub.protocols.scoutsubs.replication import Replication
from smartpubsub.protocols.scoutsubs.root_lookup import RootLookup
from smartpubsub.protocols.scoutsubs.senders import SCOUT_RULES, ScoutSenders
from smartpubsub.protocols.scoutsubs.settings import ScoutSettings
from smartpubsub.protocols.scoutsubs.shard_names import FIRST_EPOCH
from smartpubsub.protocols.scoutsubs.shards import Shards
from smartpubsub.protocols.scoutsubs.subscriptions import Subscriptions
from smartpubsub.protocols.scoutsubs.timeouts import ResponseTimes
from smartpubsub.seam import (
    Departed,
    Disconnected,
    Effect,
    Event,
    Indication,
    Loaded,
    Peer,
    Received,
    Started,
    TimerFired,
)

TICKS_PER_ROOT_LOOKUP = 9
"""At every ninth tick, or three minutes, a lookup verifies that a rendezvous still is one."""
RAISED_BEFORE_JOINING_MAX = 1_000
"""How many events of other nodes wait until this one has joined; publishers retransmit others."""
TREES_AT_ONCE = 64
"""How many trees one step of the upkeep covers; the node handles other inputs in between."""
PROBE_US_MAX = 10 * MINUTE
"""A probe that was answered later than this is no sample of the round trip."""


class ScoutSubs:
    """One node's ScoutSubs."""

    def __init__(
        self, settings: ScoutSettings, kademlia: Kademlia, signing: Signing, rng: Random
    ) -> None:
        self._settings = settings
        self._rng = rng
        self._kademlia = kademlia
        self._own = own = kademlia.own
        self._signing = signing
        self._attestation = Attestation(signing)
        self._outbox = outbox = ScoutOutbox(settings, own.peer, self._attestation, self._on_own)
        self._lookups = lookups = Lookups(outbox, kademlia)
        self._times = times = ResponseTimes(settings)
        self._detector = detector = FailureDetector(
            outbox,
            DetectorSettings(
                probe_us=settings.probe_us,
                recent_us=settings.timeout_us_min // 5,
                slow_us=8 * settings.timeout_us_min,
                probes_max=settings.tries_max,
                suspect_us=settings.suspect_us,
                forget_us=2 * settings.renew_us,
            ),
            messages.Probe,
            times.timeout_us_for,
            self._on_news,
            Random(rng.getrandbits(64)),
        )
        self._proximity = proximity = Proximity(kademlia, detector, settings.backups)
        self._choice = choice = ReplicaChoice(outbox, settings, detector, proximity, self._on_news)
        self._persistence = persistence = Persistence(outbox, settings, own.peer, kademlia.ledger)
        self._recovery = recovery = Recovery(
            outbox, settings, proximity, times, persistence, self._on_recovered
        )
        self._history = history = History(
            outbox,
            settings,
            persistence,
            kademlia.ledger,
            on_begun=lambda attribute: self._anti_entropy.on_begun(attribute),
            on_ended=lambda attribute: self._anti_entropy.on_ended(attribute),
        )
        self._audits_kept = audits_kept = AuditKeeper(
            *(outbox, settings, signing, kademlia.ledger, recovery),
            lambda event, tree: self._events_kept.keep_for_publisher(event, tree),
        )
        self._tables_kept = tables_kept = TableReplicas(outbox, settings, kademlia.ledger)
        self._events_kept = events_kept = EventReplicas(
            *(outbox, settings, own, signing, detector, persistence, history, audits_kept),
            lambda key: self._dissemination.root_flight(key) is not None,
        )
        self._membership = membership = TreeMembership(
            *(outbox, settings, kademlia, lookups, detector, proximity, times, tables_kept),
            self._on_news,
        )
        self._filters = filters = Filters(
            *(outbox, settings, detector, proximity, times, persistence, recovery, membership),
            self._on_news,
        )
        self._subscriptions = subscriptions = Subscriptions(
            *(outbox, settings, own.key, membership, filters),
            lambda number: self._replay.on_in_force(number),
        )
        self._replication = Replication(
            *(outbox, settings, detector, proximity, choice, times, recovery, membership, filters)
        )
        self._anti_entropy = HistoryAntiEntropy(
            outbox, settings, signing, detector, proximity, times, history
        )
        self._delivery = delivery = LocalDelivery(
            outbox, settings, lambda number, event: self._replay.on_held(number, event)
        )
        self._replay = replay = Replay(
            *(outbox, settings, own.peer, lookups, signing, detector, times),
            *(filters, subscriptions, history, delivery),
        )
        self._shards = shards = Shards(outbox, settings, membership, filters)
        self._recent = recent = RecentEvents(outbox)
        self._dissemination = dissemination = Dissemination(
            *(outbox, settings, kademlia.ledger, own, signing, detector, times, recovery),
            *(tables_kept, filters, delivery, recent, self._on_event_spread),
            lambda flight: self._custody.on_confirmed(flight),
            lambda flight: self._custody.on_given_up(flight),
        )
        self._offers = Offers(outbox, times, recovery, filters, recent, dissemination)
        self._forwarding = forwarding = Forwarding(
            *(outbox, settings, detector, proximity, times, membership, dissemination),
            lambda part, came_from: self._admission.admit(part, came_from),
        )
        self._custody = custody = Custody(
            *(outbox, settings, detector, proximity, choice, persistence, filters, history),
            *(audits_kept, events_kept, shards, dissemination, forwarding),
        )
        self._admission = Admission(
            *(outbox, settings, signing, detector, proximity, times, persistence, membership),
            *(filters, events_kept, shards, dissemination, forwarding, custody),
        )
        self._roots = roots = RootLookup(outbox, settings, lookups, self._on_roots_found)
        self._keepers = keepers = TreeKeepers(
            *(outbox, settings, kademlia, lookups, detector, roots, branch_of(rng, "keepers")),
            lambda tree: self._placement.on_keepers_found(tree),
        )
        self._convictions = convictions = Convictions(
            outbox, own.peer, signing, detector, persistence, keepers
        )
        self._copies = copies = KeeperCopies(outbox, detector, times)
        self._placement = placement = Placement(
            *(outbox, settings, keepers, audits_kept, copies, convictions),
            lambda key: self._publisher.on_quorum(key),
        )
        self._publisher = Publisher(
            outbox, settings, own.peer, detector, times, forwarding, roots, placement
        )
        self._auditor = Auditor(
            *(outbox, settings, signing, detector, times, kademlia.blame, membership, filters),
            *(delivery, dissemination, keepers, audits_kept, convictions, persistence),
            branch_of(rng, "audits"),
        )
        self._senders = ScoutSenders(
            *(outbox, detector, proximity, recovery, events_kept, membership, filters),
            *(self._replication, self._anti_entropy, replay, dissemination, custody),
            *(self._admission, roots, placement, self._publisher, self._auditor),
        )

        self._reassembly = Reassembly(kademlia.ledger)
        self._calls = Deferred(DEFERRED_COUNT_MAX)
        self._publications = Deferred(settings.record_count_max)
        """Apart from other calls: beyond their limit, the node refuses them without an error."""
        self._raised = Deferred(RAISED_BEFORE_JOINING_MAX)
        """Events on their way up that reached this node before it has joined."""
        self._has_joined = False
        self._is_placed = False
        self._is_loaded = False
        self._ticks = 0
        self._upkeep: list[list[str]] = []
        """The trees whose upkeep is still to be done in this tick."""
        self._upkeep_us = 0
        self._on_part = self._part_handlers()
        self._on_contact_part = self._contact_part_handlers()
        self._on_timer = self._timer_handlers()
        self._on_news_of = self._news_handlers()

    def _part_handlers(self) -> dict[type, Callable[[Peer, Any], None]]:
        return {
            messages.Announced: self._filters.on_announced,
            messages.Elsewhere: self._filters.overlaps.on_elsewhere,
            messages.TreeCopied: self._replication.on_copied,
            messages.PullOwn: lambda peer, _: self._tables_kept.on_pull_own(peer),
            messages.PulledOwn: self._on_pulled_own,
            messages.Raise: self._forward,
            messages.Recorded: self._on_recorded,
            messages.Done: self._events_kept.on_done,
            messages.Admitted: self._publisher.on_admitted,
            messages.Completed: lambda _, part: self._publisher.on_completed(part),
            messages.Notify: self._offers.on_notify,
            messages.Offer: self._offers.on_offer,
            messages.Want: self._dissemination.on_want,
            messages.Confirm: self._dissemination.on_confirm,
            messages.NoCopy: self._dissemination.on_no_copy,
            messages.Recall: self._history.on_recall,
            messages.Recalled: self._on_recalled,
            messages.Inherit: self._anti_entropy.on_inherit,
            messages.KeepForAudits: self._audits_kept.on_keep,
            messages.Audit: self._audits_kept.on_audit,
            messages.Audited: self._auditor.on_audited,
            messages.KeptAt: self._placement.on_kept_at,
            messages.Accuse: self._convictions.on_accuse,
            messages.Convict: self._convictions.on_convict,
            messages.Probe: self._on_probe,
            messages.Alive: self._on_alive,
        }

    def _contact_part_handlers(self) -> dict[type, Callable[[Contact, Any], None]]:
        """The handlers of messages that need the addresses of the sender too."""
        return {
            messages.Announce: self._filters.on_announce,
            messages.Pull: self._on_pull,
            messages.Pulled: self._on_pulled,
            messages.Adopt: self._membership.on_adopt,
            messages.CopyTree: self._on_copy,
            messages.Record: self._on_record,
        }

    def _timer_handlers(self) -> dict[str, Callable[..., None]]:
        return {
            BATCH_TIMER: self._outbox.flush,
            LATE_TIMER: self._outbox.send_late,
            "announce": self._filters.on_timer,
            announcement_turns.TIMER: self._filters.on_turn,
            "overlaps": self._filters.overlaps.announce,
            "sync": self._membership.on_timer,
            "replicate": self._replication.on_timer,
            "publish": self._publisher.on_timer,
            new_trees.TIMER: self._forwarding.new_trees.on_turn,
            "reorder": self._admission.on_reorder_timer,
            "confirm": self._custody.on_timer,
            "offer": self._offers.on_timer,
            "replay": self._replay.on_timer,
            "history": self._anti_entropy.on_timer,
            "audit": self._auditor.on_timer,
            "audit early": self._auditor.on_early_timer,
            COPIES_TIMER: self._copies.on_timer,
            QUESTION_TIMER: self._auditor.on_question_timer,
            "recover": self._recovery.on_timer,
            MARKS_TIMER: self._persistence.store_marks,
            "probe": self._detector.on_timer,
            "tick": self._tick,
            "upkeep": self._go_on_with_upkeep,
        }

    def _news_handlers(self) -> dict[type, Callable[[Any], None]]:
        return {
            PeerTrusted: self._on_peer_trusted,
            PeerUp: lambda news: self._dissemination.on_peer_up(news.peer),
            PeerDown: self._on_peer_down,
            PeerRestarted: self._on_peer_restarted,
            ReplicaSilent: self._on_replica_silent,
            TreeAdded: lambda news: self._filters.add(news.attribute),
            ParentChanged: self._on_parent_changed,
            BecameRoot: self._on_became_root,
            TableChanged: lambda news: self._replication.touch(news.attribute, news.peer),
            ChildAnnounced: self._on_child_announced,
            OwnFilterInForce: self._on_own_filter_in_force,
            EpochChanged: self._on_epoch_changed,
        }

    # --- requests of the application ---

    def subscribe(self, subscription: Subscription, now: int) -> list[Effect]:
        """Add a subscription; `Subscribed` comes when it is in force."""
        self._outbox.now = now
        self._calls.call(lambda: self._subscriptions.subscribe(subscription))
        return self._outbox.take()

    def recall(self, number: int, past: Past, now: int) -> list[Effect]:
        """Begin a subscription with earlier events; `CaughtUp` comes after them.

        Call it before any event is delivered to the subscription.
        """
        self._outbox.now = now
        self._calls.call(lambda: self._replay.recall(number, past))
        return self._outbox.take()

    def unsubscribe(self, number: int, now: int) -> list[Effect]:
        """End a subscription; `Unsubscribed` comes when no node knows it any more."""
        self._outbox.now = now
        self._calls.run_anyway(lambda: self._unsubscribe(number))
        return self._outbox.take()

    def _unsubscribe(self, number: int) -> None:
        self._replay.forget(number)
        self._subscriptions.unsubscribe(number)

    def state_of(self, number: int, now: int) -> SubscriptionState:
        """The state of one of the node's subscriptions."""
        self._outbox.now = now
        return self._subscriptions.state_of(number)

    def publish(
        self, publication: Publication, now: int, *, wants_all: bool = False
    ) -> list[Effect]:
        """Publish an event; `Published` or `Refused` comes, and `Confirmed` if wanted."""
        self._outbox.now = now
        publish = partial(self._publisher.publish, publication, wants_all=wants_all)
        if not self._publications.run(publish):
            reason = "too many events wait for the node to join; publish later"
            self._outbox.deliver(Refused(publication.id, reason))
        return self._outbox.take()

    def gather(self) -> None:
        """Hold messages back until `release`."""
        self._outbox.gather()

    def release(self, now: int) -> list[Effect]:
        """Send the messages that were held back, those to one peer together."""
        self._outbox.now = now
        return self._outbox.release()

    # --- inputs ---

    def handle(self, event: Event, now: int) -> list[Effect]:
        """Handle an input and return the effects."""
        self._outbox.now = now
        match event:
            case Received(peer, Bundle(received), addresses):
                self._on_bundle(peer, addresses, received)
            case TimerFired(("scout", str(kind), *about)):
                self._on_timer[kind](*about)
            case Indication(Found() as found):
                self._lookups.on_result(found)
            case Departed(peer):
                self._keepers.on_departed(peer)
                self._detector.on_departed(peer)
                self._filters.forget_turns(peer)
                self._placement.on_departed()
            case Disconnected(peer):
                self._filters.forget_turns(peer)
            case Indication(Joined()):
                self._is_placed = True
                self._begin()
            case Loaded(_, values):
                self._history.restore(self._persistence.on_loaded(values))
                self._convictions.restore()
                self._is_loaded = True
                self._begin()
            case Started(incarnation, clock_set_us):
                self._recovery.start(incarnation)
                self._publisher.start(incarnation)
                self._persistence.start(clock_set_us)
                self._set_tick()
        return self._outbox.take()

    def _begin(self) -> None:
        """Take part as soon as the node has joined the overlay and has loaded its storage."""
        if self._has_joined or not (self._is_placed and self._is_loaded):
            return
        self._has_joined = True
        self._recovery.begin()
        self._calls.open()
        self._publications.open()
        self._resume()
        self._raised.open()

    def _on_bundle(
        self, peer: Peer, addresses: tuple[bytes, ...], received: tuple[messages.Part, ...]
    ) -> None:
        if peer in self._convictions.convicted:
            return
        if self._has_joined:
            self._detector.hear(peer)
            self._forwarding.on_heard(peer)
        contact = Contact.of(peer, addresses)
        for part in received:
            whole: messages.Part | None = part
            if isinstance(part, messages.Piece):
                is_allowed = self._senders.may_send(contact, part)
                whole = self._reassembly.on_fragment(peer, part) if is_allowed else None
            if whole is None:
                continue
            if not self._has_joined:
                self._on_message_before_joining(peer, whole)
            elif type(whole) in RANGED and is_range(whole):
                for message in singly(whole):
                    self._on_message(contact, message)
            else:
                self._on_message(contact, whole)

    def _on_message_before_joining(self, peer: Peer, part: messages.Part) -> None:
        """Keep events on their way up, and answer peers that have restarted; drop other messages.

        A node that knows no peers would take itself for every rendezvous. If it dropped events and
        were their rendezvous once joined, it would admit their successors first.
        """
        if isinstance(part, messages.PullOwn):
            self._tables_kept.on_pull_own(peer)
        elif isinstance(part, messages.Raise) and not self._raised.run(
            lambda: self._forward(peer, part)
        ):
            self._outbox.reject("events before joining")

    def _on_message(self, contact: Contact, part: messages.Part) -> None:
        if not self._senders.may_send(contact, part):
            return
        kind, verified = type(part), part
        if kind in STATEMENTS:
            found = self._attestation.verified(part, contact.peer)
            if found is None:
                self._outbox.reject("signature")
                return
            verified = found
        handler = self._on_part.get(kind)
        if handler is not None:
            handler(contact.peer, verified)
        else:
            self._on_contact_part[kind](contact, verified)

    def _on_roots_found(self, tree: str) -> None:
        """Handle the acknowledgements and place the events that have waited for a lookup."""
        if not self._settings.region_size:
            self._placement.on_keepers_found(tree)
        for contact, part in self._senders.take_held(tree):
            self._on_message(contact, part)

    def _forward(self, peer: Peer, part: messages.Raise) -> None:
        """Forward an event; verify it first, unless all nodes are trusted (no audits)."""
        if self._settings.has_audits and not self._signing.is_signed(part.event):
            self._outbox.reject("signature")
            return
        self._forwarding.forward(part, peer)

    def _on_pull(self, contact: Contact, part: messages.Pull) -> None:
        """Answer a node that becomes the rendezvous and asks for this node's state."""
        attribute, table = part.attribute, self._filters.tables.get(part.attribute)
        records = self._admission.records_of(attribute)
        epoch = self._filters.epochs.of(attribute)
        if table is not None and self._filters.acts_as_root(attribute):
            pulled = messages.Pulled(attribute, True, self._own.peer, (), records, epoch)
        else:
            owner, children = self._tables_kept.root_copy(attribute)
            epoch = max(epoch, self._tables_kept.root_epoch(attribute))
            pulled = messages.Pulled(attribute, False, owner, children, records, epoch)
        self._outbox.queue(contact.peer, pulled)
        self._membership.on_pull(contact, attribute)

    def _on_pulled(self, contact: Contact, part: messages.Pulled) -> None:
        table = self._filters.tables.get(part.attribute)
        is_child = table is not None and contact.peer in table.children
        self._membership.on_pulled(contact, part, is_child=is_child)

    def _on_copy(self, contact: Contact, part: messages.CopyTree) -> None:
        if part.is_root:
            self._membership.on_rival(contact, part.attribute)
        self._tables_kept.on_copy(contact.peer, part)

    def _on_record(self, contact: Contact, part: messages.Record) -> None:
        self._membership.on_rival(contact, part.attribute)
        self._events_kept.on_record(contact, part)

    def _on_recorded(self, peer: Peer, part: messages.Recorded) -> None:
        self._admission.on_recorded(peer, part)  # Before the event may be completed by it.
        self._custody.on_recorded(peer, part)
        self._placement.on_recorded(peer, part)

    def _on_recalled(self, peer: Peer, part: messages.Recalled) -> None:
        self._replay.on_recalled(peer, part)
        self._anti_entropy.on_recalled(peer, part)

    def _on_probe(self, peer: Peer, part: messages.Probe) -> None:
        self._outbox.queue(peer, messages.Alive(part.number, self._recovery.incarnation))

    def _on_alive(self, peer: Peer, part: messages.Alive) -> None:
        took_us = self._detector.on_answer(peer, part.number, part.incarnation)
        if took_us <= PROBE_US_MAX:
            self._times.sample_probe(peer, took_us, self._outbox.now)
        self._copies.on_alive(peer, part.number)
        self._choice.on_alive(peer, part.number)
        self._admission.hand_on_orphans(peer, part.incarnation)

    # --- news of peers ---

    def _on_news(self, news: object) -> None:
        self._on_news_of[type(news)](news)

    def _on_peer_trusted(self, news: PeerTrusted) -> None:
        contact = Contact.of(news.peer)
        for attribute, tree in list(self._membership.trees.items()):
            if contact.key ^ tree.key < self._own.key ^ tree.key:
                self._membership.check_root(attribute)

    def _on_peer_down(self, news: PeerDown) -> None:
        peer = news.peer
        for attribute, tree in list(self._membership.trees.items()):
            is_parent = tree.parent is not None and tree.parent.peer == peer
            if not is_parent and not self._replication.is_replica(attribute, peer):
                continue
            if is_parent and tree.role is Role.CHILD:
                self._membership.lose_parent(attribute)
            self._replication.refresh(attribute)
            self._filters.update(attribute)
        for attribute in self._tables_kept.root_attributes(peer):
            self._membership.join(attribute)
        self._custody.on_peer_down(peer)
        self._forwarding.on_heard(peer)
        self._events_kept.on_peer_down(peer)
        for attribute in self._events_kept.attributes_of(peer):
            self._membership.join(attribute)
        self._admission.hand_on_orphans(peer)
        if not news.was_down:  # Otherwise its events take other paths already.
            self._dissemination.on_peer_down(peer)
            if not self._detector.is_slow(peer):
                for effect in self._kademlia.suspect(peer, self._outbox.now):
                    self._outbox.emit(effect)
        self._publisher.on_peer_down(peer)

    def _on_replica_silent(self, news: ReplicaSilent) -> None:
        for attribute in list(self._membership.trees):
            if self._replication.is_replica(attribute, news.peer):
                self._replication.refresh(attribute)
                self._filters.update(attribute)
        self._custody.on_replica_silent(news.peer)

    def _on_peer_restarted(self, news: PeerRestarted) -> None:
        self._replication.on_restarted(news.peer)
        self._custody.on_peer_restarted(news.peer)
        for attribute, tree in self._membership.trees.items():
            if tree.parent is not None and tree.parent.peer == news.peer:
                self._filters.announce_whole(attribute)

    # --- news of trees and tables ---

    def _on_parent_changed(self, news: ParentChanged) -> None:
        attribute = news.attribute
        if self._recovery.is_ready:  # After a restart, the parent may be found later than that.
            self._take_stored_children(attribute)
        self._filters.prepare_parent(attribute, news.parent.peer, was_root=news.was_root)
        self._replication.refresh(attribute)
        self._filters.advance(attribute)
        self._filters.set_parent(attribute, news.former, is_retry=news.is_retry)
        self._forwarding.release(attribute)
        if news.was_root:
            self._admission.hand_over(attribute)

    def _on_became_root(self, news: BecameRoot) -> None:
        attribute = news.attribute
        self._filters.begin_root(attribute)
        adopted = self._adopt_children(news)
        epochs = [self._tables_kept.root_epoch(attribute), *(p.epoch for _, p in news.answers)]
        self._filters.epochs.set_epoch(attribute, max(FIRST_EPOCH, *epochs))
        for child in self._filters.tables[attribute].live_children():
            self._filters.epochs.on_child_epoch(attribute, child.epoch)
        for peer in adopted:  # After all are added, as an update replaces the copy of a replica.
            self._filters.touch(attribute, peer)
        self._replication.refresh(attribute)
        self._filters.advance(attribute)
        self._filters.settle(attribute)
        for _, pulled in news.answers:
            self._admission.take_over(attribute, pulled.records)
        self._admission.take_over(attribute, self._admission.records_of(attribute))
        self._forwarding.release(attribute)

    def _adopt_children(self, news: BecameRoot) -> list[Peer]:
        """Adopt the children of former roots, including children that are down.

        Until the nodes below such a child have a new parent, its replicas forward events to them.
        """
        attribute = news.attribute
        copies = [self._tables_kept.root_copy(attribute)]
        copies += [(pulled.owner, pulled.children) for _, pulled in news.answers]
        former_roots = {peer: None for peer, pulled in news.answers if pulled.was_root}
        stored = self._persistence.take_children(attribute)
        if not former_roots:
            copies.append((self._own.peer, stored))
        adopted: list[Peer] = []
        for owner, children in copies:
            if owner in former_roots:
                continue  # It announces its filters itself.
            for copy in children:
                if self._filters.restore(attribute, copy):
                    self._outbox.queue(copy.contact.peer, messages.Adopt(attribute, owner))
                    adopted.append(copy.contact.peer)
        return adopted

    def _on_child_announced(self, news: ChildAnnounced) -> None:
        attribute, peer = news.attribute, news.peer
        is_restarted = news.is_restarted
        self._dissemination.on_child_announced(attribute, peer, is_restarted=is_restarted)
        if news.is_retry:
            self._custody.send_in_flight_to(attribute, peer)
        if news.root_ms and self._settings.is_reliable:
            self._admission.send_recent_to(attribute, peer, news.root_ms)
        self._membership.on_child_announced(attribute, peer)

    def _on_own_filter_in_force(self, news: OwnFilterInForce) -> None:
        self._subscriptions.on_filter_in_force(*news)
        self._auditor.on_in_force(*news)

    def _on_event_spread(self, event: Publication, attribute: str) -> None:
        self._offers.on_event(event.id)
        self._auditor.on_event(event, attribute)

    def _on_epoch_changed(self, news: EpochChanged) -> None:
        self._shards.on_epoch(news.attribute)
        self._subscriptions.on_epoch(news.attribute)

    def _on_own(self, part: messages.Part) -> None:
        """Handle a message of this node to itself, from the rendezvous to the publisher."""
        if SCOUT_RULES[type(part)].allows(self._senders, self._own, part):
            self._on_part[type(part)](self._own.peer, part)

    # --- recovery ---

    def _on_pulled_own(self, peer: Peer, part: messages.PulledOwn) -> None:
        """Restore tables from the answer of a replica after a restart."""
        self._recovery.on_answer(peer)
        for attribute, children in part.trees:
            if self._membership.join(attribute) is not None:
                for copy in children:
                    self._filters.restore(attribute, copy)
        self._recovery.finish_if_answered()

    def _on_recovered(self) -> None:
        self._resume()
        for attribute in list(self._membership.trees):
            self._replication.refresh(attribute)
            self._filters.update(attribute)
            self._filters.announce(attribute)

    def _resume(self) -> None:
        """Restore stored children and events, when the node takes part and has recovered."""
        if not self._publications.is_open or not self._recovery.is_ready:
            return
        for attribute in self._persistence.attributes_with_children:
            tree = self._membership.join(attribute)
            if tree is not None and tree.role is Role.CHILD:
                self._restore_children(attribute)
        for owner, record in self._persistence.take_records():
            self._admission.restore(owner, record)

    def _restore_children(self, attribute: str) -> None:
        self._take_stored_children(attribute)
        self._replication.refresh(attribute)
        self._filters.update(attribute)
        self._filters.announce(attribute)

    def _take_stored_children(self, attribute: str) -> None:
        """Add the stored children of a tree to those that replicas had, unless these are newer.

        Replicas have copies in memory only, and may have restarted too.
        """
        for copy in self._persistence.take_children(attribute):
            self._filters.restore(attribute, copy)
            if copy.contact.peer not in self._filters.tables[attribute].children:
                self._persistence.drop_child(attribute, copy.contact.peer)

    # --- periodically ---

    def _set_tick(self) -> None:
        self._outbox.set_timer(("tick",), jittered(self._settings.probe_us, self._rng))

    def _tick(self) -> None:
        self._set_tick()
        self._ticks += 1
        attributes = self._begin_upkeep()
        for attribute in attributes:
            self._keep_up(attribute)
        self._detector.forget()
        self._times.forget(self._detector.has_heard)
        self._outbox.forget_idle_peers()
        self._leave_unused(attributes)
        self._subscriptions.tick()
        self._shards.tick()
        self._filters.tick()
        self._choice.tick()
        self._replication.tick(attributes)
        self._tables_kept.tick()
        self._publisher.tick()
        self._forwarding.new_trees.tick()
        self._custody.tick()
        self._admission.check_replicas()
        self._dissemination.tick()
        self._persistence.tick(self._membership.trees)
        self._recent.tick()
        self._history.tick()
        self._audits_kept.tick()
        self._convictions.tick()
        self._anti_entropy.tick()
        self._watch_peers()

    def _begin_upkeep(self) -> list[str]:
        """The trees of the first step of the upkeep; others follow in steps until the next tick."""
        trees = list(self._membership.trees)
        slices = [trees[n : n + TREES_AT_ONCE] for n in range(0, len(trees), TREES_AT_ONCE)]
        self._upkeep = slices[1:]
        self._upkeep_us = self._settings.probe_us // 2 // max(1, len(slices))
        if self._upkeep:
            self._outbox.set_timer(("upkeep",), self._upkeep_us)
        return slices[0] if slices else []

    def _go_on_with_upkeep(self) -> None:
        if not self._upkeep:
            return
        attributes = [name for name in self._upkeep.pop(0) if name in self._membership.trees]
        for attribute in attributes:
            self._keep_up(attribute)
        self._leave_unused(attributes)
        self._replication.tick(attributes)
        if self._upkeep:
            self._outbox.set_timer(("upkeep",), self._upkeep_us)

    def _keep_up(self, attribute: str) -> None:
        settings = self._settings
        self._filters.expire_children(attribute)
        self._membership.check_root(attribute)
        if self._ticks % TICKS_PER_ROOT_LOOKUP == 0:
            self._membership.verify_root(attribute)
        if self._ticks % max(1, settings.renew_us // settings.probe_us) == 0:
            self._filters.renew(attribute)
            self._replication.renew(attribute)

    def _leave_unused(self, attributes: list[str]) -> None:
        horizon_us = self._outbox.now - 2 * self._settings.renew_us
        for attribute in attributes:
            tree = self._membership.trees[attribute]
            is_unused = tree.used_us < horizon_us and self._filters.is_idle(attribute)
            is_awaited = self._forwarding.needs_tree(attribute)
            if is_unused and not is_awaited and not self._dissemination.root_flights(attribute):
                self._membership.leave(attribute)
                self._filters.remove(attribute)
                self._admission.forget(attribute)

    def _watch_peers(self) -> None:
        trees = self._membership.trees.values()
        parents = [tree.parent.peer for tree in trees if tree.parent is not None]
        replicas = dict.fromkeys(self._replication.replicas())
        owners = [*self._tables_kept.owners(), *self._events_kept.owners()]
        publishers = self._events_kept.publishers()
        self._detector.watch([*parents, *replicas, *owners, *publishers], always=replicas)

    def neighbours(self) -> list[Peer]:
        """Parents, children, replicas, and the nodes that this one is a replica of."""
        trees = self._membership.trees.values()
        tables = self._filters.tables.values()
        return [
            *[tree.parent.peer for tree in trees if tree.parent is not None],
            *[child.contact.peer for table in tables for child in table.live_children()],
            *self._replication.replicas(),
            *self._tables_kept.owners(),
            *self._events_kept.owners(),
        ]

    # --- inspection ---

    def inspect(self) -> Inspection:
        """The node's state, as every protocol shows it."""
        tables = self._filters.tables.values()
        served = [c.contact.peer for table in tables for c in table.live_children()]
        return Inspection(
            bounds=self.tally().bounds,
            summaries=tuple(Summary(table.members(), table.summary()) for table in tables),
            served=tuple(dict.fromkeys(served)),
        )

    def view(self) -> ScoutView:
        """The node's state outside its trees."""
        kept = self._tables_kept.kept
        attributes = dict.fromkeys([*self._filters.tables, *self._events_kept.attributes()])
        return ScoutView(
            trees=tuple(self._membership.trees),
            replicas={key: tuple(copy.children.values()) for key, copy in kept.items()},
            records=tuple(r for name in attributes for r in self._admission.records_of(name)),
            suspected=self._detector.suspected(),
        )

    def tree(self, attribute: str) -> TreeView | None:
        """The node's place in a tree; None if it is not in it."""
        place = self._membership.trees.get(attribute)
        if place is None:
            return None
        return TreeView.of(
            place.role,
            place.parent,
            self._filters.tables[attribute],
            self._filters.replicas_of(attribute),
            self._filters.epochs.claim(attribute),
        )

    def tables(self) -> list[tuple[str, tuple[messages.ChildCopy, ...]]]:
        """The node's children in all trees, as replicas keep them."""
        tables = self._filters.tables.items()
        return [(name, tuple(c.copy() for c in table.children.values())) for name, table in tables]

    def convicted(self) -> dict[Peer, str]:
        """The nodes that this one has convicted of a lie, and what each of them has signed."""
        return {
            peer: f"that it keeps an event of {part.answer.attribute}, and an answer without it"
            for peer, part in self._convictions.convicted.items()
        }

    def attribute_for(self, predicate: Predicate) -> str:
        """The attribute that a subscription is kept under."""
        return self._subscriptions.attribute_for(predicate)

    def next_hop(self, attribute: str) -> Contact | None:
        """The next hop of an event towards an attribute's rendezvous; None if it is here."""
        place = self._membership.trees.get(attribute)
        if place is None:
            return self._proximity.closer(attribute)
        return place.parent if place.role is Role.CHILD else None

    def interested(self, attribute: str, event: Predicate) -> Interested:
        """The own subscriptions and the children that an event goes to."""
        table = self._filters.tables.get(attribute)
        return Interested((), ()) if table is None else table.interested(event)

    def check(self) -> None:
        """Assert the invariants of all components."""
        for bound in self.tally().bounds:
            # The event that fills the storage, and those of a take-over, may exceed the limit.
            assert bound.held <= bound.held_max or bound.what == "stored bytes", bound.what
        check_components(self)

    def tally(self) -> Tally:
        """The sizes of everything that has a limit, and the rejected messages by reason."""
        settings, history, replay = self._settings, self._history, self._replay
        tables, copies = self._filters.tables.values(), self._tables_kept.kept.values()
        children = [len(table.children) for table in tables]
        largest = max((len(copy.children) for copy in copies), default=0)
        copied, relayed = self._tables_kept.account, self._dissemination.account
        records = settings.record_count_max
        bounds = (
            Bound("trees", len(tables), settings.tree_count_max),
            Bound("children in a tree", max(children, default=0), settings.child_count_max),
            Bound("bytes of table replicas", copied.size, copied.size_max),
            Bound("children in a table replica", largest, settings.child_count_max + 1),
            Bound("offered events", self._offers.held_count, HELD_COUNT_MAX),
            Bound("stored bytes", self._persistence.bytes_held, settings.stored_bytes_max),
            Bound("events in flight", self._dissemination.flight_count, records),
            Bound("bytes of relayed events", relayed.size, relayed.size_max),
            Bound("event replicas", len(self._events_kept.kept), records),
            Bound("events that wait on their way up", len(self._forwarding), records),
            Bound("events that wait for a predecessor", len(self._admission), records),
            Bound("events without an acknowledgement", len(self._publisher), records),
            Bound("attributes published to", self._publisher.last_count, LAST_KNOWN_MAX),
            Bound("history of an attribute", history.longest, settings.history_count_max),
            Bound("bytes of history", history.bytes_held, settings.history_bytes_max),
            Bound("bytes of events for audits", self._audits_kept.bytes_held, KEPT_BYTES_MAX),
            Bound("events without signatures of keepers", len(self._placement), records),
            Bound("copies for keepers", len(self._copies), COPIES_MAX),
            Bound("bytes of copies for keepers", self._copies.bytes_held, COPIES_BYTES_MAX),
            Bound("audited trees", len(self._auditor), TREES_MAX),
            Bound("replays", len(replay), settings.recall_count_max),
            Bound("history fetches", len(self._anti_entropy), settings.tree_count_max),
            Bound("messages with missing fragments", len(self._reassembly), INCOMPLETE_COUNT_MAX),
            Bound("events before joining", len(self._publications), records),
            Bound("raised before joining", len(self._raised), RAISED_BEFORE_JOINING_MAX),
        )
        return Tally(bounds, self._outbox.rejected)
