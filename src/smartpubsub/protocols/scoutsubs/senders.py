"""Which peers may send which message of ScoutSubs, and when.

`SCOUT_RULES` has a rule for each message. `ScoutSenders` knows the components that the rules refer
to; the protocol asks it before any component sees a message. Events and announcements can come from
nodes that the receiver has never heard of; signatures prove that events are genuine. A node accepts
answers only from nodes that it has asked, and messages about the root of a tree only from nodes
that are close enough to its key to have a role there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from smartpubsub.kademlia.keys import Contact
from smartpubsub.protocols.publication import EventId
from smartpubsub.protocols.runtime.bounded import BoundedDict
from smartpubsub.protocols.runtime.failure_detector import FailureDetector
from smartpubsub.protocols.runtime.rules import Rule, refusal_of
from smartpubsub.protocols.scoutsubs import messages
from smartpubsub.protocols.scoutsubs.admission import Admission
from smartpubsub.protocols.scoutsubs.attestation import ScoutOutbox
from smartpubsub.protocols.scoutsubs.audit import Auditor
from smartpubsub.protocols.scoutsubs.custody import Custody
from smartpubsub.protocols.scoutsubs.dissemination import Dissemination
from smartpubsub.protocols.scoutsubs.filters import Filters
from smartpubsub.protocols.scoutsubs.history import HistoryAntiEntropy
from smartpubsub.protocols.scoutsubs.membership import TreeMembership
from smartpubsub.protocols.scoutsubs.placement import Placement
from smartpubsub.protocols.scoutsubs.proximity import Proximity
from smartpubsub.protocols.scoutsubs.publisher import Publisher
from smartpubsub.protocols.scoutsubs.recovery import Recovery
from smartpubsub.protocols.scoutsubs.replay import Replay
from smartpubsub.protocols.scoutsubs.replicas import EventReplicas
from smartpubsub.protocols.scoutsubs.replication import Replication
from smartpubsub.protocols.scoutsubs.root_lookup import RootLookup
from smartpubsub.protocols.scoutsubs.shard_names import attribute_of, base_name, shard_for
from smartpubsub.seam import Peer

ELIGIBLE_US = 10_000_000
"""For how long a peer that was eligible for an attribute counts as eligible."""
ELIGIBLE_COUNT_MAX = 10_000
HELD_COUNT_MAX = 1_000
"""How many acknowledgements may wait for lookups; for others, the publisher retransmits."""


@dataclass(eq=False)
class ScoutSenders:
    """Decides whether a peer may send a message now."""

    _outbox: ScoutOutbox
    detector: FailureDetector
    proximity: Proximity
    recovery: Recovery
    replicas: EventReplicas
    membership: TreeMembership
    filters: Filters
    replication: Replication
    anti_entropy: HistoryAntiEntropy
    replay: Replay
    dissemination: Dissemination
    custody: Custody
    admission: Admission
    _roots: RootLookup
    placement: Placement
    publisher: Publisher
    auditor: Auditor

    def __post_init__(self) -> None:
        self._held: dict[tuple[Peer, EventId, str], tuple[Contact, messages.Admitted]] = {}
        """Acknowledgements that wait for a lookup."""
        self._eligible_until_us: BoundedDict[tuple[Peer, str], int] = BoundedDict(
            ELIGIBLE_COUNT_MAX
        )

    def may_send(self, contact: Contact, part: messages.Part) -> bool:
        """Whether a peer may send a message now; a message that it may not send is counted."""
        kind = type(part)
        verdict = _ALLOWS[kind](self, contact, part)
        if verdict is False:
            self._outbox.reject(refusal_of(kind))
        return bool(verdict)

    # --- acknowledgements, which may have to wait for a lookup ---

    def may_acknowledge(self, contact: Contact, part: messages.Admitted) -> bool | None:
        """Whether a peer may be the rendezvous of an own event; None until a lookup has decided."""
        tree, base, own = part.attribute, base_name(part.attribute), self.proximity.own.peer
        is_awaited = self.publisher.awaits_admission(part.id, tree)
        if not is_awaited or (tree != base and tree != shard_for(base, own)):
            return False
        is_own = contact.peer == own
        if is_own or self._roots.has_found(tree, contact.peer):
            return True
        if self._roots.look_up(tree) and len(self._held) < HELD_COUNT_MAX:
            self._held[contact.peer, part.id, tree] = (contact, part)
            return None
        if self._roots.has_found(tree, contact.peer):
            return True
        # A busy node answers no lookup in time, and acknowledges an event later.
        return self._roots.would_find(tree, contact) and self.is_eligible(contact, tree)

    def take_held(self, tree: str) -> list[tuple[Contact, messages.Admitted]]:
        """Return the acknowledgements that have waited for the lookup of a tree."""
        waiting = [key for key in self._held if key[2] == tree]
        return [self._held.pop(key) for key in waiting]

    # --- roles ---

    def is_eligible(self, contact: Contact, attribute: str) -> bool:
        """Whether a peer may have a role at the root of a tree."""
        key, now = (contact.peer, attribute), self._outbox.now
        if self._eligible_until_us.get(key, now) > now:
            return True
        if not self.proximity.is_eligible(contact, attribute):
            # This node may have forgotten the peer while it was away; it retransmits the message.
            for effect in self.proximity.consider(contact, now):
                self._outbox.emit(effect)
            return False
        self._eligible_until_us[key] = now + ELIGIBLE_US
        return True

    def is_rendezvous(self, contact: Contact, attribute: str) -> bool:
        """Whether a peer may be the rendezvous that this node keeps events for."""
        is_closer = self.proximity.is_closer(contact, attribute)
        return is_closer and self.is_eligible(contact, attribute)

    def may_take_place(self, contact: Contact, part: messages.Adopt) -> bool:
        """Whether a peer may take the place of this node's parent."""
        parent = self.membership.parent(part.attribute)
        is_parent = parent is not None and parent.peer == part.instead_of
        return is_parent and self.is_rendezvous(contact, part.attribute)

    def may_copy(self, contact: Contact, part: messages.CopyTree) -> bool:
        """Whether this node may keep a table of a peer."""
        return not part.is_root or self.is_eligible(contact, part.attribute)

    def may_offer(self, contact: Contact, part: messages.Offer) -> bool:
        """Whether a peer may be above this node in a tree."""
        is_in_tree = part.attribute in self.filters.tables
        return is_in_tree and self.proximity.is_closer(contact, part.attribute)

    def check(self) -> None:
        """Assert the invariants: each acknowledgement that waits has a lookup."""
        assert len(self._held) <= HELD_COUNT_MAX
        for _, _, tree in self._held:
            assert self._roots.is_under_way(tree)


