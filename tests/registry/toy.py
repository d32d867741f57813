"""A protocol from outside: every node sends every new event to all peers in its routing table."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from random import Random
from typing import NamedTuple

from smartpubsub.kademlia.core import Kademlia
from smartpubsub.kademlia.protobuf import WireError, framed, unframed
from smartpubsub.kademlia.settings import MINUTE
from smartpubsub.protocols.baselines.messages import RpcLimits
from smartpubsub.protocols.codecs import Codec, WireLimits
from smartpubsub.protocols.event_messages import read_event
from smartpubsub.protocols.publication import EventId, Publication, Signing
from smartpubsub.protocols.pubsub import (
    Bound,
    Inspection,
    Published,
    Subscription,
    SubscriptionState,
    Tally,
)
from smartpubsub.protocols.runtime.local import LocalSubscriptions
from smartpubsub.protocols.seen import Seen
from smartpubsub.protocols.spec import ProtocolSpec
from smartpubsub.seam import Deliver, Effect, Event, Peer, Received, Send

MESSAGE_BYTES_MAX = 1 << 20
HOPS_MAX = 255


@dataclass(frozen=True, kw_only=True)
class ToySettings:
    """Times are in microseconds."""

    seen_us: int = 2 * MINUTE
    seen_count_max: int = 10_000


class ToyMessage(NamedTuple):
    """An event, and the number of links that it has passed on arrival."""

    event: Publication
    hops: int


class Toy:
    """One node's core."""

    def __init__(
        self, settings: ToySettings, kademlia: Kademlia, signing: Signing, _rng: Random
    ) -> None:
        self._kademlia = kademlia
        self._signing = signing
        self._local = LocalSubscriptions()
        self._seen: Seen[EventId] = Seen(settings.seen_us, settings.seen_count_max)
        self._refused: Counter[str] = Counter()

    def subscribe(self, subscription: Subscription, now: int) -> list[Effect]:
        """Every event reaches this node, so the subscription is in force at once."""
        return self._local.add(subscription)

    def unsubscribe(self, number: int, now: int) -> list[Effect]:
        """No other node knows of the subscription."""
        return self._local.remove(number)

    def state_of(self, number: int, now: int) -> SubscriptionState:
        """Always in force."""
        return SubscriptionState.IN_FORCE

    def publish(
        self, publication: Publication, now: int, *, wants_all: bool = False
    ) -> list[Effect]:
        """Send an event to all known peers."""
        return [*self._pass_on(publication, 0, b"", now), Deliver(Published(publication.id))]

    def handle(self, event: Event, now: int) -> list[Effect]:
        """Pass a new event on; everything else is no concern of this protocol."""
        match event:
            case Received(peer, ToyMessage(publication, hops)):
                if self._signing.is_signed(publication):
                    return self._pass_on(publication, hops, peer, now)
                self._refused["signature"] += 1
        return []

    def _pass_on(self, event: Publication, hops: int, sender: Peer, now: int) -> list[Effect]:
        if not self._seen.add(event.id, now):
            return []
        peers = [contact.peer for contact in self._kademlia.table.contacts()]
        message = ToyMessage(event, min(hops + 1, HOPS_MAX))
        return [
            *self._local.deliver(event, hops),
            *(Send(peer, message) for peer in peers if peer not in (sender, event.id.publisher)),
        ]

    def inspect(self) -> Inspection:
        """The node's state for an observer."""
        return Inspection(self.tally().bounds)

    def tally(self) -> Tally:
        """Held entries with their limits, and refused messages by reason."""
        seen = Bound("seen events", len(self._seen), self._seen.count_max)
        return Tally((seen,), self._refused)

    def check(self) -> None:
        """Assert the invariants of the state."""
        assert len(self._seen) <= self._seen.count_max


def encode(message: ToyMessage) -> bytes:
    """Encode the hops as one byte, then the event, with the length of both before them."""
    return framed(bytes([message.hops]) + message.event.encoded)


def decode(data: bytes, limits: WireLimits) -> ToyMessage:
    """Decode a message; raise WireError if it is malformed or exceeds a limit."""
    body = unframed(data, MESSAGE_BYTES_MAX)
    if not body:
        raise WireError("a message without an event")
    accepted = RpcLimits(attributes_max=limits.attribute_count_max)
    return ToyMessage(read_event(body[1:], accepted), body[0])


def codec(limits: WireLimits) -> Codec:
    """The codec of the only message."""
    return Codec(
        message=ToyMessage,
        protocol="/example/toy/1.0.0",
        encode=encode,
        decode=lambda data: decode(data, limits),
        message_bytes_max=MESSAGE_BYTES_MAX,
        kinds=lambda _: {"toy/event": 1},
        event_kinds=frozenset({"toy/event"}),
        event_ids=lambda message: [message.event.id],
    )


SPEC = ProtocolSpec(
    name="toy",
    settings=lambda options: replace(ToySettings(), **options.overrides),
    make=Toy,
    codecs=lambda limits: [codec(limits)],
)
