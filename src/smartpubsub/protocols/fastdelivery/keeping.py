"""Events for those who do not answer, kept by others who try to reach them now and then.

Before an owner says that an event is published, everybody who wants it has it, or else the f nodes
closest to whoever does not answer keep it and try to send it: so it is not lost with the owner.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from smartpubsub.kademlia.keys import Contact
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.fastdelivery.group import Record
from smartpubsub.protocols.fastdelivery.office import Office
from smartpubsub.protocols.fastdelivery.parts import Answer, Done, Keep, NotHelping, Notify
from smartpubsub.protocols.publication import EventId, Publication
from smartpubsub.seam import Peer


@dataclass(slots=True)
class _Safekeeping:
    """An event that is being given to others to keep."""

    record: Record
    open_count: int = 0
    """How many answers are waited for, and how many have yet to be found a place for."""


class Keeping:
    """What this node has others keep, and what it keeps for others."""

    def __init__(self, office: Office) -> None:
        self._office = office
        self.kept: dict[Peer, dict[EventId, tuple[Predicate, Publication, int]]] = {}
        """By whom it is for, with its group and the time until which it is kept."""
        self.kept_count = 0
        self._unkept: list[tuple[_Safekeeping, Peer]] = []
        """What others had no room for, and whom it is for: it is not published yet."""

    # --- for an owner ---

    def keep(self, record: Record, silent: Sequence[Peer]) -> None:
        """Have an event kept for some who do not answer; then it is published."""
        office = self._office
        if not silent or not office.settings.backups:
            office.spreading.on_kept(record)
            return
        care = _Safekeeping(record, open_count=len(silent))
        for peer in silent:
            office.finding.find(peer, partial(self._give, care, peer))

    def _give(self, care: _Safekeeping, peer: Peer, keepers: list[Contact]) -> None:
        office = self._office
        others = [c.peer for c in keepers if c.peer not in (peer, office.own.peer)]
        part = Keep(peer, care.record.group.predicate, care.record.event)
        for keeper in others[: office.settings.backups]:
            care.open_count += 1
            on_given = partial(self._on_given, care, peer)
            office.ask(keeper, part, on_given, on_given)
        self._on_given(care, peer)

    def _on_given(self, care: _Safekeeping, peer: Peer, part: Answer | None = None) -> None:
        if isinstance(part, NotHelping):
            self._unkept.append((care, peer))
            return
        care.open_count -= 1
        if not care.open_count:
            self._office.spreading.on_kept(care.record)

    # --- for others ---

    def on_keep(self, contact: Contact, number: int, part: Keep) -> None:
        """An owner could not reach somebody."""
        office = self._office
        if part.event.id.publisher != contact.peer or not office.signing.is_signed(part.event):
            office.refusals["events"] += 1
            return
        if self.kept_count >= office.settings.kept_count_max:
            office.refusals["events to keep"] += 1
            office.answer(contact.peer, number, NotHelping())
            return
        events = self.kept.setdefault(part.peer, {})
        self.kept_count += part.event.id not in events
        until = office.now + 2 * office.settings.renew_us
        events[part.event.id] = (part.group, part.event, until)
        office.answer(contact.peer, number, Done())

    def tick(self) -> None:
        """Forget what was kept long enough, and see who is back."""
        now = self._office.now
        unkept, self._unkept = self._unkept, []
        for care, peer in unkept:
            if peer in care.record.waiting:
                self._office.finding.find(peer, partial(self._give, care, peer))
            else:
                self._on_given(care, peer)
        for peer in list(self.kept):
            events = {id: entry for id, entry in self.kept[peer].items() if now < entry[2]}
            self.kept_count -= len(self.kept[peer]) - len(events)
            self.kept[peer] = events
            self._send_next(peer)

    def _send_next(self, peer: Peer) -> None:
        events = self.kept.get(peer)
        if not events:
            self.kept.pop(peer, None)
            return
        group, event, _ = next(iter(events.values()))
        on_got = partial(self._on_got, peer, event.id)
        self._office.ask(peer, Notify(group, event, 2, is_resend=True), on_got, tries_max=1)

    def _on_got(self, peer: Peer, id: EventId, _: Answer) -> None:
        events = self.kept.get(peer, {})
        if events.pop(id, None) is not None:
            self.kept_count -= 1
        self._send_next(peer)
