"""Deliveries to applications as rows of a trace."""

from __future__ import annotations

from smartpubsub.protocols.blocks import cid_text
from smartpubsub.protocols.pubsub import (
    Delivery,
    Published,
    Refused,
    Subscribed,
    Subscription,
    Unsubscribed,
)
from smartpubsub.protocols.pulsarcast.results import TopicStored
from smartpubsub.sim.traces.trace import Row


def delivered_row(at: int, node: int, item: object) -> Row:
    """The row for an item that a node delivers to its application."""
    match item:
        case Delivery(event, subscriptions, hops):
            numbers = ",".join(map(str, subscriptions))
            size = len(event.payload)
            return Row(at, "deliver", node, size=size, event=str(event.id), hops=hops, text=numbers)
        case Subscribed(subscription):
            return _acknowledged_row(at, node, "subscribe", subscription)
        case Unsubscribed(subscription):
            return _acknowledged_row(at, node, "unsubscribe", subscription)
        case Published(id):
            return Row(at, "acknowledge", node, kind="publish", event=str(id))
        case TopicStored(topic):
            return Row(at, "acknowledge", node, kind="create", text=cid_text(topic))
        case Refused(id, reason):
            return Row(at, "acknowledge", node, kind="refuse", event=str(id), text=reason)
    return Row(at, "deliver", node, kind=type(item).__name__)


def _acknowledged_row(at: int, node: int, kind: str, subscription: Subscription) -> Row:
    text, number = str(subscription.predicate), subscription.number
    return Row(at, "acknowledge", node, kind=kind, text=text, subscription=number)
