"""ScoutSubs as a core: it hands what happens to the desk that it concerns."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

from smartpubsub.kademlia.core import Kademlia
from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.queries import Found, Joined
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
from smartpubsub.protocols.scoutsubs import messages
from smartpubsub.protocols.scoutsubs.admitting import Admitting
from smartpubsub.protocols.scoutsubs.announcing import Announcing
from smartpubsub.protocols.scoutsubs.branching import Branching
from smartpubsub.protocols.scoutsubs.copying import Copying
from smartpubsub.protocols.scoutsubs.following import Following
from smartpubsub.protocols.scoutsubs.history import History
from smartpubsub.protocols.scoutsubs.inheriting import Inheriting
from smartpubsub.protocols.scoutsubs.keeping import Keeping
from smartpubsub.protocols.scoutsubs.messages import Bundle
from smartpubsub.protocols.scoutsubs.offering import HELD_COUNT_MAX, Offering
from smartpubsub.protocols.scoutsubs.office import Office
from smartpubsub.protocols.scoutsubs.pieces import INCOMPLETE_COUNT_MAX, Pieces
from smartpubsub.protocols.scoutsubs.probing import Probing
from smartpubsub.protocols.scoutsubs.raising import LAST_KNOWN_MAX, Raising
from smartpubsub.protocols.scoutsubs.recalling import Past, Recalling
from smartpubsub.protocols.scoutsubs.seeking import Seeking
from smartpubsub.protocols.scoutsubs.settings import ScoutSettings
from smartpubsub.protocols.scoutsubs.spreading import Spreading
from smartpubsub.protocols.scoutsubs.storing import Storing
from smartpubsub.protocols.scoutsubs.subscribing import Subscribing
from smartpubsub.seam import Effect, Event, Loaded, Peer, Received, Started, TimerFired, Told

TICKS_PER_PROOF = 9
"""How often a rendezvous has a lookup say whether it still is one: every three minutes."""


class ScoutSubs:
    """One node's share of ScoutSubs."""

    def __init__(
        self, settings: ScoutSettings, kademlia: Kademlia, signing: Signing, rng: Random
    ) -> None:
        self.office = office = Office(settings, kademlia, signing, rng)
        office.seeking = Seeking(office)
        office.announcing = Announcing(office)
        office.subscribing = Subscribing(office)
        office.branching = Branching(office)
        office.copying = Copying(office)
        office.raising = Raising(office)
        office.admitting = Admitting(office)
        office.following = Following(office)
        office.keeping = Keeping(office)
        office.spreading = Spreading(office)
        office.storing = Storing(office)
        office.offering = Offering(office)
        office.probing = Probing(office)
        office.history = History(office)
        office.inheriting = Inheriting(office)
        office.recalling = Recalling(office)
        self._is_placed = False
        self._is_loaded = False
        self._has_joined = False
        self._pieces = Pieces()
        self._early: list[Callable[[], None]] = []
        self._early_events: list[Callable[[], None]] = []
        self._ticks = 0
        self._on_part: dict[type, Callable[[Contact, Any], None]] = {
            messages.Announce: office.announcing.on_announce,
            messages.Announced: lambda c, p: office.announcing.on_announced(c.peer, p),
            messages.Raise: lambda c, p: office.admitting.on_raise(c.peer, p),
            messages.Admitted: lambda c, p: office.raising.on_admitted(c.peer, p),
            messages.Completed: lambda c, p: office.raising.on_completed(c.peer, p),
            messages.Notify: lambda c, p: office.offering.on_notify(c.peer, p),
            messages.Offer: lambda c, p: office.offering.on_offer(c.peer, p),
            messages.Want: lambda c, p: office.offering.on_want(c.peer, p),
            messages.Elsewhere: lambda c, p: office.offering.on_elsewhere(c.peer, p),
            messages.Confirm: lambda c, p: office.spreading.on_confirm(c.peer, p),
            messages.NoCopy: lambda c, p: office.spreading.on_no_copy(c.peer, p),
            messages.CopyTree: self._on_copy,
            messages.TreeCopied: lambda c, p: office.copying.on_copied(c.peer, p),
            messages.Record: self._on_record,
            messages.Recorded: lambda c, p: office.admitting.on_recorded(c.peer, p),
            messages.Done: office.keeping.on_done,
            messages.Pull: office.seeking.on_pull,
            messages.Pulled: office.seeking.on_pulled,
            messages.PullOwn: lambda c, _: office.copying.on_pull_own(c.peer),
            messages.PulledOwn: lambda c, p: office.copying.on_pulled_own(c.peer, p),
            messages.Adopt: office.seeking.on_adopt,
            messages.Recall: lambda c, p: office.history.on_recall(c.peer, p),
            messages.Recalled: self._on_recalled,
            messages.Inherit: lambda c, p: office.inheriting.on_inherit(c.peer, p),
            messages.Probe: lambda c, p: office.probing.on_probe(c.peer, p),
            messages.Alive: lambda c, p: office.probing.on_alive(c.peer, p),
        }

        self._on_timer_of: dict[str, Callable[..., None]] = {
            "flush": office.flush,
            "announce": office.announcing.on_timer,
            "raise": office.raising.on_timer,
            "check": lambda id, attribute: office.spreading.on_check((id, attribute)),
            "offered": office.offering.on_timer,
            "elsewhere": office.offering.tell_all,
            "early": office.following.on_timer,
            "sync": office.seeking.on_timer,
            "copy": office.copying.on_timer,
            "probe": office.probing.on_timer,
            "recover": office.copying.on_recover_timer,
            "recall": office.recalling.on_timer,
            "inherit": office.inheriting.on_timer,
            "tick": self._tick,
        }

    # --- what can be wanted ---

    def subscribe(self, subscription: Subscription, now: int) -> list[Effect]:
        """Take a new subscription; `Subscribed` comes when it is in force."""
        self.office.now = now
        self._when_joined(lambda: self.office.subscribing.subscribe(subscription))
        return self.office.taken()

    def recall(self, number: int, past: Past, now: int) -> list[Effect]:
        """Have a subscription begin with what was published before it; `CaughtUp` comes after that.

        To be called before anything is delivered to the subscription.
        """
        self.office.now = now
        self._when_joined(lambda: self.office.recalling.recall(number, past))
        return self.office.taken()

    def unsubscribe(self, number: int, now: int) -> list[Effect]:
        """End a subscription; `Unsubscribed` comes when nobody knows of it any more."""
        self.office.now = now
        self._when_joined(lambda: self.office.subscribing.unsubscribe(number))
        return self.office.taken()

    def state_of(self, number: int, now: int) -> SubscriptionState:
        """How far one of the node's subscriptions has come."""
        self.office.now = now
        return self.office.subscribing.state_of(number)

    def publish(
        self, publication: Publication, now: int, *, wants_all: bool = False
    ) -> list[Effect]:
        """Send an event on its way; `Published` or `Refused` comes, and `Confirmed` if wanted."""
        self.office.now = now
        publish = partial(self.office.raising.publish, publication, wants_all=wants_all)
        if self._has_joined:
            publish()
        elif len(self._early_events) < self.office.settings.record_count_max:
            self._early_events.append(publish)  # Not for a subscription that ends meanwhile.
        else:
            reason = "too many events wait for the node to join; publish later"
            self.office.deliver(Refused(publication.id, reason))
        return self.office.taken()

    def _when_joined(self, action: Callable[[], None]) -> None:
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
            case Received(peer, Bundle(said), addresses):
                self._on_bundle(peer, addresses, said)
            case TimerFired(("scout", *name)):
                self._on_timer(name)
            case Told(Found() as found):
                office.seeking.on_found(found)
                office.recalling.on_found(found)
            case Told(Joined(known)):
                self._on_joined(known)
            case Loaded(_, values):
                office.storing.on_loaded(values)
                self._is_loaded = True
                self._begin()
            case Started(incarnation):
                office.incarnation = incarnation
                office.storing.start()
                office.set_timer(("tick",), now + self._spread(office.settings.probe_us))
        office.offering.settle()
        return office.taken()

    def _on_bundle(
        self, peer: Peer, addresses: tuple[bytes, ...], said: tuple[messages.Part, ...]
    ) -> None:
        if not self._has_joined:
            # A node that knows nobody would take itself for every rendezvous. But whoever has just
            # started need not wait to hear that it keeps nothing.
            if any(isinstance(part, messages.PullOwn) for part in said):
                self.office.copying.on_pull_own(peer)
            return
        self.office.hear(peer)
        contact = Contact.of(peer, addresses)
        self.office.admitting.on_heard(peer)
        for part in said:
            whole = self._pieces.on_piece(peer, part) if isinstance(part, messages.Piece) else part
            if whole is None:
                continue
            heard = self.office.vouching.checked(whole, peer)
            if heard is None:
                self.office.refusals["signature"] += 1
            else:
                self._on_part[type(heard)](contact, heard)

    def _on_copy(self, contact: Contact, part: messages.CopyTree) -> None:
        if part.is_root:
            self.office.seeking.on_rival(contact, part.attribute)
        self.office.copying.on_copy(contact.peer, part)

    def _on_record(self, contact: Contact, part: messages.Record) -> None:
        self.office.seeking.on_rival(contact, part.attribute)
        self.office.keeping.on_record(contact.peer, part)

    def _on_recalled(self, contact: Contact, part: messages.Recalled) -> None:
        self.office.recalling.on_recalled(contact.peer, part)
        self.office.inheriting.on_recalled(contact.peer, part)

    def _on_joined(self, known: int) -> None:
        if known:
            self.office.has_company = True
        self._is_placed = True
        self._begin()

    def _begin(self) -> None:
        """Take part, as soon as the node has its place and what it had stored."""
        if self._has_joined or not (self._is_placed and self._is_loaded):
            return
        self._has_joined = True
        if self.office.incarnation:
            self.office.copying.recover()
        else:
            self.office.is_ready = True
        early = [*self._early, *self._early_events]
        self._early, self._early_events = [], []
        for action in early:
            action()
        self.office.storing.begin()  # When the application's wishes are known, and not before.

    def _on_timer(self, name: list[Any]) -> None:
        kind, *about = name
        self._on_timer_of[kind](*about)

    def _tick(self) -> None:
        office = self.office
        settings = office.settings
        office.set_timer(("tick",), office.now + self._spread(settings.probe_us))
        self._ticks += 1
        for tree in list(office.trees.values()):
            self._expire(tree.attribute)
            office.seeking.check(tree)
            if self._ticks % TICKS_PER_PROOF == 0:
                office.seeking.verify(tree)
            if self._ticks % max(1, settings.renew_us // settings.probe_us) == 0:
                office.announcing.renew(tree)
                office.copying.renew(tree)
        office.forget()
        office.forget_trees()
        office.subscribing.tick()
        office.branching.tick()
        office.announcing.tick()
        office.copying.tick()
        office.raising.tick()
        office.admitting.tick()
        office.keeping.tick()
        office.spreading.tick()
        office.storing.tick()
        office.offering.tick()
        office.history.tick()
        office.inheriting.tick()
        office.probing.tick()

    def _expire(self, attribute: str) -> None:
        """Forget children that have not renewed."""
        office = self.office
        tree = office.trees[attribute]
        oldest = office.now - 2 * office.settings.renew_us
        for peer in [p for p, child in tree.children.items() if child.heard_us < oldest]:
            office.announcing.forget_child(tree, peer)

    def _spread(self, interval: int) -> int:
        """An interval that differs a little from node to node, so that they do not act as one."""
        return interval * self.office.rng.randint(80, 120) // 100

    # --- for an onlooker ---

    def inspect(self) -> Inspection:
        """The node's state for an onlooker."""
        trees = self.office.trees
        served = dict.fromkeys(c.contact.peer for t in trees.values() for c in t.live_children())
        return Inspection(
            bounds=self.tally().bounds,
            summaries=tuple(Summary(t.members(), t.summary()) for t in trees.values()),
            served=tuple(served),
        )

    def check(self) -> None:
        """Assert the invariants of the state."""
        assert all(bound.held <= bound.held_max for bound in self.tally().bounds)

    def tally(self) -> Tally:
        """How much there is of what has limits, and what was refused."""
        office, settings = self.office, self.office.settings
        trees, copies = office.trees.values(), office.copying.kept.values()
        children = [len(tree.children) for tree in trees]
        copied = [len(copy.children) for copy in copies]
        waiting, records = office.admitting.waiting_count, settings.record_count_max
        history, recalling = office.history, office.recalling
        bounds = (
            Bound("trees", len(trees), settings.tree_count_max),
            Bound("children in a tree", max(children, default=0), settings.child_count_max),
            Bound("copies", len(copies), settings.tree_count_max),
            Bound("children in a copy", max(copied, default=0), settings.child_count_max + 1),
            Bound("offered events", office.offering.held_count, HELD_COUNT_MAX),
            Bound("stored bytes", office.storing.bytes_held, settings.stored_bytes_max),
            Bound("open events", office.spreading.open_count, records),
            Bound("events kept for others", len(office.keeping), records),
            Bound("events that wait on their way up", waiting, records),
            Bound("events that are not yet admitted", len(office.raising), records),
            Bound("attributes published to", office.raising.last_count, LAST_KNOWN_MAX),
            Bound("history of an attribute", history.longest, settings.history_count_max),
            Bound("bytes of history", history.bytes_held, settings.history_bytes_max),
            Bound("subscriptions that read history", len(recalling), settings.recall_count_max),
            Bound("history that is fetched", len(office.inheriting), settings.tree_count_max),
            Bound("parts with missing pieces", len(self._pieces), INCOMPLETE_COUNT_MAX),
            Bound("events before joining", len(self._early_events), records),
        )
        return Tally(bounds, office.refusals)
