"""Are those there that a node depends on: parents, backups, and those whose copies it keeps?

Whoever was heard from needs not be asked. Whoever does not answer is suspected, and its place is
taken: another parent, another backup, or this node itself as rendezvous.
"""

from __future__ import annotations

from dataclasses import dataclass

from smartpubsub.kademlia.settings import MINUTE
from smartpubsub.protocols.scoutsubs.messages import WHOLE, Alive, Probe
from smartpubsub.protocols.scoutsubs.office import Office
from smartpubsub.protocols.scoutsubs.tree import Role
from smartpubsub.seam import Peer

LATE_US_MAX = 10 * MINUTE
"""Answers that are later than this say nothing about the next ones."""


@dataclass(slots=True)
class _Probe:
    peer: Peer
    sent_us: int
    tries: int = 1


class Probing:
    """Who is there, as far as this node has to know."""

    def __init__(self, office: Office) -> None:
        self._office = office
        self._open: dict[Peer, _Probe] = {}
        self._incarnations: dict[Peer, int] = {}

    def probe(self, peer: Peer) -> None:
        """Ask whether somebody is there, unless that is being asked."""
        if peer not in self._open:
            self._open[peer] = _Probe(peer, self._office.now)
            self._ask(peer)

    def _ask(self, peer: Peer) -> None:
        office = self._office
        office.say(peer, Probe(max(0, office.now)))  # A clock may be wrong enough to be below.
        office.set_timer(("probe", peer), office.now + office.patience_us_with(peer))

    def on_probe(self, peer: Peer, part: Probe) -> None:
        """Somebody asks."""
        self._office.say(peer, Alive(part.number, self._office.incarnation))

    def on_alive(self, peer: Peer, part: Alive) -> None:
        """Somebody is there, in the same incarnation as before or in a new one."""
        # Probes are numbered by the time, so also one that is answered late says how long it took.
        took_us = self._office.now - part.number
        if 0 <= took_us <= LATE_US_MAX:
            self._office.probed_after(peer, took_us)
        if self._open.pop(peer, None) is not None:
            self._office.cancel_timer(("probe", peer))
        before = self._incarnations.get(peer)
        self._incarnations[peer] = part.incarnation
        if before is not None and before != part.incarnation:
            self._on_restarted(peer)

    def on_timer(self, peer: Peer) -> None:
        """Somebody has not answered."""
        probe = self._open.get(peer)
        if probe is None:
            return
        if self._office.heard_us.get(peer, -1) >= probe.sent_us:
            del self._open[peer]
            return
        probe.tries += 1
        if probe.tries > self._office.settings.tries_max:
            self.on_silent(peer)
        else:
            self._ask(peer)

    def on_silent(self, peer: Peer) -> None:
        """Somebody is not there: do without."""
        office = self._office
        self._open.pop(peer, None)
        was_silent = office.is_silent(peer)
        office.suspect(peer)
        for tree in list(office.trees.values()):
            if tree.parent is not None and tree.parent.peer == peer and tree.role is Role.CHILD:
                office.seeking.lose_parent(tree)
            office.copying.refresh(tree)
            office.announcing.update(tree)
        for attribute in office.copying.roots_kept(peer):
            office.tree(attribute)
        office.admitting.on_silent(peer)
        office.keeping.on_silent(peer)
        if not was_silent:  # Otherwise all that is for it goes other ways already.
            office.spreading.on_silent(peer)
        office.raising.on_silent(peer)

    def _on_restarted(self, peer: Peer) -> None:
        """Whoever has started anew may have forgotten what it was told."""
        self._office.copying.on_restarted(peer)
        self._office.admitting.on_restarted(peer)
        for tree in self._office.trees.values():
            if tree.parent is not None and tree.parent.peer == peer:
                tree.received = WHOLE
                self._office.announcing.announce(tree)

    def tick(self) -> None:
        """Once in a while: ask everybody that matters and was not heard from."""
        office = self._office
        parents = [tree.parent.peer for tree in office.trees.values() if tree.parent is not None]
        backups = dict.fromkeys(office.copying.backups())
        owners = [*office.copying.owners(), *office.keeping.owners()]
        matters = dict.fromkeys([*parents, *backups, *owners])
        for peer in matters:
            is_silent = office.heard_us.get(peer, -1) <= office.now - office.settings.probe_us
            if is_silent or peer in backups:  # Which may be there and have forgotten everything.
                self.probe(peer)
        for peer in list(self._incarnations):
            if peer not in matters:
                del self._incarnations[peer]
