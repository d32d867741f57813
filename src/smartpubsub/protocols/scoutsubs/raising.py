"""A publisher's part: one copy of each event to the rendezvous of each of its attributes.

A copy is raised again until its rendezvous has admitted it (in reliable variants), by way of
somebody else if whoever it went to does not answer. An event is published when all have.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from smartpubsub.protocols.publication import EventId, Publication
from smartpubsub.protocols.pubsub import Confirmed, Held, Published, Refused
from smartpubsub.protocols.scoutsubs.branches import base_of, name_of
from smartpubsub.protocols.scoutsubs.messages import Admitted, Completed, Holder, Raise
from smartpubsub.protocols.scoutsubs.office import Office
from smartpubsub.protocols.scoutsubs.opened import MS
from smartpubsub.protocols.scoutsubs.waiting import Waiting
from smartpubsub.seam import Peer

ROOTS_KNOWN_MAX = 1_000
LAST_KNOWN_MAX = 10_000
"""Of how many attributes it is remembered which event came last, the others' order is not kept."""


@dataclass(slots=True)
class _Copy:
    """A copy that is not yet admitted."""

    event: Publication
    attribute: str
    previous: int
    sent_us: int
    wants_all: bool
    began_us: int
    sent_to: Peer | None = None
    admitted_by: Peer | None = None
    tries: int = 1


class _Root(NamedTuple):
    """Who admits a node's events of an attribute, and by way of which tree."""

    peer: Peer
    name: str


