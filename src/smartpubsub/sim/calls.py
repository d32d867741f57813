"""What a workload has an application do, as calls of a node's core."""

from __future__ import annotations

from typing import NamedTuple

from smartpubsub.predicates import Predicate
from smartpubsub.protocols.fastdelivery.core import FastDelivery
from smartpubsub.protocols.node import NodeCore
from smartpubsub.protocols.publication import EventId
from smartpubsub.seam import Effect
from smartpubsub.workloads.actions import (
    Action,
    CreateGroup,
    Publish,
    Subscribe,
    Unsubscribe,
)


class Call(NamedTuple):
    """Something that an application asked its node for."""

    what: str
    """subscribe, unsubscribe, publish or group."""
    key: int | EventId | Predicate
    """The subscription's number, the event's id, or what the group is for."""
    predicate: Predicate
    size: int = 0
    """Bytes of the payload."""


def call(core: NodeCore, action: Action, now: int) -> tuple[Call | None, list[Effect]]:
    """Have a core do what an application wants; None if there is nothing to be done."""
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
        case Publish(_, _, predicate, payload):
            id, effects = core.publish(predicate, payload, now)
            return Call("publish", id, predicate, len(payload)), effects
        case CreateGroup(_, _, predicate) if isinstance(core.pubsub, FastDelivery):
            effects = core.pubsub.create_group(predicate, now)
            return Call("group", predicate, predicate), effects
    return None, []
