"""Which part of history is wanted: since an event, a time or a period ago, or the last events."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from smartpubsub.errors import SmartPubSubError
from smartpubsub.node.errors import ChoiceError, NodeError

Since: TypeAlias = str | datetime | timedelta
"""An event's id, a time, or how long ago; the last two also as text: 2026-01-31T12:00Z, 1h."""

NO_PAST = "neither an event's id, nor a time such as 2026-01-31T12:00Z, nor a period such as 1h"
CLOCK_SKEW = timedelta(seconds=60)
"""How far clocks may differ: a time that is later than now by more than this is a mistake."""

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


def checked_since(since: Since | None, read_id: Callable[[str], object]) -> str | datetime | None:
    """Convert a time or a period to a time, and check that another text is an event's id."""
    if since is None:
        return None
    found = event_or_time(since)
    if isinstance(found, datetime):
        latest = datetime.now(UTC) + CLOCK_SKEW
        if time_us(found) > time_us(latest):
            raise ChoiceError(
                f"since: {found.isoformat()} is in the future; leave it out for events from now on"
            )
        return found
    try:
        read_id(found)
    except SmartPubSubError:
        raise ChoiceError(f"since: {found!r} is {NO_PAST}") from None
    return found


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
