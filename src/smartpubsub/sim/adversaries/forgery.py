"""Forged events: an adversary alters what it sends on, invents events, and repeats old messages.

It cannot sign for others, so what it alters or invents has its own signature.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from smartpubsub.protocols.publication import Publication, Signing
from smartpubsub.protocols.pulsarcast import messages as pulsar
from smartpubsub.seam import Peer

REPEATED_MAX = 50
"""How many messages of late a forger can repeat."""
_INVENTED = 1 << 20
"""Is added to the number of an event, for one that its publisher has not published."""


class Forger:
    """What one adversary makes of the messages with events that it should send."""

    def __init__(self, own: Peer, signing: Signing) -> None:
        self._own = own
        self._signing = signing
        self._late: deque[Any] = deque(maxlen=REPEATED_MAX)

    def forged(self, message: Any) -> list[Any]:
        """A message with altered events, one with invented events, and an old message."""
        altered = self._mapped(message, self._altered)
        if altered == message:
            return [message]
        told = [altered, self._mapped(message, self._invented)]
        if self._late:
            told.append(self._late[0])
        self._late.append(message)
        return told

    def _mapped(self, value: Any, change: Any) -> Any:
        """A message in which all events of others are changed."""
        match value:
            case Publication():
                return value if value.id.publisher == self._own else change(value)
            case pulsar.Spread(block):
                return value._replace(block=_flipped(block))
            case pulsar.Page(blocks=blocks):
                return value._replace(blocks=tuple(map(_flipped, blocks)))
            case tuple() if hasattr(value, "_fields"):
                return type(value)(*(self._mapped(each, change) for each in value))
            case tuple():
                return tuple(self._mapped(each, change) for each in value)
        return value

    def _altered(self, event: Publication) -> Publication:
        id, payload = event.id, event.payload + b"!"
        signature = self._signing.sign(id, event.predicate, payload, event.created_us)
        return Publication.of(id, event.predicate, payload, signature, event.created_us)

    def _invented(self, event: Publication) -> Publication:
        id = event.id._replace(number=event.id.number + _INVENTED)
        signature = self._signing.sign(id, event.predicate, event.payload, event.created_us)
        return Publication.of(id, event.predicate, event.payload, signature, event.created_us)


def _flipped(block: bytes) -> bytes:
    return block[:-1] + bytes([block[-1] ^ 1])
