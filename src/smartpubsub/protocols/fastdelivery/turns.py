"""Events that have come before those that they are to come after.

A member may be served by different helpers in different groups of an owner, so events come to it by
several ways. Each says which event it follows, if that may come by another way. It is waited for;
after a while the owner is asked whether it is on its way, and it is not waited for any longer when
the owner does not know that, or does not answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from smartpubsub.protocols.fastdelivery.office import Office
from smartpubsub.protocols.fastdelivery.parts import Expect
from smartpubsub.protocols.publication import EventId, Publication
from smartpubsub.seam import Peer

Asker = tuple[Peer, int]
"""Who has brought an event, and under which number."""


@dataclass(slots=True)
class _Held:
    """An event that waits, and what is to be done when it is delivered, by who has brought it."""

    event: Publication
    hops: int
    then: dict[Asker, Callable[[], None]]


@dataclass(slots=True)
class _Gap:
    """An event that has not come, and those that are to come after it."""

    since_us: int
    held: dict[EventId, _Held] = field(default_factory=dict)
    question: int | None = None


class Turns:
    """What waits for its turn."""

    def __init__(self, office: Office) -> None:
        self._office = office
        self._gaps: dict[EventId, _Gap] = {}
        self._gap_of: dict[EventId, EventId] = {}
        """What each event waits for that does."""
        self._has_timer = False

    @property
    def held_count(self) -> int:
        """How many events wait."""
        return len(self._gap_of)

    def take(
        self, event: Publication, hops: int, prior: int, asker: Asker, then: Callable[[], None]
    ) -> bool:
        """Deliver an event in its turn; False if it waits already, for the same asker."""
        office, id = self._office, event.id
        before = id._replace(number=prior)
        is_next = not prior or before in office.local.seen or id in office.local.seen
        waiting = self._held(id)
        if waiting is not None and asker in waiting.then and not is_next:
            return False
        if is_next:
            self._deliver(_Held(event, hops, {asker: then}))
        elif waiting is not None:
            waiting.then[asker] = then
        elif self.held_count >= office.settings.held_count_max:
            office.refusals["events before their turn"] += 1
            self._deliver(_Held(event, hops, {asker: then}))
        else:
            gap = self._gaps.setdefault(before, _Gap(office.now))
            gap.held[id] = _Held(event, hops, {asker: then})
            self._gap_of[id] = before
            self._set_timer()
        return True

    def _held(self, id: EventId) -> _Held | None:
        before = self._gap_of.get(id)
        return None if before is None else self._gaps[before].held[id]

    def _deliver(self, first: _Held) -> None:
        """Deliver an event, and all that have waited for it, directly or not."""
        turn = [first]
        while turn:
            held = turn.pop(0)
            id = held.event.id
            then = list(held.then.values())
            before = self._gap_of.pop(id, None)
            if before is not None:  # It has come again, and need not wait any more.
                gap = self._gaps[before]
                then += gap.held.pop(id).then.values()
                if not gap.held:
                    self._close(before)
            self._office.local.deliver(held.event, held.hops)
            for action in then:
                action()
            turn += self._close(id)

    def _close(self, before: EventId) -> list[_Held]:
        """Wait no longer for an event; those that have, in the order of publishing."""
        gap = self._gaps.pop(before, None)
        if gap is None:
            return []
        if gap.question is not None:
            self._office.forget_question(gap.question)
        for id in gap.held:
            del self._gap_of[id]
        return [gap.held[id] for id in sorted(gap.held)]

    # --- what does not come ---

    def _set_timer(self) -> None:
        if not self._has_timer:
            self._has_timer = True
            self._office.set_timer(("turns",), self._office.now + self._office.settings.hold_us)

    def on_timer(self) -> None:
        """Ask owners for what has been waited for for long."""
        self._has_timer = False
        office = self._office
        for before, gap in list(self._gaps.items()):
            is_due = gap.since_us <= office.now - office.settings.hold_us
            if is_due and gap.question is None:
                give_up = partial(self._give_up, before)
                expect = Expect(before.incarnation, before.number)
                gap.question = office.ask(
                    before.publisher,
                    expect,
                    give_up,
                    give_up,
                    tries_max=office.settings.expect_tries_max,
                )
        if any(gap.question is None for gap in self._gaps.values()):
            self._set_timer()

    def _give_up(self, before: EventId, _: object = None) -> None:
        for held in self._close(before):
            self._deliver(held)
