"""The actions of a workload, as calls of a node's core."""

from __future__ import annotations

from typing import NamedTuple

from smartpubsub.predicates import Predicate
from smartpubsub.protocols.blocks import cid_text
from smartpubsub.protocols.node import NodeCore
from smartpubsub.protocols.publication import EventId
from smartpubsub.protocols.spec import ProtocolSpec
from smartpubsub.seam import Effect
from smartpubsub.workloads.actions import (
    Action,
    CreateGroup,
    CreateTopic,
    LeaveNode,
    Publish,
    Subscribe,
    Unsubscribe,
)


class Call(NamedTuple):
    """A call that an application made to its node."""

    what: str
    """subscribe, unsubscribe, publish, group or create."""
    key: int | EventId | Predicate | bytes
    """The subscription's number, the event's id, the group's predicate, or the topic's name."""
    predicate: Predicate
    size: int = 0
    """Bytes of the payload."""
    topic: CreateTopic | None = None
    """The topic that was created."""


def call(
    core: NodeCore, spec: ProtocolSpec, action: Action, now: int
) -> tuple[Call | None, list[Effect]]:
    """Call a core for an action; None if there is nothing to call.

    A protocol without groups or topics has nothing to do for an action that creates one.
    """
    match action:
        case Subscribe(_, _, predicate):
            number, effects = core.subscribe(predicate, now)
            return Call("subscribe", number, predicate), effects
        case Unsubscribe(_, _, predicate):
            held = (n for n, held in core.subscriptions.items() if held.predicate == predicate)
            oldest = next(held, None)
            if oldest is None:
                return None, []  # The node was down when it should have subscribed.
            return Call("unsubscribe", oldest, predicate), core.unsubscribe(oldest, now)
        case LeaveNode():
            return None, core.leave(now)
        case Publish(_, _, predicate, payload):
            id, effects = core.publish(predicate, payload, now)
            return Call("publish", id, predicate, len(payload)), effects
        case CreateGroup(_, _, predicate) if spec.groups is not None:
            effects = spec.groups(core.pubsub).create_group(predicate, now)
            return Call("group", predicate, predicate), effects
        case CreateTopic(_, _, name, ordered) if spec.topics is not None:
            ordered_by = core.kademlia.own.peer if ordered else None
            cid, effects = spec.topics(core.pubsub).create_topic(name, now, ordered_by=ordered_by)
            predicate = Predicate.of({cid_text(cid): True})
            return Call("create", cid, predicate, topic=action), effects
    return None, []
