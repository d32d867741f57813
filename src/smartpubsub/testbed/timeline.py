"""Merges the notes of several processes into one order.

All processes of a machine read the same clock. Each reports its notes in order, and the time up to
which they are complete. Notes older than the minimum of these times are in their final order.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from math import inf

from smartpubsub.testbed.messages import Note

Source = Hashable


class Timeline:
    """Notes of several sources, passed to one listener in the order of time."""

    def __init__(self, listen: Callable[[Note], None]) -> None:
        self._listen = listen
        self._until_us: dict[Source, float] = {}
        self._notes: list[Note] = []

    @property
    def until_us(self) -> float:
        """The time up to which all notes are known."""
        return min(self._until_us.values(), default=inf)

    def open(self, source: Source, since_us: int) -> None:
        """Add a source."""
        self._until_us[source] = since_us

    def add(self, source: Source, until_us: int, notes: list[Note]) -> None:
        """Add the notes of a source up to a time."""
        self._until_us[source] = until_us
        self._notes += notes

    def put(self, note: Note) -> None:
        """Add a note of the coordinator about a source."""
        self._notes.append(note)

    def close(self, source: Source) -> None:
        """Close a source."""
        del self._until_us[source]

    def advance(self, now_us: int) -> None:
        """Pass all final notes to the listener."""
        until_us = min(self.until_us, now_us)
        # Sorting is stable: notes of the same time stay in the order of arrival.
        self._notes.sort(key=lambda note: note.at_us)
        count = 0
        for note in self._notes:
            if note.at_us > until_us:
                break
            self._listen(note)
            count += 1
        del self._notes[:count]
