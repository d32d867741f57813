"""Events that a node keeps for a rendezvous that it is a backup of, until everybody has them."""

from __future__ import annotations

from typing import NamedTuple

from smartpubsub.kademlia.keys import Contact, key_of
from smartpubsub.protocols.scoutsubs.messages import Done, Raise, Record, Recorded
from smartpubsub.protocols.scoutsubs.office import Office
from smartpubsub.protocols.scoutsubs.opened import MS, EventKey
from smartpubsub.protocols.scoutsubs.tree import Role
from smartpubsub.seam import Peer


class _Kept(NamedTuple):
    """An event that is kept for a rendezvous, and when it was published."""

    record: Record
    owner: Peer
    began_us: int

    def aged(self, now: int) -> Record:
        """The record, as old as it is by now."""
        return self.record._replace(age_ms=(now - self.began_us) // MS)


class Keeping:
    """A backup's part in the care for events."""

    def __init__(self, office: Office) -> None:
        self._office = office
        self._kept: dict[EventKey, _Kept] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def on_record(self, peer: Peer, part: Record) -> None:
        """A rendezvous wants an event kept."""
        office = self._office
        key = (part.event.id, part.attribute)
        if not office.signing.is_signed(part.event):
            office.refusals["signature"] += 1
            return
        has_room = len(self._kept) < office.settings.record_count_max and not office.storing.is_full
        is_full = key not in self._kept and not has_room
        if is_full:
            office.refusals["records"] += 1
        else:
            self._keep(key, part, peer)
        office.say(peer, Recorded(*key, is_full))

    def _keep(self, key: EventKey, record: Record, owner: Peer) -> None:
        self._kept[key] = _Kept(record, owner, self._office.now - record.age_ms * MS)
        self._office.storing.keep_record(record, owner)
        self._office.history.keep(record.event, record.attribute)

    def restore(self, owner: Peer, record: Record) -> None:
        """Keep an event again that was kept, or in this node's own care, before a restart."""
        office = self._office
        self._keep((record.event.id, record.attribute), record, owner)
        if owner == office.own.peer:
            tree = office.tree(record.attribute)
            if tree is not None and tree.role is Role.ROOT:
                office.admitting.take_over(tree, (record,))

    def on_done(self, contact: Contact, part: Done) -> None:
        """Everybody has an event, so it needs not be kept: so says a rendezvous."""
        kept = self._kept.get((part.id, part.attribute))
        if kept is None:
            return
        key = key_of(part.attribute.encode())
        if contact.peer == kept.owner or contact.key ^ key < self._office.own.key ^ key:
            self.forget((part.id, part.attribute))

    def records_of(self, attribute: str) -> list[Record]:
        """The events that are kept of an attribute."""
        now = self._office.now
        return [kept.aged(now) for (_, name), kept in self._kept.items() if name == attribute]

    def forget(self, key: EventKey) -> None:
        """An event needs not be kept, or is in this node's own care now."""
        if self._kept.pop(key, None) is not None:
            self._office.history.on_done(key)

    def owners(self) -> list[Peer]:
        """Those for whom events are kept."""
        own = self._office.own.peer
        return list(dict.fromkeys(k.owner for k in self._kept.values() if k.owner != own))

    def on_silent(self, peer: Peer) -> None:
        """Somebody is gone: find out who takes what it had in its care."""
        for kept in list(self._kept.values()):
            if kept.owner == peer:
                self._office.tree(kept.record.attribute)

    def tick(self) -> None:
        """Once in a while: forget what was kept for too long, see who cares for the rest."""
        office = self._office
        oldest = office.now - 2 * office.settings.renew_us
        for key, kept in list(self._kept.items()):
            if kept.began_us < oldest:
                self.forget(key)
            elif office.is_silent(kept.owner) or self._is_left(kept):
                self._hand_on(key, kept)

    def _is_left(self, kept: _Kept) -> bool:
        """Whether it is known who cares now for an event that was in this node's care before."""
        tree = self._office.trees.get(kept.record.attribute)
        is_own = kept.owner == self._office.own.peer
        return is_own and tree is not None and tree.role in (Role.CHILD, Role.ROOT)

    def _hand_on(self, key: EventKey, kept: _Kept) -> None:
        """Whoever had an event in its care is gone: somebody else has to have it."""
        office, record = self._office, kept.aged(self._office.now)
        tree = office.trees.get(record.attribute)
        if tree is not None and tree.role is Role.ROOT:
            office.admitting.take_over(tree, (record,))
            return
        event, attribute, hops, wants_all, age_ms = record
        to = office.admitting.pass_up(
            Raise(event, attribute, 0, hops, True, wants_all, age_ms, is_permitted=True), None
        )
        if to is not None:
            self._keep(key, record, to)
