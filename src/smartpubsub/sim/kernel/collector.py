"""Work on millions of objects without looking for garbage among them again and again."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache


@contextmanager
def collector_off() -> Iterator[None]:
    """No cycles are made here, so collecting would take a quarter of the time and find nothing."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def cleared_away() -> Iterator[None]:
    """Clear away once, in the end, what was made here, such as a world full of cycles.

    Otherwise that is done in the middle of whatever comes next, several times, and among all that
    a process has imported: for a short run this takes a quarter of its time.
    """
    with collector_off():
        try:
            yield
        finally:
            gc.collect()
            _leave_alone_what_is_left()


@cache
def _leave_alone_what_is_left() -> None:
    """What is there after the first of many runs, such as modules, will be there to the end."""
    gc.freeze()
