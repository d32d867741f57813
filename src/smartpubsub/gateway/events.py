"""Publishing events, their streams, and their state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from starlette.responses import Response

from smartpubsub.errors import SmartPubSubError
from smartpubsub.gateway import cloudevents
from smartpubsub.gateway.cloudevents import NewEvent
from smartpubsub.gateway.operations import EVENT_STREAM, Call, Operation, Scope, json_response
from smartpubsub.gateway.problems import ProblemError, problem_of
from smartpubsub.gateway.sources import FilterSource
from smartpubsub.gateway.sse import StreamResponse
from smartpubsub.gateway.streams import Source, Streams
from smartpubsub.gateway.values import predicate_of
from smartpubsub.node.api.choices import WaitName
from smartpubsub.node.api.node import Node
from smartpubsub.node.errors import KeyConflictError
from smartpubsub.predicates import Predicate, PredicateError

BATCH_COUNT_MAX = 1_000
DEADLINE_S_MAX = 600

_LAST_MAX = 100_000
Last = Annotated[int, msgspec.Meta(ge=1, le=_LAST_MAX)]


class StreamQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Where a stream begins."""

    since: str | None = None
    last: Last | None = None


class FilterQuery(msgspec.Struct, forbid_unknown_fields=True):
    """The events that a stream shows, and where it begins."""

    filter: str | None = None
    where: str | None = None
    since: str | None = None
    last: Last | None = None


class PublishQuery(msgspec.Struct, forbid_unknown_fields=True):
    """How to publish."""

    predicate: str | None = None
    wait: WaitName = "rendezvous"
    replicas_min: Annotated[int, msgspec.Meta(ge=0, le=1_000)] = 0
    deadline_s: Annotated[float, msgspec.Meta(gt=0, le=DEADLINE_S_MAX)] = 60.0


class HeldDocument(msgspec.Struct):
    """The signature of one replica."""

    attribute: str
    peer: str
    signature: str


class ReceiptDocument(msgspec.Struct):
    """The proof that the network holds an event."""

    id: str
    waited_for: str
    publisher: str
    incarnation: int
    number: int
    replicas: int | None
    replicas_wanted: int
    held: list[HeldDocument]


class EventDocument(msgspec.Struct):
    """The state of an event."""

    id: str
    state: str
    held: list[HeldDocument]
    reason: str
    key: str | None
    waiting_in: list[int]


class EventOperations:
    """Operations on events."""

    def __init__(self, node: Node, streams: Streams) -> None:
        self._node = node
        self._streams = streams

    @property
    def operations(self) -> list[Operation]:
        """All of them."""
        return [
            Operation(
                "publish_event",
                "POST",
                "/v1/events",
                "Publish an event, or a batch of events, as CloudEvents",
                Scope.PUBLISH,
                self._publish,
                query=PublishQuery,
                body=bytes,
                result=ReceiptDocument | list[ReceiptDocument],
                status=201,
                problems=(409, 422, 503, 504),
            ),
            Operation(
                "stream_events",
                "GET",
                "/v1/events",
                "The events that match a filter, as Server-Sent Events",
                Scope.READ,
                self._stream,
                query=FilterQuery,
                media_type=EVENT_STREAM,
                problems=(501, 503, 504),
            ),
            Operation(
                "show_event",
                "GET",
                "/v1/events/{id}",
                "The state of an event that this node has published",
                Scope.READ,
                self._show,
                result=EventDocument,
                problems=(404,),
            ),
        ]

    async def _publish(self, call: Call) -> Response:
        kind = call.request.headers.get("content-type", "")
        if cloudevents.is_batch(kind):
            _no_key(call)
            new = cloudevents.read_batch(call.body, BATCH_COUNT_MAX)
            return json_response(await self._publish_batch(new, call), 201)
        if cloudevents.is_structured(kind):
            event = cloudevents.read_structured(call.body)
        else:
            event = cloudevents.read_binary(call.request.headers, call.query.predicate, call.body)
        key = idempotency_key(call)
        receipt = await self._publish_one(event if key is None else event.with_key(key), call)
        return json_response(receipt, 201, Location=f"/v1/events/{receipt['id']}")

    async def _publish_batch(self, new: Sequence[NewEvent], call: Call) -> list[dict[str, object]]:
        """Publish events in their order, or none if one of them is malformed."""
        for number, one in enumerate(new, 1):
            try:
                Predicate.parse(one.predicate, self._node.config.attribute_count_max)
            except PredicateError as error:
                detail = f"event {number} of {len(new)}: predicate: {error}; none is published"
                raise ProblemError(400, detail) from None
        receipts: list[dict[str, object]] = []
        for number, one in enumerate(new, 1):
            try:
                receipts.append(await self._publish_one(one, call))
            except SmartPubSubError as error:
                problem = problem_of(error)
                problem.problem.detail = (
                    f"event {number} of {len(new)}: {error}; published before it: {number - 1};"
                    " send the others again"
                )
                raise problem from None
        return receipts

    async def _publish_one(self, new: NewEvent, call: Call) -> dict[str, object]:
        try:
            receipt = await self._node.publish(
                new.predicate,
                new.payload,
                key=new.key,
                wait=call.query.wait,
                replicas_min=call.query.replicas_min,
                deadline_s=call.query.deadline_s,
            )
        except KeyConflictError as error:
            raise error.called(new.key_name) from None
        return receipt.document()

    async def _stream(self, call: Call) -> Response:
        query = call.query
        predicate = predicate_of(query.filter, query.where, self._node)
        return await opened(call, FilterSource(self._node, predicate), self._streams)

    async def _show(self, call: Call) -> Response:
        info = await self._node.event(call.path["id"])
        return json_response(info.document(), 404 if info.state.value == "unknown" else 200)


async def opened(call: Call, source: Source, streams: Streams) -> StreamResponse:
    """Open a stream, at the position of the client's Last-Event-ID if it sends one."""
    opening = streams.listen(
        source,
        since=call.query.since,
        last=call.query.last,
        resume=call.request.headers.get("last-event-id") or None,
    )
    return StreamResponse(opening, await opening.__aenter__(), streams)


def idempotency_key(call: Call) -> str | None:
    """The client's publication key, if it sends one."""
    return call.request.headers.get("idempotency-key")


def _no_key(call: Call) -> None:
    if idempotency_key(call) is not None:
        raise ProblemError(
            400, "a batch has no Idempotency-Key: give each event a source and an id"
        )
