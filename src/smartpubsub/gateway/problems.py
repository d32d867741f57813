"""Errors over HTTP: RFC 9457 problem documents."""

from __future__ import annotations

import msgspec
from starlette.responses import Response

from smartpubsub.errors import SmartPubSubError
from smartpubsub.node.errors import (
    EventRefusedError,
    KeyConflictError,
    NodeClosedError,
    NoSubscriptionError,
    NotInTimeError,
    NoTopicError,
    NotOwnerError,
    NotPromisedError,
    PublishError,
    TooFewReplicasError,
)

MEDIA_TYPE = "application/problem+json"

_STATUSES: tuple[tuple[type[SmartPubSubError], int], ...] = (
    (NoSubscriptionError, 404),
    (NoTopicError, 404),
    (KeyConflictError, 422),
    (NotInTimeError, 504),
    (TooFewReplicasError, 409),
    (EventRefusedError, 409),
    (NotPromisedError, 501),
    (NotOwnerError, 403),
    (NodeClosedError, 503),
)
_BAD_REQUEST = 400

TITLES = {
    400: "Bad request",
    401: "Token required",
    403: "Forbidden",
    404: "Not found",
    405: "Method not allowed",
    406: "Not acceptable",
    408: "Request not in time",
    409: "Conflict",
    411: "Length required",
    413: "Content too large",
    415: "Unsupported media type",
    421: "Misdirected request",
    422: "Key conflict",
    429: "Too many requests",
    500: "Internal error",
    501: "Not supported by this network",
    503: "Unavailable",
    504: "Not in time",
}


class Problem(msgspec.Struct, omit_defaults=True):
    """A problem document."""

    title: str
    status: int
    detail: str
    id: str | None = None
    """The event that was published, or may have been."""
    state: str | None = None
    """The event's state, as in `GET /v1/events/{id}`."""
    reason: str | None = None


class ProblemError(Exception):
    """A request that gets a problem document as its answer."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        headers: dict[str, str] | None = None,
        **members: str | None,
    ) -> None:
        super().__init__(detail)
        self.problem = Problem(TITLES[status], status, detail, **members)
        self.headers = headers or {}

    def response(self) -> Response:
        """Convert to a response."""
        return Response(
            msgspec.json.encode(self.problem),
            self.problem.status,
            headers=self.headers,
            media_type=MEDIA_TYPE,
        )


def problem_of(error: SmartPubSubError) -> ProblemError:
    """Convert an error of the node."""
    status = next((code for kind, code in _STATUSES if isinstance(error, kind)), _BAD_REQUEST)
    if isinstance(error, PublishError):
        return ProblemError(status, str(error), id=error.id, state=error.state, reason=error.reason)
    return ProblemError(status, str(error))
