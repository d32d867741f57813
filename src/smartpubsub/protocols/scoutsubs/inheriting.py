"""History moves with those who keep it: who has come to lie closest to an attribute gets the past.

Whoever keeps events of an attribute looks now and then who lies closest to it. It tells those who
have come lately, and from time to time all, what it keeps: for each hour how many events, and a
digest of them. They tell the same of theirs, and each fetches the hours of which it lacks
something, page by page. While nobody comes or goes nothing is copied.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from smartpubsub.kademlia.keys import Contact, key_of
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.publication import Publication
from smartpubsub.protocols.scoutsubs.history import SPAN_US, Place, place_before, place_of
from smartpubsub.protocols.scoutsubs.messages import Inherit, Recall, Recalled, Span
from smartpubsub.protocols.scoutsubs.office import Office
from smartpubsub.seam import Peer

LOOKED_AT_MAX = 500
"""How many attributes a node looks after in one tick."""
FETCHES_MAX = 4
"""How many attributes a node fetches the past of at a time; the others wait."""
TRIES_MAX = 4
SILENT_MAX = 8
"""How many of the closest may be gone before the overlay has noticed."""
ON_THEIR_WAY = 50
"""One in so many events of the hour may not have come to everybody yet."""


@dataclass(slots=True, eq=False)
class _Fetch:
    """Hours of an attribute that somebody has more of."""

    peer: Peer
    whole_us: int
    spans: list[int]
    """When they begin; the last is the one that is being fetched."""
    after: Place
    question: int = 0
    tries: int = 0


class Inheriting:
    """Has the past of attributes where it is looked for."""

    def __init__(self, office: Office) -> None:
        self._office = office
        self._told: dict[str, dict[Peer, None]] = {}
        """By attribute, the closest that know what this node keeps."""
        self._agreed: dict[str, dict[Peer, None]] = {}
        """By attribute, those who keep the same."""
        self._told_us: dict[str, int] = {}
        self._fetches: dict[str, _Fetch] = {}
        self._next = 0

    def __len__(self) -> int:
        return len(self._fetches)

    # --- telling ---

    def on_first(self, attribute: str) -> None:
        """This node keeps the first event of an attribute, and so do all who lie closest to it."""
        self._told[attribute] = dict.fromkeys(self._closest(attribute))
        self._told_us[attribute] = self._office.now

    def forget(self, attribute: str) -> None:
        """Nothing is kept of an attribute any more."""
        for about in (self._told, self._told_us, self._agreed):
            about.pop(attribute, None)

    def tick(self) -> None:
        """Once in a while: see who lies closest to the attributes of which something is kept."""
        attributes = self._office.history.attributes
        if not attributes:
            return
        first = self._next % len(attributes)
        ahead = [*attributes[first:], *attributes[:first]][:LOOKED_AT_MAX]
        self._next = first + len(ahead)
        for attribute in ahead:
            self._look_after(attribute)

    def _look_after(self, attribute: str) -> None:
        office = self._office
        closest = self._closest(attribute)
        told = self._told.get(attribute, {})
        if office.now - self._told_us.get(attribute, 0) >= office.settings.renew_us:
            for peer in told:
                if not office.is_fresh(peer):
                    office.probing.probe(peer)
            told = {}
            self._agreed.pop(attribute, None)
            self._told_us[attribute] = office.now
        for peer in closest:
            if peer not in told:
                self._tell(peer, attribute, is_answer=False)
        self._told[attribute] = dict.fromkeys(closest)
        if len(closest) > office.settings.backups:  # What comes now does not come to this node.
            self._agreed.pop(attribute, None)
            office.history.doubt(attribute)
        else:
            self._agree(attribute, closest)

    def _tell(self, peer: Peer, attribute: str, *, is_answer: bool) -> None:
        history = self._office.history
        spans, whole_us = history.spans(attribute), history.whole_us(attribute)
        self._office.say(peer, Inherit(attribute, whole_us, spans, is_answer))

    def _closest(self, attribute: str) -> list[Peer]:
        """The others that should keep what this node does."""
        count = self._office.settings.backups
        if not self._is_close(attribute, count + 1):
            count += 1
        return [contact.peer for contact in self._known(attribute, count)]

    def _known(self, attribute: str, count: int) -> list[Contact]:
        """So many of those who lie closest, as far as they are known to be there."""
        office = self._office
        known = office.closest(attribute.encode(), count + SILENT_MAX)
        return [contact for contact in known if not office.is_silent(contact.peer)][:count]

    def _is_close(self, attribute: str, count: int) -> bool:
        """Whether this node is among so many that lie closest, as far as it knows."""
        name, own = attribute.encode(), self._office.own.key
        known = self._known(attribute, count)
        return len(known) < count or own ^ key_of(name) < known[-1].key ^ key_of(name)

    # --- being told ---

    def on_inherit(self, peer: Peer, part: Inherit) -> None:
        """Somebody tells what it keeps of an attribute."""
        office, attribute = self._office, part.attribute
        if not office.settings.history_us_max:
            return
        if not part.is_answer:
            self._tell(peer, attribute, is_answer=True)
        if not self._is_close(attribute, 2 * (office.settings.backups + 1)):
            return
        own = {span.since_us: span for span in office.history.spans(attribute)}
        wanted = [span.since_us for span in part.spans if self._is_wanted(span, own)]
        if wanted:
            self._want(peer, part, sorted(wanted, reverse=True))
            return
        if own and len(part.spans) == len(own):
            self._agreed.setdefault(attribute, {})[peer] = None
        office.history.trust(attribute, part.whole_us)
        self._agree(attribute, self._closest(attribute))

    def _want(self, peer: Peer, part: Inherit, spans: list[int]) -> None:
        if part.attribute in self._fetches:
            return  # What else there is comes when it is told again.
        if len(self._fetches) >= self._office.settings.tree_count_max:
            self._office.refusals["inherited history"] += 1
            return
        after = place_before(spans[-1])
        self._fetches[part.attribute] = _Fetch(peer, part.whole_us, spans, after)
        self._begin()

    def _is_wanted(self, span: Span, own: Mapping[int, Span]) -> bool:
        """Whether somebody may have something of an hour that this node has not."""
        office = self._office
        mine = own.get(span.since_us, Span(span.since_us, 0, 0))
        end_us = span.since_us + SPAN_US
        if span == mine or end_us < office.now - office.settings.history_us_max:
            return False
        # Of an hour that is not over some are on their way.
        return end_us < office.now or span.amount > mine.amount + mine.amount // ON_THEIR_WAY

    def _agree(self, attribute: str, closest: list[Peer]) -> None:
        """Where all keep the same nothing is missing: whatever it was, one of them had it."""
        office = self._office
        agreed = self._agreed.get(attribute, {})
        is_alone = not closest and office.is_cut_off
        if not is_alone and all(peer in agreed for peer in closest):
            office.history.trust(attribute, office.history.oldest_us(attribute))

    # --- fetching ---

    def _begin(self) -> None:
        active = sum(bool(fetch.question) for fetch in self._fetches.values())
        for attribute, fetch in self._fetches.items():
            if not fetch.question and active < FETCHES_MAX:
                active += 1
                self._ask(attribute, fetch)

    def _ask(self, attribute: str, fetch: _Fetch) -> None:
        office = self._office
        fetch.question = office.recalling.new_question()
        after = fetch.after
        everything = Predicate.of({attribute: True})
        id = after.id if after.id.publisher else None
        part = Recall(attribute, fetch.question, everything, after.created_us, id, 0, None)
        office.say(fetch.peer, part)
        office.set_timer(("inherit", attribute), office.now + (office.patience_us << fetch.tries))

    def on_timer(self, attribute: str) -> None:
        """Somebody has not answered."""
        fetch = self._fetches.get(attribute)
        if fetch is None:
            return
        fetch.tries += 1
        if fetch.tries > TRIES_MAX:
            self._end(attribute)
        else:
            self._ask(attribute, fetch)

    def on_recalled(self, peer: Peer, part: Recalled) -> None:
        """Somebody tells what it keeps."""
        fetch = self._fetches.get(part.attribute)
        if fetch is None or (fetch.peer, fetch.question) != (peer, part.number):
            return
        fetch.tries = 0
        if not self._take(part.attribute, fetch, part.events):
            self._office.refusals["recalled events"] += 1
            self._end(part.attribute)
            return
        end_us = fetch.spans[-1] + SPAN_US
        if not (part.has_more and part.events) or fetch.after.created_us >= end_us:
            del fetch.spans[-1]
            if not fetch.spans:
                self._office.history.trust(part.attribute, fetch.whole_us)
                self._end(part.attribute)
                return
            fetch.after = max(fetch.after, place_before(fetch.spans[-1]))
        self._ask(part.attribute, fetch)

    def _take(self, attribute: str, fetch: _Fetch, events: Iterable[Publication]) -> bool:
        """Keep what has come; whether it is what was asked for."""
        office = self._office
        for event in events:
            is_asked_for = place_of(event) > fetch.after and attribute in event.predicate.attributes
            if not is_asked_for or not office.signing.is_signed(event):
                return False
            fetch.after = place_of(event)
            office.history.inherit(event, attribute)
        return True

    def _end(self, attribute: str) -> None:
        del self._fetches[attribute]
        self._office.cancel_timer(("inherit", attribute))
        self._begin()
