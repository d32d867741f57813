"""Where members are that do not say it: with those whom they reach in a short round trip.

The first of a region stands for it. A newcomer is asked how far it is to one of each region that is
known so far; it belongs to the nearest if that is near, and begins a region of its own if none is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from smartpubsub.kademlia.keys import Contact
from smartpubsub.protocols.fastdelivery.book import MemberState
from smartpubsub.protocols.fastdelivery.group import Group
from smartpubsub.protocols.fastdelivery.office import Office
from smartpubsub.protocols.fastdelivery.parts import Answer, Measure, Measured, Ping, Request
from smartpubsub.seam import Peer

MEASURED = "measured-"
"""How the names of measured regions begin; no text that stands for itself does."""


@dataclass(slots=True)
class _Measuring:
    """What a newcomer has found out so far."""

    round_trips: dict[int, int]
    left: int


class Measuring:
    """Measures for owners, and is measured by them."""

    def __init__(self, office: Office) -> None:
        self._office = office

    # --- for an owner ---

    def measure(self, group: Group, request: Request) -> None:
        """Find out in which region a member is, and have it placed there."""
        known = group.book.members.get(request.contact.peer)
        if known is not None:
            self._office.owning.place(group, request, known.region)
        else:
            self._ask(group, request, {})

    def _ask(self, group: Group, request: Request, far: dict[str, int]) -> None:
        landmarks = {
            region: contact
            for region, contact in self._landmarks(group).items()
            if region not in far
        }
        if not landmarks:
            self._office.owning.place(group, request, self._nearest(group, far))
            return
        regions = list(landmarks)
        self._office.ask(
            request.contact.peer,
            Measure(tuple(landmarks.values())),
            partial(self._on_measured, group, request, far, regions),
        )

    def _on_measured(
        self, group: Group, request: Request, far: dict[str, int], regions: list[str], part: Answer
    ) -> None:
        if not isinstance(part, Measured):
            return
        forever = 1 << 62
        for region, round_trip_us in zip(regions, part.round_trips, strict=False):
            far[region] = round_trip_us or forever
        near = min(far, key=far.__getitem__)
        if far[near] <= self._office.settings.near_us:
            self._office.owning.place(group, request, near)
        else:
            self._ask(group, request, far)  # Somebody else may have begun a region meanwhile.

    def _landmarks(self, group: Group) -> dict[str, Contact]:
        """Somebody in each region that was measured."""
        found = {}
        for name, region in group.book.regions.items():
            if name.startswith(MEASURED):
                there = (m for m in region.members.values() if m.state is not MemberState.SILENT)
                member = next(there, None)
                if member is not None:
                    found[name] = member.contact
        return found

    def _nearest(self, group: Group, far: dict[str, int]) -> str:
        """A new region, or the nearest if there are enough."""
        if len(far) >= self._office.settings.region_count_max:
            return min(far, key=far.__getitem__)
        group.last_region += 1
        return f"{MEASURED}{group.last_region}"

    # --- for a member ---

    def on_measure(self, contact: Contact, number: int, part: Measure) -> None:
        """An owner wants to know how far it is to some others."""
        measuring = _Measuring({}, len(part.landmarks))
        for place, landmark in enumerate(part.landmarks):
            end = partial(self._on_reached, measuring, contact.peer, number, part.landmarks, place)
            began_us = self._office.now
            self._office.ask(
                landmark.peer, Ping(), partial(end, began_us), partial(end, None, None), tries_max=1
            )

    def _on_reached(
        self,
        measuring: _Measuring,
        owner: Peer,
        number: int,
        landmarks: Sequence[Contact],
        place: int,
        began_us: int | None,
        _: Answer | None,
    ) -> None:
        if began_us is not None:
            measuring.round_trips[place] = max(1, self._office.now - began_us)
        measuring.left -= 1
        if not measuring.left:
            times = tuple(measuring.round_trips.get(n, 0) for n in range(len(landmarks)))
            self._office.answer(owner, number, Measured(times))