class Raising:
    """The events that a node has published and that are not yet admitted everywhere."""

    def __init__(self, office: Office) -> None:
        self._office = office
        self._open: dict[tuple[EventId, str], _Copy] = {}
        self._attributes: dict[EventId, dict[str, None]] = {}
        """Which are still waited for."""
        self._held: dict[EventId, list[Held]] = {}
        """Who has said so far that it keeps events that are not admitted everywhere."""
        self._incomplete: dict[EventId, dict[str, _Copy]] = {}
        """Of events whose publisher wants to know: by which attributes not all have it."""
        self._last: dict[str, int] = {}
        """The number of the last event to each attribute's rendezvous."""
        self._roots: dict[str, _Root] = {}
        self._admission = Waiting(0)

    def __len__(self) -> int:
        return len(self._open)

    @property
    def last_count(self) -> int:
        """Of how many attributes it is remembered which event came last."""
        return len(self._last)

    def publish(self, event: Publication, *, wants_all: bool) -> None:
        """Raise an event to all its rendezvous."""
        office = self._office
        if len(self._open) + len(event.predicate.attributes) > office.settings.record_count_max:
            office.deliver(
                Refused(event.id, "too many events are not yet admitted; publish slower")
            )
            return
        attributes = dict.fromkeys(map(name_of, event.predicate.attributes))
        self._attributes[event.id] = attributes
        for attribute in list(attributes):
            previous = self._last.get(attribute, 0)
            copy = _Copy(event, attribute, previous, office.now, wants_all, office.now)
            self._remember_last(attribute, event.id.number)
            self._open[event.id, attribute] = copy
            if wants_all:
                self._incomplete.setdefault(event.id, {})[attribute] = copy
            self._raise(copy, is_retry=False)

    def _remember_last(self, attribute: str, number: int) -> None:
        self._last.pop(attribute, None)
        self._last[attribute] = number
        if len(self._last) > LAST_KNOWN_MAX:
            del self._last[next(iter(self._last))]

    def _raise(self, copy: _Copy, *, is_retry: bool) -> None:
        office = self._office
        age_ms = (office.now - copy.began_us) // MS
        part = Raise(copy.event, copy.attribute, copy.previous, 1, is_retry, copy.wants_all, age_ms)
        root = self._straight_to(copy, is_retry=is_retry)
        if root is not None:
            copy.sent_to = root.peer
            office.say(root.peer, part._replace(attribute=root.name))
        else:
            copy.sent_to = office.admitting.pass_up(part._replace(hops=0), came_from=None)
        if office.settings.is_reliable:
            wait_us = self._admission.wait_us(
                copy.tries - 1,
                least_us=2 * office.patience_us,
                most_us=2 * office.settings.patience_us_max,
            )
            office.set_timer(("raise", copy.event.id, copy.attribute), office.now + wait_us)

    def _straight_to(self, copy: _Copy, *, is_retry: bool) -> _Root | None:
        """The rendezvous that a copy can be sent to, unless it would overtake the one before it."""
        root = self._roots.get(copy.attribute) if self._office.settings.is_reliable else None
        before = self._open.get((copy.event.id._replace(number=copy.previous), copy.attribute))
        is_overtaking = before is not None and (root is None or before.sent_to != root.peer)
        return None if is_overtaking and not is_retry else root

    def on_timer(self, id: EventId, attribute: str) -> None:
        """A copy was not admitted in time."""
        copy = self._open.get((id, attribute))
        if copy is None:
            return
        office = self._office
        if office.now - copy.began_us > 2 * office.settings.renew_us:
            reason = f"the rendezvous of {attribute} was not reached for too long; publish it again"
            self.on_admitted(office.own.peer, Admitted(id, attribute, reason))
            return
        self._admission.on_silence(copy.began_us, office.now)
        copy.tries += 1
        self._roots.pop(attribute, None)
        if copy.sent_to is not None and office.heard_us.get(copy.sent_to, -1) < copy.sent_us:
            office.probing.probe(copy.sent_to)
        copy.sent_us = office.now
        self._raise(copy, is_retry=True)

    def on_admitted(self, peer: Peer, part: Admitted) -> None:
        """A rendezvous has admitted an event, or refused it."""
        office, attribute = self._office, base_of(part.attribute)
        receipted = self._incomplete.get(part.id, {}).get(attribute)
        if receipted is not None:
            receipted.admitted_by = peer  # Also if that is another one than before.
        copy = self._open.pop((part.id, attribute), None)
        if copy is None:
            return
        office.cancel_timer(("raise", part.id, attribute))
        took_us = office.now - copy.began_us
        self._admission.on_answer(took_us, was_repeated=copy.tries > 1)
        if peer != office.own.peer:
            self._know(attribute, _Root(peer, part.attribute))
        left = self._attributes.get(part.id)
        if left is None:
            return
        if part.refusal:
            del self._attributes[part.id]
            self._held.pop(part.id, None)
            self._incomplete.pop(part.id, None)
            office.deliver(Refused(part.id, part.refusal))
            return
        held = self._held.setdefault(part.id, [])
        for holder in (Holder(peer, part.signature), *part.holders):
            held.append(Held(part.attribute, *holder))
        left.pop(attribute, None)
        if not left:
            del self._attributes[part.id]
            office.deliver(Published(part.id, tuple(self._held.pop(part.id))))

    def on_completed(self, peer: Peer, part: Completed) -> None:
        """Everybody has an event who was to get it by way of an attribute, says its rendezvous."""
        left = self._incomplete.get(part.id, {})
        attribute = base_of(part.attribute)
        copy = left.get(attribute)
        if copy is None or copy.admitted_by != peer:
            return
        del left[attribute]
        if not left:
            del self._incomplete[part.id]
            self._office.deliver(Confirmed(part.id))

    def tick(self) -> None:
        """Once in a while: ask for receipts that may have got lost, as long as they can come."""
        office = self._office
        if not office.settings.is_reliable:
            self._give_up()
        for id, copies in list(self._incomplete.items()):
            for attribute, copy in copies.items():
                if office.now - copy.began_us > 2 * office.settings.renew_us:
                    del self._incomplete[id]
                    break
                is_due = office.now - copy.sent_us >= office.settings.check_us_max
                if is_due and (id, attribute) not in self._open:
                    copy.sent_us = office.now
                    self._raise(copy, is_retry=True)

    def _know(self, attribute: str, root: _Root) -> None:
        self._roots.pop(attribute, None)
        self._roots[attribute] = root
        if len(self._roots) > ROOTS_KNOWN_MAX:
            del self._roots[next(iter(self._roots))]

    def _give_up(self) -> None:
        """In unreliable variants nobody raises a copy again, so some are never admitted."""
        oldest = self._office.now - self._office.settings.suspect_us
        for (id, attribute), copy in list(self._open.items()):
            if copy.sent_us < oldest:
                del self._open[id, attribute]
                self._attributes.pop(id, None)
                self._held.pop(id, None)

    def on_silent(self, peer: Peer) -> None:
        """Somebody is gone, and is nobody's rendezvous any more."""
        for attribute in [name for name, root in self._roots.items() if root.peer == peer]:
            del self._roots[attribute]
