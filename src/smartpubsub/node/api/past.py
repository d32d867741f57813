"""Which part of history is wanted: since an event or a time, or the last events."""

from __future__ import annotations

from datetime import UTC, datetime

from smartpubsub.node.errors import NodeError
from smartpubsub.protocols.publication import event_id_from_text
from smartpubsub.protocols.scoutsubs.replay import Past

MICROSECONDS = 1_000_000


def event_or_time(text: str) -> str | datetime:
    """Read a time, or return the text, which may be an event's id."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return text


def time_us(at: datetime) -> int:
    """Convert a time to microseconds; without a zone it is UTC."""
    known = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return max(0, round(known.timestamp() * MICROSECONDS))


def check_one(since: object, last: int | None) -> None:
    """Check that at most one of `since` and `last` is given."""
    if since is not None and last is not None:
        raise NodeError("history is since something, or the last so many; choose one")
    if last is not None and last < 1:
        raise NodeError("the last so many are one or more")


def wanted_past(since: str | datetime | None, last: int | None) -> Past | None:
    """Read the history that a subscription begins with, if any."""
    check_one(since, last)
    if last is not None:
        return Past(last=last)
    if since is None:
        return None
    if isinstance(since, datetime):
        return Past(since_us=time_us(since))
    return Past(since=event_id_from_text(since))
