"""Events of topics, converted from those of the protocol."""

from __future__ import annotations

from smartpubsub.node.api.events import Entry, time_of
from smartpubsub.node.api.payloads import JSON, Serializer
from smartpubsub.node.errors import NodeError
from smartpubsub.node.identity import peer_text
from smartpubsub.protocols.blocks import Cid, cid_text
from smartpubsub.protocols.pulsarcast.events import TopicEvent
from smartpubsub.protocols.pulsarcast.replicas import TopicReplicas


def entry_of(event: TopicEvent, hops: int = 0, serializer: Serializer = JSON) -> Entry:
    """Convert an event that the protocol has verified."""
    return Entry(
        id=cid_text(event.cid),
        publisher=peer_text(event.publisher),
        predicate=event.publication.predicate,
        payload=event.draft.payload,
        hops=hops,
        author=peer_text(event.id.publisher),
        created=time_of(event.draft.created_us),
        parents=tuple(map(cid_text, event.parents)),
        height=event.height,
        block=event.block,
        serializer=serializer,
    )


def must_be_topic(cid: Cid, replicas: TopicReplicas) -> None:
    """Raise an error if this node knows that a content id is an event's."""
    for replica in replicas.by_id.values():
        event = replica.log.events.get(cid)
        if event is not None:
            topic = cid_text(event.topic)
            raise NodeError(f"{cid_text(cid)} is an event; name the topic that it is in, {topic}")
