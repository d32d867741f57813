"""Which peers may send which message of Pulsarcast, and when.

`PULSAR_RULES` has a rule for each message. `PulsarSenders` knows the components that the rules
refer to; the protocol asks it before any component sees a message.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from smartpubsub.kademlia.keys import Contact, key_of
from smartpubsub.protocols.blocks import Cid
from smartpubsub.protocols.pulsarcast import messages as pulsar
from smartpubsub.protocols.pulsarcast.component import Component
from smartpubsub.protocols.pulsarcast.keepers import Keepers
from smartpubsub.protocols.pulsarcast.membership import Membership
from smartpubsub.protocols.pulsarcast.pages import PageRequests
from smartpubsub.protocols.pulsarcast.replicas import TopicReplicas
from smartpubsub.protocols.runtime.rules import Rule, refusal_of
from smartpubsub.seam import Peer


@dataclass(eq=False)
class PulsarSenders(Component):
    """Decides whether a peer may send a message now."""

    _replicas: TopicReplicas
    _membership: Membership
    _keepers: Keepers
    pages: PageRequests

    def may_send(self, contact: Contact, message: pulsar.Part) -> bool:
        """Whether a peer may send a message now; a message that it may not send is counted."""
        kind = type(message)
        is_allowed = bool(PULSAR_RULES[kind].allows(self, contact, message))
        if not is_allowed:
            self._outbox.reject(refusal_of(kind))
        return is_allowed

    def may_answer_join(self, contact: Contact, message: Any) -> bool:
        """Whether a peer may answer a request to join; a node that has left the topic says so."""
        replica = self._replicas.get(message.topic_id)
        return replica is None or self._membership.has_asked(replica, contact.peer)

    def is_keeper(self, id: Cid) -> bool:
        """Whether this node keeps a topic, or lies close enough to it to become a keeper."""
        if self._keepers.is_keeper(id):
            return True
        key = key_of(id)
        count = self._keepers.eligible_count
        known = self._overlay.closest_known(id, count)
        own_distance = self._overlay.own.key ^ key
        return sum(contact.key ^ key < own_distance for contact in known) < count

    def is_asked_to_keep(self, contact: Contact, message: pulsar.Kept) -> bool:
        """Whether a peer is a keeper of a topic, or was late, as far as this node knows."""
        replica = self._replicas.get(message.topic_id)
        return replica is not None and self._keepers.may_confirm(replica, contact.peer)

    def may_grant(self, peer: Peer, id: Cid) -> bool:
        """Whether a peer may publish in a topic, by a version that this node knows."""
        replica = self._replicas.get(id)
        versions = () if replica is None else replica.versions.values()
        return any(topic.rules.may_publish(peer) for topic in versions)


_ANY_NODE: Rule[PulsarSenders, Any] = Rule("any node")
_ASKED_TO_BE_PARENT: Rule[PulsarSenders, Any] = Rule(
    "the receiver's parent, or a node that it has asked to be its parent",
    PulsarSenders.may_answer_join,
)
_TO_KEEPER: Rule[PulsarSenders, Any] = Rule(
    "any node, if the receiver lies among the nodes closest to the topic",
    lambda s, _, message: s.is_keeper(message.topic_id),
)

PULSAR_RULES: Mapping[type, Rule[PulsarSenders, Any]] = {
    pulsar.JoinTopic: Rule("any node; a child has to be farther from the author"),
    pulsar.Welcome: _ASKED_TO_BE_PARENT,
    pulsar.JoinElsewhere: _ASKED_TO_BE_PARENT,
    pulsar.Wait: _ASKED_TO_BE_PARENT,
    pulsar.Leave: Rule("any node, for itself"),
    pulsar.Beat: Rule("any node; a node that is no neighbour joins by it, or shows its events"),
    pulsar.Spread: Rule("any node; the event has its publisher's signature"),
    pulsar.Fetch: _ANY_NODE,
    pulsar.Range: _ANY_NODE,
    pulsar.Page: Rule(
        "a node that was asked under this number",
        lambda s, contact, message: s.pages.has_asked(contact.peer, message),
    ),
    pulsar.WantBlocks: _ANY_NODE,
    pulsar.Described: Rule("any node; only descriptors that were asked for, by content id"),
    pulsar.InviteKeeper: _TO_KEEPER,
    pulsar.KeepEvents: _TO_KEEPER,
    pulsar.Kept: Rule(
        "a keeper of the topic, or a node that was left out as one", PulsarSenders.is_asked_to_keep
    ),
    pulsar.PublishRequest: Rule("any node; the draft has its author's signature"),
    pulsar.Granted: Rule(
        "a node that may publish in the topic",
        lambda s, contact, message: s.may_grant(contact.peer, message.topic_id),
    ),
}
"""By the kind of message."""
