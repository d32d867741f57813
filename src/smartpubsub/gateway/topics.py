"""Topics: their descriptors, events, history and export."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import msgspec
from starlette.responses import Response

from smartpubsub.gateway.cloudevents import CloudEvent, from_entry
from smartpubsub.gateway.events import StreamQuery, idempotency_key, opened
from smartpubsub.gateway.operations import (
    EVENT_STREAM,
    JSON,
    Call,
    NoFields,
    Operation,
    Scope,
    json_response,
)
from smartpubsub.gateway.pieces import PiecesResponse
from smartpubsub.gateway.sources import TopicSource
from smartpubsub.gateway.streams import Streams
from smartpubsub.node.api.choices import LinkingName, WaitName
from smartpubsub.node.api.node import Node
from smartpubsub.node.api.topic import Topic
from smartpubsub.node.control.topics import topic_named
from smartpubsub.node.identity import peer_text
from smartpubsub.protocols.blocks import cid_text, time_text
from smartpubsub.protocols.car import car_sections
from smartpubsub.protocols.pulsarcast import topics as descriptors

CAR = "application/vnd.ipld.car"
HISTORY_COUNT_MAX = 10_000


class NewTopic(msgspec.Struct, forbid_unknown_fields=True):
    """A topic to create; the fields are those of `Node.create_topic`."""

    name: str
    ordered: bool = False
    publishers: list[str] | str | None = None
    requesters: list[str] | str | None = None
    linking: LinkingName | None = None
    subtopics: dict[str, str] = {}


class HistoryQuery(msgspec.Struct, forbid_unknown_fields=True):
    """The events of a topic to read."""

    since: str | None = None
    last: Annotated[int, msgspec.Meta(ge=1, le=HISTORY_COUNT_MAX)] | None = None


class PublishedQuery(msgspec.Struct, forbid_unknown_fields=True):
    """How to publish in a topic."""

    wait: WaitName = "rendezvous"


class TopicDocument(msgspec.Struct):
    """The descriptor of a topic."""

    topic: str
    name: str
    author: str
    version: int
    created: str
    ordered: bool
    publishers: list[str] | None
    """None for all peers."""
    linking: str
    subtopics: dict[str, str]


class TopicReceiptDocument(msgspec.Struct):
    """An event that is stored in a topic."""

    id: str | None
    event: str
    topic: str


class HistoryDocument(msgspec.Struct):
    """Events of a topic in its order, and what is missing."""

    events: list[CloudEvent]
    missing: list[str]
    dropped: list[str]
    silent_keepers: int


class TopicOperations:
    """Operations on topics."""

    def __init__(self, node: Node, streams: Streams) -> None:
        self._node = node
        self._streams = streams

    @property
    def operations(self) -> list[Operation]:
        """All of them."""
        place = "/v1/topics"
        busy = (501, 503, 504)
        one = (404, *busy)
        return [
            Operation(
                "list_topics",
                "GET",
                place,
                "The topics that this node knows",
                Scope.READ,
                self._list,
                result=list[TopicDocument],
                problems=busy,
            ),
            Operation(
                "create_topic",
                "POST",
                place,
                "Create a topic of this node",
                Scope.ADMIN,
                self._create,
                body=NewTopic,
                result=TopicDocument,
                status=201,
                problems=(403, 409, *busy),
            ),
            Operation(
                "show_topic",
                "GET",
                place + "/{id}",
                "The newest descriptor of a topic",
                Scope.READ,
                self._show,
                result=TopicDocument,
                problems=one,
            ),
            Operation(
                "publish_in_topic",
                "POST",
                place + "/{id}/events",
                "Publish the body in a topic",
                Scope.PUBLISH,
                self._publish,
                query=PublishedQuery,
                body=bytes,
                result=TopicReceiptDocument,
                status=201,
                problems=(403, 409, 422, *one),
            ),
            Operation(
                "stream_topic",
                "GET",
                place + "/{id}/events",
                "The events of a topic, as Server-Sent Events",
                Scope.READ,
                self._stream,
                query=StreamQuery,
                media_type=EVENT_STREAM,
                problems=one,
            ),
            Operation(
                "read_history",
                "GET",
                place + "/{id}/history",
                "The events of a topic in its order, and what is missing",
                Scope.READ,
                self._history,
                query=HistoryQuery,
                result=HistoryDocument,
                problems=one,
            ),
            Operation(
                "export_topic",
                "GET",
                place + "/{id}/export",
                "All blocks of a topic as a CAR file",
                Scope.READ,
                self._export,
                query=NoFields,
                media_type=CAR,
                problems=one,
            ),
        ]

    async def _list(self, _call: Call) -> Response:
        return json_response([_document(known.topic) for known in await self._node.topics()])

    async def _create(self, call: Call) -> Response:
        wanted: NewTopic = call.body
        topic = await self._node.create_topic(
            wanted.name,
            ordered=wanted.ordered,
            publishers=wanted.publishers,
            requesters=wanted.requesters,
            linking=wanted.linking,
            subtopics=wanted.subtopics,
        )
        headers = {"Location": f"/v1/topics/{topic.id}"}
        return json_response(_document(await topic.show()), 201, **headers)

    async def _topic(self, call: Call) -> Topic:
        return await topic_named(self._node, call.path["id"])

    async def _show(self, call: Call) -> Response:
        return json_response(_document(await (await self._topic(call)).show()))

    async def _publish(self, call: Call) -> Response:
        topic = await self._topic(call)
        receipt = await topic.publish(call.body, wait=call.query.wait, key=idempotency_key(call))
        stored = TopicReceiptDocument(receipt.content_id, receipt.id, topic.id)
        return json_response(stored, 201)

    async def _stream(self, call: Call) -> Response:
        topic = await self._topic(call)
        return await opened(call, TopicSource(self._node, topic.id), self._streams)

    async def _history(self, call: Call) -> Response:
        topic = await self._topic(call)
        last = call.query.last
        if call.query.since is None and last is None:
            last = HISTORY_COUNT_MAX
        found = await topic.history(since=call.query.since, last=last)
        # The fields after the events, without the bracket that begins them.
        rest = msgspec.json.encode(
            {
                "missing": found.gaps.missing,
                "dropped": found.gaps.let_go,
                "silent_keepers": found.gaps.silent_keepers,
            }
        )[1:]

        def pieces() -> Iterator[bytes]:
            yield b'{"events":['
            for number, entry in enumerate(found):
                yield (b"," if number else b"") + from_entry(entry, topic.id)
            yield b"]," + rest

        return PiecesResponse(pieces(), JSON)

    async def _export(self, call: Call) -> Response:
        topic = await self._topic(call)
        found = await topic.blocks()
        headers = {"X-Missing-Blocks": str(len(found.gaps.missing))}
        return PiecesResponse(car_sections(found.roots, found.blocks), CAR, **headers)


def _document(topic: descriptors.Topic) -> TopicDocument:
    rules = topic.rules
    return TopicDocument(
        cid_text(topic.cid),
        topic.name,
        peer_text(topic.author),
        topic.version,
        time_text(topic.created_us),
        rules.is_chained,
        None if rules.publishers is None else [*map(peer_text, rules.publishers)],
        rules.linking.word,
        {name: cid_text(cid) for name, cid in topic.subtopics.items()},
    )
