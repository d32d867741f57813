"""Which nodes handle which publishers' events, to separate faults on their paths from others."""

from __future__ import annotations

from collections.abc import Collection

from smartpubsub.kademlia.messages import Message
from smartpubsub.protocols.publication import EventId
from smartpubsub.seam import Peer


class Paths:
    """The watched nodes that sent, got or were sent events, by publisher."""

    def __init__(self, watched: Collection[int]) -> None:
        self.watched = watched
        self.handlers: dict[Peer, dict[int, None]] = {}

    def on_send(self, sender: int, receiver: int, message: object) -> None:
        """Record that a node sends a message to another, whether or not it arrives."""
        if type(message) is Message:
            return
        nodes = [node for node in (sender, receiver) if node in self.watched]
        if nodes:
            for publisher in publishers_in(message):
                self.handlers.setdefault(publisher, {}).update(dict.fromkeys(nodes))


def publishers_in(message: object) -> dict[Peer, None]:
    """The publishers of all events that a message carries or names."""
    found: dict[Peer, None] = {}
    pending = [message]
    while pending:
        value = pending.pop()
        if type(value) is EventId:
            found[value.publisher] = None
        elif isinstance(value, tuple):
            pending += value
    return found
