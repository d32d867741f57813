"""The node's subscriptions; kept ones are streams that survive their readers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
from starlette.responses import Response

from smartpubsub.gateway.cloudevents import from_event
from smartpubsub.gateway.operations import EVENT_STREAM, Call, Operation, Scope, json_response
from smartpubsub.gateway.problems import ProblemError
from smartpubsub.gateway.sse import StreamResponse
from smartpubsub.gateway.streams import Closed, Item, Stored, StreamItem, Streams
from smartpubsub.gateway.values import predicate_of
from smartpubsub.node.api.listing import SubscriptionInfo
from smartpubsub.node.api.node import Node
from smartpubsub.node.api.subscription import EventStream


class NewSubscription(msgspec.Struct, forbid_unknown_fields=True):
    """A subscription to keep: a filter, or a condition."""

    filter: str | None = None
    where: str | None = None


class Acknowledgement(msgspec.Struct, forbid_unknown_fields=True):
    """The last event that the client has processed."""

    event: str


class SubscriptionDocument(msgspec.Struct):
    """A subscription of the node."""

    subscription: int
    predicate: str
    state: str
    is_taken: bool
    waiting: int
    is_kept: bool
    dropped: int


class SubscriptionOperations:
    """Operations on subscriptions."""

    def __init__(self, node: Node, streams: Streams) -> None:
        self._node = node
        self._streams = streams

    @property
    def operations(self) -> list[Operation]:
        """All of them."""
        place = "/v1/subscriptions"
        return [
            Operation(
                "list_subscriptions",
                "GET",
                place,
                "The subscriptions of this node",
                Scope.READ,
                self._list,
                result=list[SubscriptionDocument],
            ),
            Operation(
                "keep_subscription",
                "POST",
                place,
                "Make a subscription whose events wait on disk until they are acknowledged",
                Scope.ADMIN,
                self._keep,
                body=NewSubscription,
                result=SubscriptionDocument,
                status=201,
                problems=(501, 503, 504),
            ),
            Operation(
                "show_subscription",
                "GET",
                place + "/{number}",
                "One subscription",
                Scope.READ,
                self._show,
                result=SubscriptionDocument,
                problems=(404,),
            ),
            Operation(
                "end_subscription",
                "DELETE",
                place + "/{number}",
                "End a subscription; events that wait for it are dropped",
                Scope.ADMIN,
                self._end,
                status=204,
                problems=(404, 503, 504),
            ),
            Operation(
                "stream_subscription",
                "GET",
                place + "/{number}/events",
                "The events of a kept subscription; Last-Event-ID acknowledges",
                Scope.READ,
                self._stream,
                media_type=EVENT_STREAM,
                problems=(404, 409, 501, 503, 504),
            ),
            Operation(
                "acknowledge_events",
                "POST",
                place + "/{number}/acknowledgements",
                "Acknowledge an event of a kept subscription, and all before it",
                Scope.READ,
                self._acknowledge,
                body=Acknowledgement,
                status=204,
                problems=(404, 409),
            ),
        ]

    async def _list(self, _call: Call) -> Response:
        return json_response([_document(info) for info in await self._node.subscriptions()])

    async def _keep(self, call: Call) -> Response:
        predicate = predicate_of(call.body.filter, call.body.where, self._node)
        async with self._node.subscribe(predicate, keep=True, acknowledges=False) as events:
            number = events.number
        assert number is not None
        return json_response(_document(await self._found(str(number))), 201)

    async def _show(self, call: Call) -> Response:
        return json_response(_document(await self._found(call.path["number"])))

    async def _end(self, call: Call) -> Response:
        await self._node.unsubscribe((await self._found(call.path["number"])).number)
        return Response(status_code=204)

    async def _acknowledge(self, call: Call) -> Response:
        info, event = await self._found(call.path["number"]), call.body.event
        if not info.is_kept:
            raise ProblemError(
                409, "the subscription is not kept, so its events need no acknowledgement"
            )
        if not self._node.has_had(info.number, event):
            raise ProblemError(
                404,
                f"subscription {info.number} has no event {event}, and has had none in the last"
                f" 45 minutes; nothing is acknowledged; events that wait: {info.waiting}",
            )
        await self._node.take(info.number, event)
        return Response(status_code=204)

    async def _stream(self, call: Call) -> Response:
        info = await self._found(call.path["number"])
        if not info.is_kept:
            raise ProblemError(409, "the subscription is not kept; stream its filter instead")
        if info.is_taken:
            raise ProblemError(409, "the subscription has another reader")
        acknowledged = call.request.headers.get("last-event-id")
        if acknowledged:
            await self._node.take(info.number, acknowledged.removeprefix("past-"))
        opening = self._open(info)
        return StreamResponse(opening, await opening.__aenter__(), self._streams)

    @asynccontextmanager
    async def _open(self, info: SubscriptionInfo) -> AsyncIterator[_KeptReader]:
        subscription = self._node.subscribe(info.predicate, keep=True, acknowledges=False)
        async with self._streams.reading(), subscription as events:
            if events.number != info.number:
                if not events.was_there and events.number is not None:
                    await self._node.unsubscribe(events.number)
                raise ProblemError(
                    409,
                    f"subscription {info.number} has another reader, or another subscription has"
                    " the same filter and is read first; end one of them",
                )
            yield _KeptReader(events)

    async def _found(self, number: str) -> SubscriptionInfo:
        known = await self._node.subscriptions()
        for info in known:
            if str(info.number) == number:
                return info
        there = ", ".join(str(info.number) for info in known) or "none"
        raise ProblemError(404, f"there is no subscription {number[:20]}; there are: {there}")


class _KeptReader:
    """Events from disk: a slow reader delays only itself."""

    is_too_slow = False

    def __init__(self, events: EventStream) -> None:
        self._events = events

    async def next(self) -> list[StreamItem]:
        event = await anext(self._events, None)
        if event is None:
            return [Closed("the node has ended the subscription")]
        return [Item(Stored(event.id), event.id, from_event(event))]


def _document(info: SubscriptionInfo) -> SubscriptionDocument:
    return SubscriptionDocument(
        info.number,
        str(info.predicate),
        info.state.value,
        info.is_taken,
        info.waiting,
        info.is_kept,
        info.dropped,
    )
