"""Forged messages: an adversary alters what it sends, invents events, and repeats old messages.

It cannot sign for other nodes, so altered and invented events have its own signature. It sends
nodes that look for a place in a tree to other adversaries, and names one of these as the shortcut
past itself. It acknowledges and confirms the next event of a publisher before the event has come.
An adversary that forks signs two events of its own under one number, and sends one half of its
peers the second. One that rolls back signs the second one later, and sends it to all.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from smartpubsub.kademlia.keys import Contact
from smartpubsub.protocols.blocks import Cid, cid_of
from smartpubsub.protocols.publication import Publication, Signing
from smartpubsub.protocols.pulsarcast import messages as pulsar
from smartpubsub.protocols.pulsarcast.events import (
    TopicEvent,
    new_event,
    read_event,
    sealed_draft,
)
from smartpubsub.protocols.scoutsubs import messages as scout
from smartpubsub.protocols.scoutsubs.attestation import held_bytes
from smartpubsub.seam import Peer
from smartpubsub.sim.adversaries.kinds import BAD_PARENTS, FORK, ROLLBACK

REPEATED_MAX = 50
"""How many recent messages a forger can repeat."""
_INVENTED = 1 << 20
"""Added to an event's number, to name an event that its publisher has not published."""


class Forger:
    """Forges the messages that one adversary should send.

    `named` returns all adversaries; it sends other nodes to them.
    """

    def __init__(
        self, own: Peer, signing: Signing, named: Callable[[], Sequence[Contact]] = tuple
    ) -> None:
        self._own = own
        self._signing = signing
        self._named = named
        self._redirected = 0
        self._late: deque[Any] = deque(maxlen=REPEATED_MAX)

    def forged(self, peer: Peer, message: Any) -> list[Any]:
        """What a peer gets: altered parts, invented parts, and an old message.

        A forger sends no adversary elsewhere.
        """
        named = self._named()
        is_accomplice = any(contact.peer == peer for contact in named)
        others = [contact for contact in named if contact.peer != self._own and not is_accomplice]
        elsewhere = partial(self._elsewhere, others)
        altered = self._mapped(message, self._altered, _flipped, elsewhere)
        invented = self._mapped(message, self._invented, self._bypassing, self._early)
        if altered == invented == message:
            return [message]
        sent = [altered, invented]
        if self._late:
            sent.append(self._late[0])
        self._late.append(message)
        return sent

    def _mapped(
        self,
        message: Any,
        change: Callable[[Publication], Publication],
        change_block: Callable[[bytes], bytes],
        change_part: Callable[[Any], Any],
    ) -> Any:
        """A message with other events and blocks in place of other nodes', and with other parts."""

        def changed(event: Publication) -> Publication:
            return event if event.id.publisher == self._own else change(event)

        return _mapped(message, changed, change_block, change_part)

    def _elsewhere(self, others: Sequence[Contact], part: Any) -> Any:
        """A part that sends its receiver to one of some adversaries."""
        if not others:
            return part
        self._redirected += 1
        other = others[self._redirected % len(others)]
        match part:
            case scout.Announced() | pulsar.JoinElsewhere():
                return part._replace(go_to=other)
            case scout.Announce():
                return part._replace(shortcut=other)
        return part

    def _early(self, part: Any) -> Any:
        """A part about the next event of a publisher, which has not come yet."""
        match part:
            case scout.Confirm(id) | scout.Completed(id):
                return part._replace(id=id._replace(number=id.number + 1))
            case scout.Admitted(id, attribute) | scout.Recorded(id, attribute):
                id = id._replace(number=id.number + 1)
                statement = partial(held_bytes, id, attribute)
                (evidence,) = self._signing.sign_statements([statement])
                return part._replace(id=id, evidence=evidence)
        return part

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
    """Lies about the own events of one adversary.

    With `fork`, one half of its peers gets other events under the same numbers. With `rollback`,
    all peers get its later events under the number, and in the place, of the first one. With
    `bad-parents`, all peers get events that link to one that does not exist.
    """

    def __init__(self, own: Peer, signing: Signing, kind: str) -> None:
        self._own = own
        self._signing = signing
        self._kind = kind
        self._first: Publication | None = None
        self._first_of_topic: dict[Cid, TopicEvent] = {}

    def forked(self, peer: Peer, message: Any) -> Any:
        """A message to a peer, in which other events replace the adversary's own."""
        if self._kind == FORK and not peer[-1] & 1:
            return message
        return _mapped(message, self._other_event, self._other_block)

    def _other_event(self, event: Publication) -> Publication:
        if event.id.publisher != self._own or self._kind == BAD_PARENTS:
            return event
        id, predicate, payload = event.id, event.predicate, event.payload + b"!"
        if self._kind == ROLLBACK:
            self._first = self._first or event
            if id == self._first.id:
                return event
            id, predicate = self._first.id, self._first.predicate
        signature = self._signing.sign(id, predicate, payload, event.created_us)
        return Publication.of(id, predicate, payload, signature, event.created_us)

    def _other_block(self, block: bytes) -> bytes:
        event = read_event(block)
        draft, parents, height = event.draft, event.parents, event.height
        if event.id.publisher != self._own or draft.is_announcement:
            return block
        if self._kind == BAD_PARENTS:
            parents, height = (cid_of(block),), height + 1
        else:
            draft = replace(draft, payload=draft.payload + b"!")
        if self._kind == ROLLBACK:
            first = self._first_of_topic.setdefault(event.topic, event)
            if first.id == event.id:
                return block
            draft, parents, height = replace(draft, id=first.id), first.parents, first.height
        return new_event(draft, self._own, parents, height, self._signing).block


def _same(part: Any) -> Any:
    return part


def _mapped(
    value: Any,
    change: Callable[[Publication], Publication],
    change_block: Callable[[bytes], bytes],
    change_part: Callable[[Any], Any] = _same,
) -> Any:
    """A message in which events, blocks and parts are changed."""
    match value:
        case Publication():
            return change(value)
        case pulsar.Spread(block):
            return value._replace(block=change_block(block))
        case pulsar.Page(blocks=blocks) | pulsar.KeepEvents(blocks=blocks):
            return value._replace(blocks=tuple(map(change_block, blocks)))
        case tuple() if hasattr(value, "_fields"):
            fields = (_mapped(each, change, change_block, change_part) for each in value)
            return change_part(type(value)(*fields))
        case tuple():
            return tuple(_mapped(each, change, change_block, change_part) for each in value)
    return value


def _flipped(block: bytes) -> bytes:
    return block[:-1] + bytes([block[-1] ^ 1])
