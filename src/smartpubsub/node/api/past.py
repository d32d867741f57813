"""Which part of history is wanted: since an event, a time or a period ago, or the last events."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from smartpubsub.node.errors import NodeError

Since: TypeAlias = str | datetime | timedelta
"""An event's id, a time, or how long ago; the last two also as text: 2026-01-31T12:00Z, 1h."""

MICROSECONDS = 1_000_000
_PERIOD = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)(s|m|h|d|w)")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def event_or_time(since: Since, now: datetime | None = None) -> str | datetime:
    """Convert a time or a period to a time; another text may be an event's id.

    >>> event_or_time("2h", datetime(2026, 1, 31, 12)).isoformat()
    '2026-01-31T10:00:00'
    >>> event_or_time("2026-01-31T12:00").isoformat()
    '2026-01-31T12:00:00'
    >>> event_or_time("9f86d081884c7d65-1767225600-3")
    '9f86d081884c7d65-1767225600-3'
    """
    now = now or datetime.now(UTC)
    if isinstance(since, datetime):
        return since
    if isinstance(since, timedelta):
        return now - since
    period = _PERIOD.fullmatch(since)
    if period is not None:
        try:
            return now - timedelta(**{_UNITS[period[2]]: float(period[1])})
        except OverflowError:
            return datetime.min.replace(tzinfo=UTC)
    try:
        return datetime.fromisoformat(since)
    except ValueError:
        return since


def time_us(at: datetime) -> int:
    """Convert a time to microseconds; without a zone it is UTC."""
    known = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return max(0, round(known.timestamp() * MICROSECONDS))


def check_one(since: object, last: int | None) -> None:
    """Check that at most one of `since` and `last` is given."""
    if since is not None and last is not None:
        raise NodeError("since and last are both given; choose one")
    if last is not None and last < 1:
        raise NodeError(f"last={last}: it is at least 1")
