"""Events as JSON."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any, TypeAlias

from smartpubsub.node.api.events import Event
from smartpubsub.node.api.past import time_us
from smartpubsub.node.api.subscription import EventStream
from smartpubsub.node.control.requests import Request
from smartpubsub.protocols.blocks import time_text

Say: TypeAlias = Callable[..., Awaitable[None]]
"""Sends a line to the client; the first argument is the request's id."""
SayPage: TypeAlias = Callable[[Request, dict[str, Any], Sequence[bytes]], Awaitable[None]]
"""Answers a request with a document and a page of blocks."""
WriteEvent: TypeAlias = Callable[[Any, bool], dict[str, Any]]
"""Converts an event to JSON; the flag includes its signature or its whole block."""
SendEvents: TypeAlias = Callable[[Request, EventStream, WriteEvent], Awaitable[None]]
"""Sends the events of a subscription to the client."""


def event_document(event: Event, with_proof: bool) -> dict[str, Any]:
    """Convert an event."""
    written = {
        "id": event.id,
        "cid": event.cid,
        "created": time_document(event.created),
        "publisher": event.publisher,
        "event": str(event.predicate),
        "payload": base64.b64encode(event.payload).decode(),
        "hops": event.hops,
        "dropped_before": event.dropped_before,
    }
    if with_proof and event.signed is not None:
        written["signature"] = base64.b64encode(event.signed.signature).decode()
    return written


def time_document(at: datetime | None) -> str | None:
    """Convert a time."""
    return None if at is None else time_text(time_us(at))
