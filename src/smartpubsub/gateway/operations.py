"""The declaration of an operation: its route, types and scope, and its texts in the documents.

A request is checked against the declared types before the operation sees it, and the OpenAPI
document is written from the same types.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from enum import Enum
from typing import Any

import msgspec
import trio
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from smartpubsub.gateway.expected import explained
from smartpubsub.gateway.problems import ProblemError

JSON = "application/json"
EVENT_STREAM = "text/event-stream"
BODY_BYTES_MAX = 8 << 20
BODY_S_MAX = 120.0


class Scope(Enum):
    """What a token allows."""

    READ = "read"
    PUBLISH = "publish"
    ADMIN = "admin"
    """Everything, also changes to subscriptions, topics and groups."""


class NoFields(msgspec.Struct, forbid_unknown_fields=True):
    """No parameters."""


@dataclass(frozen=True)
class Call:
    """A request with checked parameters."""

    request: Request
    path: dict[str, str]
    query: Any
    body: Any


@dataclass(frozen=True)
class Operation:
    """One operation of the gateway."""

    name: str
    """The operation's id in the OpenAPI document."""
    method: str
    path: str
    summary: str
    scope: Scope | None
    """None if no token is needed."""
    handle: Callable[[Call], Awaitable[Response]]
    query: type[msgspec.Struct] = NoFields
    body: Any = None
    """The type of a JSON body, `bytes` for any content, or None."""
    result: Any = None
    """The type of a JSON result, or None."""
    status: int = 200
    media_type: str = JSON
    problems: tuple[int, ...] = ()
    """The operation's statuses, besides those of all operations."""
    is_documented: bool = True

    async def answer(self, request: Request) -> Response:
        """Read a request, and answer it."""
        call = Call(
            request,
            dict(request.path_params),
            read_query(request, self.query),
            await self._body(request),
        )
        return await self.handle(call)

    async def _body(self, request: Request) -> Any:
        if self.body is None:
            return None
        content = await read_body(request)
        if self.body is bytes:
            return content
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != JSON:
            raise ProblemError(415, f"expected a body of the type {JSON}")
        try:
            return msgspec.json.decode(content, type=self.body)
        except msgspec.ValidationError as error:
            raise ProblemError(400, f"body: {explained(error, self.body)}") from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ProblemError(400, f"body: {error}") from None


async def read_body(request: Request) -> bytes:
    """Read a body that is not too long, and comes in time.

    HTTP/2 sends bodies whose length is not known before they end.
    """
    content = bytearray()
    try:
        with trio.fail_after(BODY_S_MAX):
            async with aclosing(request.stream()) as pieces:
                async for piece in pieces:
                    content += piece
                    if len(content) > BODY_BYTES_MAX:
                        raise ProblemError(413, f"a body has at most {BODY_BYTES_MAX} bytes")
    except trio.TooSlowError:
        raise ProblemError(408, f"the body has not come within {BODY_S_MAX:g} s") from None
    except ClientDisconnect:
        raise ProblemError(400, "the body ends early") from None
    return bytes(content)


def read_query(request: Request, fields: type[msgspec.Struct]) -> Any:
    """Read the query of a request; unknown and repeated parameters are errors."""
    given: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if name in given:
            raise ProblemError(400, f"query: {name!r} is given twice")
        given[name] = value
    try:
        return msgspec.convert(given, fields, strict=False)
    except msgspec.ValidationError as error:
        raise ProblemError(400, f"query: {explained(error, fields)}") from None


def json_response(result: object, status: int = 200, **headers: str) -> Response:
    """Answer with a JSON document."""
    return Response(msgspec.json.encode(result), status, media_type=JSON, headers=headers or None)
