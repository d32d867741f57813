"""The gateway as an ASGI application."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

from smartpubsub.client.web_socket import PATH
from smartpubsub.errors import SmartPubSubError
from smartpubsub.gateway import documents
from smartpubsub.gateway.access import Access, bearer
from smartpubsub.gateway.control import ControlSessions
from smartpubsub.gateway.events import EventOperations
from smartpubsub.gateway.groups import GroupOperations
from smartpubsub.gateway.network import NetworkOperations
from smartpubsub.gateway.operations import BODY_BYTES_MAX, Call, Operation, json_response
from smartpubsub.gateway.page_files import PageOperations
from smartpubsub.gateway.problems import ProblemError, problem_of
from smartpubsub.gateway.sse import StreamResponse
from smartpubsub.gateway.streams import Streams
from smartpubsub.gateway.subscriptions import SubscriptionOperations
from smartpubsub.gateway.topics import TopicOperations
from smartpubsub.gateway.websocket import SocketSession
from smartpubsub.node.api.node import Node

SOCKET_PATH = "/v1/socket"

_log = logging.getLogger(__name__)


def all_operations(node: Node, streams: Streams) -> list[Operation]:
    """The operations of a gateway."""
    operations = [
        *EventOperations(node, streams).operations,
        *SubscriptionOperations(node, streams).operations,
        *TopicOperations(node, streams).operations,
        *GroupOperations(node).operations,
        *NetworkOperations(node).operations,
        *PageOperations().operations,
    ]

    async def openapi(_call: Call) -> Response:
        return json_response(documents.openapi([o for o in operations if o.is_documented]))

    async def asyncapi(_call: Call) -> Response:
        return json_response(documents.asyncapi())

    operations += [
        Operation(
            "openapi", "GET", "/openapi.json", "The OpenAPI document", None, openapi, result=dict
        ),
        Operation(
            "asyncapi",
            "GET",
            "/asyncapi.json",
            "The AsyncAPI document",
            None,
            asyncapi,
            result=dict,
        ),
    ]
    return operations


def application(
    node: Node, streams: Streams, access: Access, sessions: ControlSessions
) -> Starlette:
    """Make the application of a node."""

    async def serve_socket(socket: WebSocket) -> None:
        try:
            access.check_place(socket)
        except ProblemError as problem:
            await socket.send_denial_response(problem.response())
            return
        await SocketSession(socket, node, streams, access).serve()

    sockets = [WebSocketRoute(SOCKET_PATH, serve_socket), WebSocketRoute(PATH, sessions.serve)]
    return application_of(all_operations(node, streams), access, sockets)


def application_of(
    operations: Iterable[Operation], access: Access, sockets: Iterable[BaseRoute] = ()
) -> Starlette:
    """Make the application of some operations."""
    by_path: dict[str, dict[str, Operation]] = {}
    for operation in operations:
        by_path.setdefault(operation.path, {})[operation.method] = operation
    # A path without parameters goes first: /v1/groups/search is no group's id.
    routes = [
        Route(path, _endpoint(methods, access), methods=[*methods])
        for path, methods in sorted(by_path.items(), key=lambda entry: "{" in entry[0])
    ]
    return Starlette(
        routes=[*routes, *sockets],
        exception_handlers={HTTPException: _on_http_error, Exception: _on_failure},
    )


def _endpoint(
    methods: dict[str, Operation], access: Access
) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        operation = methods["GET" if request.method == "HEAD" else request.method]
        try:
            access.check(request, operation.scope)
            _check_length(request)
            response = await operation.answer(request)
            if isinstance(response, StreamResponse):
                response.permit = access.permit(bearer(request), operation.scope)
            return response
        except ProblemError as problem:
            return problem.response()
        except SmartPubSubError as error:
            return problem_of(error).response()

    return endpoint


def _check_length(request: Request) -> None:
    """Refuse a body that is too long, or whose length is not known before it is read."""
    length = request.headers.get("content-length")
    if length is not None and int(length) > BODY_BYTES_MAX:
        raise ProblemError(413, f"a body has at most {BODY_BYTES_MAX} bytes")
    if length is None and "transfer-encoding" in request.headers:
        raise ProblemError(411, "send the body with a Content-Length")


async def _on_http_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    detail = "/openapi.json lists the paths and their methods"
    return ProblemError(error.status_code, detail, headers=dict(error.headers or {})).response()


async def _on_failure(request: Request, error: Exception) -> Response:
    _log.error(
        "a request has failed",
        extra={"fields": {"path": request.url.path}},
        exc_info=error,
    )
    return ProblemError(500, "the gateway has a bug; its log says more").response()
