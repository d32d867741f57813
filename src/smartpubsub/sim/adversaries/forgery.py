"""Forged events: an adversary alters what it sends on, invents events, and repeats old messages.

It cannot sign for other nodes, so altered and invented events have its own signature. An adversary
that forks signs two events of its own under one number, and sends one half of its peers the second.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from smartpubsub.protocols.blocks import cid_of
from smartpubsub.protocols.publication import Publication, Signing
from smartpubsub.protocols.pulsarcast import messages as pulsar
from smartpubsub.protocols.pulsarcast.events import new_event, read_event, sealed_draft
from smartpubsub.seam import Peer
from smartpubsub.sim.adversaries.kinds import FORK

REPEATED_MAX = 50
"""How many recent messages a forger can repeat."""
_INVENTED = 1 << 20
"""Added to an event's number, to name an event that its publisher has not published."""


class Forger:
    """Forges the messages with events that one adversary should send."""

    def __init__(self, own: Peer, signing: Signing) -> None:
        self._own = own
        self._signing = signing
        self._late: deque[Any] = deque(maxlen=REPEATED_MAX)

    def forged(self, message: Any) -> list[Any]:
        """A message with altered events, one with invented events, and an old message."""
        altered = self._mapped(message, self._altered, _flipped)
        if altered == message:
            return [message]
        sent = [altered, self._mapped(message, self._invented, self._bypassing)]
        if self._late:
            sent.append(self._late[0])
        self._late.append(message)
        return sent

    def _mapped(
        self,
        message: Any,
        change: Callable[[Publication], Publication],
        change_block: Callable[[bytes], bytes],
    ) -> Any:
        """A message in which all events of other nodes are changed."""

        def changed(event: Publication) -> Publication:
            return event if event.id.publisher == self._own else change(event)

        return _mapped(message, changed, change_block)

    def _altered(self, event: Publication) -> Publication:
        id, payload = event.id, event.payload + b"!"
        signature = self._signing.sign(id, event.predicate, payload, event.created_us)
        return Publication.of(id, event.predicate, payload, signature, event.created_us)

    def _invented(self, event: Publication) -> Publication:
        id = event.id._replace(number=event.id.number + _INVENTED)
        signature = self._signing.sign(id, event.predicate, event.payload, event.created_us)
        return Publication.of(id, event.predicate, event.payload, signature, event.created_us)

    def _bypassing(self, block: bytes) -> bytes:
        """An event in another's name, which the adversary publishes without permission."""
        event = read_event(block)
        if event.id.publisher == self._own:
            return block
        id = event.id._replace(number=event.id.number + _INVENTED)
        draft = sealed_draft(replace(event.draft, id=id), self._signing)
        return new_event(draft, self._own, event.parents, event.height, self._signing).block


class Forker:
    """Forks the own events of one adversary.

    One half of its peers gets other events under the same numbers; with `bad-parents`, all peers
    get events that link to one that does not exist.
    """

    def __init__(self, own: Peer, signing: Signing, kind: str) -> None:
        self._own = own
        self._signing = signing
        self._is_forking = kind == FORK

    def forked(self, peer: Peer, message: Any) -> Any:
        """A message to a peer, in which other events replace the adversary's own."""
        if self._is_forking and not peer[-1] & 1:
            return message
        return _mapped(message, self._other_event, self._other_block)

    def _other_event(self, event: Publication) -> Publication:
        if event.id.publisher != self._own or not self._is_forking:
            return event
        payload = event.payload + b"!"
        signature = self._signing.sign(event.id, event.predicate, payload, event.created_us)
        return Publication.of(event.id, event.predicate, payload, signature, event.created_us)

    def _other_block(self, block: bytes) -> bytes:
        event = read_event(block)
        draft, parents, height = event.draft, event.parents, event.height
        if event.id.publisher != self._own or draft.is_announcement:
            return block
        if self._is_forking:
            draft = replace(draft, payload=draft.payload + b"!")
        else:
            parents, height = (cid_of(block),), height + 1
        return new_event(draft, self._own, parents, height, self._signing).block


def _mapped(
    value: Any,
    change: Callable[[Publication], Publication],
    change_block: Callable[[bytes], bytes],
) -> Any:
    """A message in which events and blocks are changed."""
    match value:
        case Publication():
            return change(value)
        case pulsar.Spread(block):
            return value._replace(block=change_block(block))
        case pulsar.Page(blocks=blocks) | pulsar.KeepEvents(blocks=blocks):
            return value._replace(blocks=tuple(map(change_block, blocks)))
        case tuple() if hasattr(value, "_fields"):
            return type(value)(*(_mapped(each, change, change_block) for each in value))
        case tuple():
            return tuple(_mapped(each, change, change_block) for each in value)
    return value


def _flipped(block: bytes) -> bytes:
    return block[:-1] + bytes([block[-1] ^ 1])
