"""Long announcements, whose filters enter the table a few at a time.

Ten thousand filters would hold up everything else on the node for half a second. Until the last of
them is in the table, the child is `ENTERING`: if the rest never comes, a later announcement has to
be whole.
"""

from __future__ import annotations

from dataclasses import dataclass

from smartpubsub.kademlia.keys import Contact
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.scoutsubs.filter_table import FilterTable, ScoutChild
from smartpubsub.protocols.scoutsubs.messages import Announce

STEP = 256
"""Filters that are added or removed in one step: some milliseconds of work."""


@dataclass(slots=True, eq=False)
class LongAnnouncement:
    """An announcement of a child that is on its way into a table."""

    contact: Contact
    part: Announce
    child: ScoutChild
    removed: list[Predicate]
    done: int = 0
    """How many of the filters were added or removed."""

    @property
    def is_done(self) -> bool:
        """Whether all filters are in the table."""
        return self.done >= len(self.part.added) + len(self.removed)

    def step(self, table: FilterTable) -> None:
        """Add the next filters; after the last of them, remove the next."""
        added = self.part.added[self.done : self.done + STEP]
        first = max(0, self.done - len(self.part.added))
        removed = [] if added else self.removed[first : first + STEP]
        table.change_child(self.child, added, removed)
        self.done += len(added) + len(removed)
