"""Which peers may send which message of FastDelivery, and when.

`FAST_RULES` has a rule for each message. `FastSenders` knows the components that the rules refer
to; the protocol asks it before any component sees a message.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, get_args

from smartpubsub.kademlia.keys import Contact
from smartpubsub.protocols.fastdelivery import messages as fast
from smartpubsub.protocols.fastdelivery.component import FastComponent
from smartpubsub.protocols.fastdelivery.keepers import KeeperLookup
from smartpubsub.protocols.fastdelivery.messages import GroupId
from smartpubsub.protocols.fastdelivery.subscriber import GroupSubscriber
from smartpubsub.protocols.runtime.rules import Rule, refusal_of


@dataclass(eq=False)
class FastSenders(FastComponent):
    """Decides whether a peer may send a message now."""

    _keepers: KeeperLookup
    subscriber: GroupSubscriber

    def may_send(self, contact: Contact, packet: fast.Packet) -> bool:
        """Whether a peer may send a message now; a message that it may not send is counted."""
        kind = type(packet.part)
        is_allowed = bool(FAST_RULES[kind].allows(self, contact, packet))
        if not is_allowed:
            self._outbox.reject(refusal_of(kind))
        return is_allowed

    def has_asked(self, contact: Contact, packet: fast.Packet) -> bool:
        """Whether a message answers a question to its sender, and is of a kind that answers it."""
        question = self._requests.question_to(contact.peer, packet.number)
        kinds = fast.ANSWERS.get(type(question), (fast.RequestDone,))
        return question is not None and type(packet.part) in kinds

    def is_close(self, contact: Contact, name: bytes) -> bool:
        """Whether a peer is among the 2f + 1 closest nodes to a name that this node knows."""
        closest = self._keepers.closest_nodes(name, self._settings.copying_count)
        return any(contact.peer == other.peer for other in closest)

    def may_notify(self, contact: Contact, part: fast.GroupNotify) -> bool:
        """Whether a peer may bring an event of a group.

        A node that does not want the group's events says so to all peers that send them.
        """
        peer, id = contact.peer, GroupId(part.event.id.publisher, part.group)
        if peer == id.owner or not self.subscriber.wants(id, part.event.predicate):
            return True
        is_keeper = part.is_resend and self.is_close(contact, self._own.peer)
        return is_keeper or self.subscriber.is_helper(id, peer)


def _of(check: Callable[[FastSenders, Contact, Any], bool]) -> Callable[..., bool]:
    """A check that looks at the message and not at its number."""
    return lambda senders, contact, packet: check(senders, contact, packet.part)


_ANY_NODE: Rule[FastSenders, fast.Packet] = Rule("any node")
_ASKED = Rule("the node that was asked for it under this number", FastSenders.has_asked)
_PUBLISHER: Rule[FastSenders, fast.Packet] = Rule(
    "the publisher of the event",
    _of(lambda _, contact, part: part.event.id.publisher == contact.peer),
)
_CLOSE_NODE: Rule[FastSenders, fast.Packet] = Rule(
    "a node among the 2f + 1 closest to the attribute",
    _of(lambda s, contact, part: s.is_close(contact, part.attribute.encode())),
)

FAST_RULES: Mapping[type, Rule[FastSenders, fast.Packet]] = {
    fast.GroupNotify: Rule(
        "the owner of the group, which has signed the event; the helper that the owner has named;"
        " or a node close to the member that keeps the event for it",
        _of(FastSenders.may_notify),
    ),
    fast.Relay: _PUBLISHER,
    fast.Join: Rule(
        "the node that has signed the request",
        _of(lambda _, contact, part: part.request.contact.peer == contact.peer),
    ),
    fast.ServedBy: Rule(
        "the owner of a group that the receiver is in",
        _of(lambda s, contact, part: s.subscriber.is_member(GroupId(contact.peer, part.group))),
    ),
    fast.GroupEnded: Rule("any node, for its own groups"),
    fast.Recruit: Rule("any node, for its own groups; others than members decline"),
    fast.Delegate: Rule("any node, for its own groups; a node that is no helper says so"),
    fast.Release: Rule("any node, for its own groups"),
    fast.Advertise: Rule(
        "the owner of the group, which has signed the advertisement",
        _of(lambda _, contact, part: part.notice.contact.peer == contact.peer),
    ),
    fast.Search: Rule(
        "any node; a lasting search only for itself",
        _of(lambda _, c, part: part.watch is None or part.watch.contact.peer == c.peer),
    ),
    fast.Unwatch: Rule("any node, for its own searches"),
    fast.CopyDirectory: _CLOSE_NODE,
    fast.PullDirectory: _CLOSE_NODE,
    fast.Invite: Rule("any node; the owner has signed the advertisement"),
    fast.Measure: Rule(
        "the owner of a group that the receiver is in",
        _of(lambda s, contact, _: s.subscriber.owns_joined_group(contact.peer)),
    ),
    fast.Keep: _PUBLISHER,
    fast.Expect: _ANY_NODE,
    fast.Review: Rule("any node; only members get events"),
    fast.Ping: _ANY_NODE,
    **dict.fromkeys(get_args(fast.Answer), _ASKED),
}
"""By the kind of message."""
