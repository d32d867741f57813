"""The publisher: sends a copy of each event to the rendezvous of each of its attributes.

In reliable variants the publisher retransmits a copy until its rendezvous acknowledges it. An event
is published when all of its rendezvous have acknowledged it. With audits, enough keepers of an
attribute may stand in for a rendezvous that does not (`placement.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from smartpubsub.protocols.publication import EventId, Publication
from smartpubsub.protocols.pubsub import Confirmed, Held, Published, Refused
from smartpubsub.protocols.runtime.bounded import BoundedDict
from smartpubsub.protocols.runtime.deadlines import Deadlines
from smartpubsub.protocols.runtime.failure_detector import FailureDetector
from smartpubsub.protocols.scoutsubs.attestation import ScoutOutbox
from smartpubsub.protocols.scoutsubs.duplicates import EventKey
from smartpubsub.protocols.scoutsubs.forwarding import Forwarding
from smartpubsub.protocols.scoutsubs.messages import (
    Admitted,
    Completed,
    Raise,
)
from smartpubsub.protocols.scoutsubs.placement import Placement
from smartpubsub.protocols.scoutsubs.root_lookup import RootLookup
from smartpubsub.protocols.scoutsubs.settings import ScoutSettings
from smartpubsub.protocols.scoutsubs.shard_names import base_name, tree_name
from smartpubsub.protocols.scoutsubs.timeouts import MS, AdaptiveTimeout, ResponseTimes
from smartpubsub.seam import Peer

ROOTS_KNOWN_MAX = 1_000
ASKED_TRIES = 2
"""After this many tries the publisher asks keepers to sign for an event without acknowledgement."""
KEPT_TRIES = 3
"""After this many tries a quorum of keepers replaces the acknowledgement of the rendezvous. A
rendezvous that is down is replaced before that."""
LAST_KNOWN_MAX = 10_000
"""For how many attributes a node remembers its last event; for others it cannot keep the order."""


@dataclass(slots=True)
class _PublishedCopy:
    """A copy of an event for one attribute."""

    event: Publication
    attribute: str
    previous: int
    sent_us: int
    wants_all: bool
    began_us: int
    sent_to: Peer | None = None
    admitted_by: Peer | None = None
    tries: int = 1
    is_kept: bool = False
    """Whether keepers stand in for the rendezvous, so that the event is published without it."""


class _KnownRoot(NamedTuple):
    """The rendezvous that has acknowledged an event of an attribute, and the tree that it is in."""

    peer: Peer
    name: str


@dataclass(eq=False)
class Publisher:
    """The events that this node has published and that are not acknowledged everywhere."""

    _outbox: ScoutOutbox
    _settings: ScoutSettings
    _own: Peer
    _detector: FailureDetector
    _times: ResponseTimes
    _forwarding: Forwarding
    _root_lookup: RootLookup
    _placement: Placement

    def __post_init__(self) -> None:
        self._copies: dict[tuple[EventId, str], _PublishedCopy] = {}
        """Copies without an acknowledgement."""
        self._attributes: dict[EventId, dict[str, None]] = {}
        """By event: the attributes whose rendezvous have not acknowledged it."""
        self._held: dict[EventId, list[Held]] = {}
        """The nodes that have stated that they keep an event."""
        self._incomplete: dict[EventId, dict[str, _PublishedCopy]] = {}
        """By event and attribute: copies whose completion is awaited."""
        self._last: BoundedDict[str, EventId] = BoundedDict(LAST_KNOWN_MAX)
        """The last event to each attribute's rendezvous."""
        self._roots: BoundedDict[str, _KnownRoot] = BoundedDict(ROOTS_KNOWN_MAX)
        self._unproved: dict[EventKey, tuple[Peer, Admitted]] = {}
        """Acknowledgements that wait for the signatures of keepers."""
        self._doubted: BoundedDict[str, None] = BoundedDict(ROOTS_KNOWN_MAX)
        """Attributes in which keepers have stood in for the rendezvous."""
        self._admission = AdaptiveTimeout(0)
        self._deadlines: Deadlines[tuple[EventId, str]] = Deadlines(self._outbox, "publish")
        self._incarnation = 0

    def start(self, incarnation: int) -> None:
        """Distinguish the events of this incarnation from earlier ones."""
        self._incarnation = incarnation

    def __len__(self) -> int:
        return len(self._copies)

    @property
    def last_count(self) -> int:
        """The number of attributes whose last event is remembered."""
        return len(self._last)

    def publish(self, event: Publication, *, wants_all: bool) -> None:
        """Send an event to all its rendezvous."""
        settings, now = self._settings, self._outbox.now
        is_full = len(self._copies) + len(event.predicate) > settings.record_count_max
        if is_full or (wants_all and len(self._incomplete) >= settings.record_count_max):
            reason = "too many events are not yet acknowledged or confirmed; publish slower"
            self._outbox.deliver(Refused(event.id, reason))
            return
        # Retransmit an event that was published before for as long as nodes recognise it. If it is
        # older, the application publishes it anew.
        is_recent = 0 <= now - event.created_us < 2 * settings.renew_us
        began_us = event.created_us if is_recent else now
        attributes = dict.fromkeys(map(tree_name, event.predicate.attributes))
        self._attributes[event.id] = attributes
        for attribute in list(attributes):
            copy = _PublishedCopy(
                event, attribute, self._previous(event.id, attribute), now, wants_all, began_us
            )
            self._copies[event.id, attribute] = copy
            if wants_all:
                self._incomplete.setdefault(event.id, {})[attribute] = copy
            if settings.has_audits and (settings.keeper_quorum or attribute in self._doubted):
                self._placement.ask(event, attribute)
            self._send(copy, is_retry=False)

    def _previous(self, id: EventId, attribute: str) -> int:
        """The number of the event before this one; 0 if none of this incarnation is known."""
        last = self._last.get(attribute)
        if last is None or last < id:
            self._last[attribute] = id
        is_before = last is not None and last.incarnation == id.incarnation and last < id
        return last.number if last is not None and is_before else 0

    def _send(self, copy: _PublishedCopy, *, is_retry: bool) -> None:
        age_ms = (self._outbox.now - copy.began_us) // MS
        root = self._known_root(copy, is_retry=is_retry)
        name, hops = (copy.attribute, 0) if root is None else (root.name, 1)
        part = Raise(copy.event, name, copy.previous, hops, is_retry, copy.wants_all, age_ms)
        if root is not None:
            copy.sent_to = root.peer
            self._outbox.queue(root.peer, part)
        else:
            copy.sent_to = self._forwarding.forward(part, came_from=None)
        if copy.sent_to is not None:
            self._root_lookup.prepare(copy.attribute)
            if is_retry and self._settings.has_audits:
                self._send_past_relays(copy, part)
        if copy.sent_to is not None and self._settings.is_reliable:
            self._detector.probe_if_silent(copy.sent_to)
        if self._settings.is_reliable:
            timeout_us = self._admission.timeout_us(
                copy.tries - 1,
                least_us=2 * self._times.timeout_us,
                most_us=2 * self._settings.timeout_us_max,
            )
            self._deadlines.set((copy.event.id, copy.attribute), timeout_us)

    def _send_past_relays(self, copy: _PublishedCopy, part: Raise) -> None:
        """Send a copy directly to the nodes found closest, in turn, as a relay may drop it.

        The copy must not overtake its predecessor. While links are full, send nothing twice.
        """
        found = [peer for peer in self._root_lookup.found(copy.attribute) if peer != self._own]
        if not found or copy.tries < 2 or self._times.are_slow:
            return
        before = copy.event.id._replace(number=copy.previous)
        if (before, copy.attribute) not in self._copies:
            self._outbox.queue(found[(copy.tries - 2) % len(found)], part._replace(hops=1))

    def _known_root(self, copy: _PublishedCopy, *, is_retry: bool) -> _KnownRoot | None:
        """The rendezvous to send a copy to directly, unless it would overtake its predecessor."""
        root = self._roots.get(copy.attribute) if self._settings.is_reliable else None
        if root is None or is_retry:
            return root
        publisher, incarnation, _ = copy.event.id
        id = EventId(publisher, incarnation, copy.previous)
        before = self._copies.get((id, copy.attribute))
        is_overtaking = before is not None and before.sent_to != root.peer
        return None if is_overtaking else root

    def on_timer(self) -> None:
        """Retransmit copies that were not acknowledged in time."""
        for key in self._deadlines.due():
            if key in self._copies:  # Otherwise its completion alone is awaited.
                self._on_late(self._copies[key])

    def _on_late(self, copy: _PublishedCopy) -> None:
        id, attribute, now = copy.event.id, copy.attribute, self._outbox.now
        if now - copy.began_us > 2 * self._settings.renew_us:
            reason = f"the rendezvous of {attribute} was not reached for too long; publish it again"
            self.on_admitted(self._own, Admitted(id, attribute, reason))
            return
        self._admission.on_timeout(copy.began_us, now)
        copy.tries += 1
        self._ask_keepers(copy)
        self._roots.pop(attribute, None)
        if copy.sent_to is not None and self._detector.heard_us(copy.sent_to) < copy.sent_us:
            self._detector.probe(copy.sent_to)
        self._retransmit(copy)

    def _retransmit(self, copy: _PublishedCopy) -> None:
        copy.sent_us = self._outbox.now
        self._send(copy, is_retry=True)

    def awaits_admission(self, id: EventId, attribute: str) -> bool:
        """Whether an event of this node is not acknowledged in a tree, or not complete there."""
        base = base_name(attribute)
        return (id, base) in self._copies or base in self._incomplete.get(id, ())

    def was_admitted_by(self, id: EventId, attribute: str, peer: Peer) -> bool:
        """Whether a peer has acknowledged an event whose completion is awaited."""
        copy = self._incomplete.get(id, {}).get(base_name(attribute))
        return copy is not None and copy.admitted_by == peer

    def on_admitted(self, peer: Peer, part: Admitted) -> None:
        """Take the answer of a rendezvous that has acknowledged an event, or refused it."""
        attribute = base_name(part.attribute)
        if not self._is_proved(peer, part) or self._has_to_take(part):
            return
        if part.id in self._incomplete:
            incomplete = self._incomplete[part.id].get(attribute)
            if incomplete is not None:
                incomplete.admitted_by = peer  # Even if another has acknowledged before.
        copy = self._copies.pop((part.id, attribute), None)
        if copy is None:
            return
        self._deadlines.cancel((part.id, attribute))
        took_us = self._outbox.now - copy.began_us
        self._admission.on_answer(took_us, was_repeated=copy.tries > 1)
        if peer != self._own:
            self._roots[attribute] = _KnownRoot(peer, part.attribute)
        self._doubted.pop(attribute, None)
        self._placement.on_admitted((part.id, attribute))
        if copy.is_kept or part.id not in self._attributes:
            return
        if part.refusal:
            del self._attributes[part.id]
            self._held.pop(part.id, None)
            self._incomplete.pop(part.id, None)
            self._outbox.deliver(Refused(part.id, part.refusal))
            return
        tree, holders = part.attribute, ((peer, part.evidence), *part.holders)
        self._settle(copy, [Held(tree, *holder) for holder in holders])

    def _has_to_take(self, part: Admitted) -> bool:
        """Whether a rendezvous refuses an event that keepers have acknowledged.

        It may have room when it gets the event again.
        """
        copy = self._copies.get((part.id, base_name(part.attribute)))
        if not part.refusal or copy is None or not copy.is_kept:
            return False
        return self._outbox.now - copy.began_us <= 2 * self._settings.renew_us

    def _settle(self, copy: _PublishedCopy, held: list[Held]) -> None:
        """Note that an attribute's rendezvous, or keepers in its place, have an event."""
        id, attribute = copy.event.id, copy.attribute
        signed = self._placement.take((id, attribute))
        every = self._held.get(id, [])
        every += held + [Held(attribute, *holder) for holder in signed]
        left = self._attributes[id]
        left.pop(attribute, None)
        if left:
            self._held[id] = every
        else:
            del self._attributes[id]
            self._held.pop(id, None)
            self._outbox.deliver(Published(id, tuple(dict.fromkeys(every))))

    # --- keepers ---

    def _is_proved(self, peer: Peer, part: Admitted) -> bool:
        """Send an acknowledged event to keepers; return whether enough of them have signed."""
        attribute = base_name(part.attribute)
        copy = self._copies.get((part.id, attribute))
        if copy is None or copy.is_kept or part.refusal or not self._settings.has_audits:
            return True
        holds = part.attribute == attribute  # Other shards have other keepers.
        holders = [peer, *[holder.peer for holder in part.holders]] if holds else []
        self._placement.place(copy.event, attribute, holders)
        if not self._settings.keeper_quorum or self._placement.has_quorum((part.id, attribute)):
            return True
        self._unproved[part.id, attribute] = peer, part
        return False

    def on_quorum(self, key: EventKey) -> None:
        """Continue with an event that enough keepers have signed for."""
        if key in self._unproved:
            self.on_admitted(*self._unproved.pop(key))
        elif key in self._copies:
            self._publish_if_kept(self._copies[key])

    def _ask_keepers(self, copy: _PublishedCopy) -> None:
        """Ask keepers to sign for an event that its rendezvous has not acknowledged."""
        settings = self._settings
        is_asking = copy.tries >= ASKED_TRIES and not copy.is_kept and settings.has_audits
        if is_asking and (settings.keeper_quorum or not self._times.are_slow):
            self._placement.ask(copy.event, copy.attribute)
            self._publish_if_kept(copy)

    def _publish_if_kept(self, copy: _PublishedCopy) -> None:
        """Publish an event that keepers keep, if its rendezvous does not acknowledge it in time.

        The rendezvous may drop it and answer probes. The publisher goes on to retransmit the copy,
        as another node may become the rendezvous.
        """
        key = (copy.event.id, copy.attribute)
        is_open = copy.attribute in self._attributes.get(copy.event.id, ())
        is_late = copy.tries >= KEPT_TRIES or copy.attribute in self._doubted
        if is_open and is_late and self._placement.can_stand_in(key):
            copy.is_kept = True
            self._doubted[copy.attribute] = None
            self._settle(copy, [])

    def on_completed(self, part: Completed) -> None:
        """Note that all subscribers that an event reaches by one attribute have it."""
        left = self._incomplete.get(part.id, {})
        attribute = base_name(part.attribute)
        copy = left.get(attribute)
        if copy is None:
            return
        del left[attribute]
        if not left:
            del self._incomplete[part.id]
            self._outbox.deliver(Confirmed(part.id))

    def tick(self) -> None:
        """Ask for completions that may have been lost, as long as they can come."""
        settings, now = self._settings, self._outbox.now
        if not settings.is_reliable:
            self._give_up()
        self._placement.forget_old(now - 2 * settings.renew_us)
        for key in [key for key in self._unproved if key not in self._copies]:
            del self._unproved[key]
        for id, copies in list(self._incomplete.items()):
            for attribute, copy in copies.items():
                if now - copy.began_us > 2 * settings.renew_us:
                    del self._incomplete[id]
                    break
                is_due = now - copy.sent_us >= settings.check_us_max
                if is_due and (id, attribute) not in self._copies:
                    copy.sent_us = now
                    self._send(copy, is_retry=True)

    def _give_up(self) -> None:
        """Forget lost copies, as unreliable variants do not retransmit them."""
        oldest = self._outbox.now - self._settings.suspect_us
        for (id, attribute), copy in list(self._copies.items()):
            if copy.sent_us < oldest:
                del self._copies[id, attribute]
                self._attributes.pop(id, None)
                self._held.pop(id, None)

    def on_peer_down(self, peer: Peer) -> None:
        """Send the copies again that went to a peer that is down."""
        for attribute in [name for name, root in self._roots.items() if root.peer == peer]:
            del self._roots[attribute]
        if self._settings.is_reliable and not self._detector.is_slow(peer):
            for copy in [copy for copy in self._copies.values() if copy.sent_to == peer]:
                self._retransmit(copy)
                self._forwarding.probe_around(copy.attribute)

    def check(self) -> None:
        """Assert the invariants: indexes agree with the copies."""
        for (id, attribute), copy in self._copies.items():
            assert (copy.event.id, copy.attribute) == (id, attribute)
            assert copy.previous < id.number
        for id, attributes in self._attributes.items():
            assert attributes
            assert all((id, attribute) in self._copies for attribute in attributes)
        assert all(self._incomplete.values())
        assert len(self._incomplete) <= self._settings.record_count_max
        self._deadlines.check()
