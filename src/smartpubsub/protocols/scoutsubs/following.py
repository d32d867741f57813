"""Events that wait at the rendezvous for the one before them of the same publisher.

An event that does not come is not waited for any longer after a while. Those that wait for each
other are a chain, and go on one after the other, the first one first.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from smartpubsub.protocols.scoutsubs.messages import Raise
from smartpubsub.protocols.scoutsubs.office import Office
from smartpubsub.protocols.scoutsubs.opened import EventKey
from smartpubsub.protocols.seen import Seen
from smartpubsub.seam import Peer


class _Place(NamedTuple):
    """An event in the tree of an attribute."""

    attribute: str
    publisher: Peer
    incarnation: int
    number: int


class Following:
    """The events that wait for others."""

    def __init__(self, office: Office) -> None:
        settings = office.settings
        self._office = office
        self._late: Seen[EventKey] = Seen(settings.seen_us, settings.seen_count_max)
        """Events that were waited for in vain, and are not waited for again."""
        self._early: dict[_Place, Raise] = {}
        """Events that wait, by the one before them."""
        self._waiting: dict[_Place, None] = {}
        """The same events, by their own places."""
        self._followed: deque[_Place] = deque()
        """Events that have come, or are not waited for, and after which others may go on."""

    def __len__(self) -> int:
        return len(self._early)

    def is_late(self, key: EventKey) -> bool:
        """Whether an event was waited for in vain."""
        return key in self._late

    def is_waited_for(self, part: Raise) -> bool:
        """Whether something waits for the same event as this one would."""
        return _before(part) in self._early

    def is_in_line(self, part: Raise) -> bool:
        """Whether an event, or the one before it, is here and waits."""
        own = _Place(part.attribute, *part.event.id)
        return own in self._waiting or _before(part) in self._waiting

    def wait(self, part: Raise, wait_us: int) -> None:
        """Have an event wait for the one before it, so long at most."""
        self._early[_before(part)] = part
        self._waiting[_Place(part.attribute, *part.event.id)] = None
        self._office.set_timer(("early", *_before(part)), self._office.now + wait_us)

    def on_timer(self, attribute: str, publisher: Peer, incarnation: int, number: int) -> None:
        """The event before is not waited for any longer, unless it is here and waits itself.

        The wait for that one can be longer, for it was begun when answers took longer.
        """
        before, office = _Place(attribute, publisher, incarnation, number), self._office
        if before in self._early and before in self._waiting:
            office.set_timer(("early", *before), office.now + office.patience_us)
        else:
            self._follow(before)

    def on_admitted(self, key: EventKey) -> None:
        """An event has been admitted: go on with what has waited for it."""
        id, attribute = key
        self._follow(_Place(attribute, *id))

    def _follow(self, before: _Place) -> None:
        """Go on with what has waited for an event, in a loop, for a chain of them may be long."""
        self._followed.append(before)
        if len(self._followed) > 1:
            return  # Whoever has begun goes on.
        while self._followed:
            came = self._followed[0]
            part = self._early.pop(came, None)
            if part is not None:
                own = _Place(part.attribute, *part.event.id)
                self._waiting.pop(own, None)
                id = part.event.id._replace(number=part.previous)
                self._late.add((id, part.attribute), self._office.now)
                self._office.admitting.pass_up(part, None)
                # Also if it was not admitted, or elsewhere: then those after it go there too.
                self._followed.append(own)
            self._followed.popleft()


def _before(part: Raise) -> _Place:
    return _Place(part.attribute, *part.event.id._replace(number=part.previous))
