"""Puts what several processes tell into the order in which it happened.

All processes of a machine read the same clock, and each tells its notes in order and up to when
there are no more. So what is older than that for every process can be put into its final order.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from math import inf

from smartpubsub.testbed.messages import Note

Source = Hashable


class Timeline:
    """Notes of several sources, which one listener gets in the order of time."""

    def __init__(self, listen: Callable[[Note], None]) -> None:
        self._listen = listen
        self._until_us: dict[Source, float] = {}
        self._notes: list[Note] = []

    @property
    def until_us(self) -> float:
        """Up to when everything is known."""
        return min(self._until_us.values(), default=inf)

    def open(self, source: Source, since_us: int) -> None:
        """A source has begun to take notes."""
        self._until_us[source] = since_us

    def add(self, source: Source, until_us: int, notes: list[Note]) -> None:
        """A source tells everything that it knows up to a time."""
        self._until_us[source] = until_us
        self._notes += notes

    def put(self, note: Note) -> None:
        """Add what is known of a source from elsewhere."""
        self._notes.append(note)

    def close(self, source: Source) -> None:
        """A source has told all that it ever will."""
        del self._until_us[source]

    def advance(self, now_us: int) -> None:
        """Tell the listener all that is final."""
        until_us = min(self.until_us, now_us)
        # Sorting keeps what happened at the same time in the order in which it was told.
        self._notes.sort(key=lambda note: note.at_us)
        count = 0
        for note in self._notes:
            if note.at_us > until_us:
                break
            self._listen(note)
            count += 1
        del self._notes[:count]