def _is_publisher(senders: ScoutSenders, _: Contact, part: Any) -> bool:
    own: Peer = senders.proximity.own.peer
    return bool(part.id.publisher == own)


def _has_attribute(_: ScoutSenders, __: Contact, part: Any) -> bool:
    return attribute_of(part.attribute) in part.event.predicate.attributes


def _eligible(senders: ScoutSenders, contact: Contact, part: Any) -> bool:
    return senders.is_eligible(contact, part.attribute)


SCOUT_RULES: Mapping[type, Rule[ScoutSenders, Any]] = {
    messages.Announce: Rule(
        "a node farther from the key than the receiver",
        lambda s, contact, part: s.proximity.is_farther(contact, part.attribute),
    ),
    messages.Announced: Rule(
        "the receiver's parent, or a former parent that it withdraws its filters from",
        lambda s, contact, part: s.filters.has_announced_to(part.attribute, contact.peer),
    ),
    messages.Elsewhere: Rule(
        "a child of the receiver",
        lambda s, contact, part: s.filters.is_child(part.attribute, contact.peer),
    ),
    messages.Raise: Rule(
        "any node; the event has the attribute, and its publisher's signature", _has_attribute
    ),
    messages.Admitted: Rule(
        "a node that the publisher's own lookup has found among the 2f + 1 closest to the key, or"
        " a known node that is among them and was slow to answer, while the event is not"
        " acknowledged",
        ScoutSenders.may_acknowledge,
    ),
    messages.Completed: Rule(
        "the node that has acknowledged the event",
        lambda s, contact, part: s.publisher.was_admitted_by(part.id, part.attribute, contact.peer),
    ),
    messages.Notify: Rule("any node; the event has its publisher's signature"),
    messages.Confirm: Rule(
        "a child that has not confirmed the event, the end of its shortcut, or a replica of it that"
        " was asked to stand in",
        lambda s, contact, part: s.dissemination.awaits(contact.peer, part),
    ),
    messages.Offer: Rule(
        "a node closer to the key, if the receiver is in the tree", ScoutSenders.may_offer
    ),
    messages.Want: Rule(
        "a child of the receiver, or the end of a child's shortcut",
        lambda s, contact, part: s.dissemination.is_served(part.attribute, contact.peer),
    ),
    messages.NoCopy: Rule(
        "a replica that was asked to stand in for a child",
        lambda s, contact, part: s.dissemination.has_asked_to_stand_in(contact.peer, part),
    ),
    messages.CopyTree: Rule(
        "any node for its own table; for the table of a root only a node that is eligible",
        ScoutSenders.may_copy,
    ),
    messages.TreeCopied: Rule(
        "a replica of the receiver's table",
        lambda s, contact, part: s.replication.is_replica(part.attribute, contact.peer),
    ),
    messages.Record: Rule(
        "a node that is eligible and closer to the key than the receiver",
        lambda s, contact, part: s.is_rendezvous(contact, part.attribute),
    ),
    messages.Recorded: Rule(
        "a replica or a keeper that was asked to keep the event; any node, if the receiver has"
        " completed the event",
        lambda s, contact, part: (
            s.custody.has_asked_to_record(part.id, part.attribute, contact.peer)
            or s.placement.has_asked(contact.peer, part)
            or s.admission.has_completed((part.id, part.attribute))
        ),
    ),
    messages.Done: Rule(
        "the recorded owner of the event, or a node that has recorded it since; its publisher, if"
        " none has",
        lambda s, contact, part: s.replicas.may_complete(contact.peer, part),
    ),
    messages.Pull: Rule("a node that is eligible", _eligible),
    messages.Pulled: Rule(
        "a node that was asked, while the receiver becomes the rendezvous",
        lambda s, contact, part: s.membership.has_asked(part.attribute, contact.peer),
    ),
    messages.PullOwn: Rule("any node, for its own tables"),
    messages.PulledOwn: Rule(
        "a node that was asked after a restart",
        lambda s, contact, _: s.recovery.has_asked(contact.peer),
    ),
    messages.Adopt: Rule(
        "a node that is eligible and closer to the key, in place of the receiver's parent",
        ScoutSenders.may_take_place,
    ),
    messages.Recall: Rule("any node"),
    messages.Recalled: Rule(
        "a node that was asked this question",
        lambda s, contact, part: (
            s.replay.has_asked(contact.peer, part) or s.anti_entropy.has_asked(contact.peer, part)
        ),
    ),
    messages.Inherit: Rule("a node that is eligible", _eligible),
    messages.KeepForAudits: Rule(
        "any node; the event has the attribute, and its publisher's signature", _has_attribute
    ),
    messages.Audit: Rule("any node"),
    messages.Audited: Rule(
        "a node that was asked this question",
        lambda s, contact, part: s.auditor.has_asked(contact.peer, part),
    ),
    messages.KeptAt: Rule("any node, to the publisher of the event", _is_publisher),
    messages.Accuse: Rule("any node, to the publisher of the event", _is_publisher),
    messages.Convict: Rule("any node; it has all signatures that it needs"),
    messages.Probe: Rule("any node"),
    messages.Alive: Rule(
        "the node that was sent a probe with this number",
        lambda s, contact, part: s.detector.awaits(contact.peer, part.number),
    ),
    messages.Piece: Rule(
        "a peer that may send the message that it is a fragment of",
        lambda s, contact, piece: SCOUT_RULES[type(piece.part)].allows(s, contact, piece.part),
    ),
}
"""By the kind of message."""

_ALLOWS = {kind: rule.allows for kind, rule in SCOUT_RULES.items()}
