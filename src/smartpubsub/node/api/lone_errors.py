"""Errors of nurseries, which wrap even a single error into a group."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import trio


@contextmanager
def lone_errors() -> Iterator[None]:
    """Raise a single error out of its group, so that callers can catch it by its type."""
    try:
        yield
    except BaseExceptionGroup as group:
        lone = _lone_error(group)
        if lone is None:
            raise
        # The group says nothing; the cause of the error stays.
        raise lone from lone.__cause__


def _lone_error(group: BaseExceptionGroup[BaseException]) -> BaseException | None:
    _, found = group.split(trio.Cancelled)
    lone: BaseException | None = found
    while isinstance(lone, BaseExceptionGroup):
        lone = lone.exceptions[0] if len(lone.exceptions) == 1 else None
    return lone
