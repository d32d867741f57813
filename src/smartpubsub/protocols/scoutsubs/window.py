"""The window within which an event is known again: copies in it are ignored, older ones refused."""

from __future__ import annotations

from smartpubsub.protocols.scoutsubs.opened import EventKey
from smartpubsub.protocols.seen import Seen
from smartpubsub.seam import Peer


class Window:
    """Events that a node has had to do with lately, and where each publisher's older ones end.

    A publisher's events are numbered in order, and nobody sends an event for as long as it is
    remembered here. So what comes with a number that is not higher than one which has been
    forgotten is no news but a replay.
    """

    def __init__(self, keep_us: int, count_max: int) -> None:
        self._seen: Seen[EventKey] = Seen(keep_us, count_max, self._on_lapsed)
        self._count_max = count_max
        self._ends: dict[tuple[Peer, str], tuple[int, int]] = {}
        """By publisher and attribute: the incarnation and the number of the last forgotten one."""

    def __len__(self) -> int:
        return len(self._seen)

    def __contains__(self, key: EventKey) -> bool:
        return key in self._seen

    def add(self, key: EventKey, now: int) -> bool:
        """Whether an event is seen for the first time; from now on it is not."""
        return self._seen.add(key, now)

    def is_over(self, key: EventKey) -> bool:
        """Whether an event is older than what is remembered of its publisher."""
        (publisher, incarnation, number), attribute = key
        end = self._ends.get((publisher, attribute))
        return end is not None and key not in self._seen and (incarnation, number) <= end

    def _on_lapsed(self, key: EventKey) -> None:
        (publisher, incarnation, number), attribute = key
        before = self._ends.pop((publisher, attribute), (0, 0))
        self._ends[publisher, attribute] = max(before, (incarnation, number))
        if len(self._ends) > self._count_max:
            del self._ends[next(iter(self._ends))]
