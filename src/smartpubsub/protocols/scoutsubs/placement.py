"""A publisher's events at the keepers of their trees.

The rendezvous and its replicas hold an event by its acknowledgement. Its publisher sends it to the
other keepers. With `keeper_quorum`, an event is published only when so many keepers have signed
that they keep it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from smartpubsub.protocols.publication import Publication
from smartpubsub.protocols.scoutsubs.attestation import ScoutOutbox
from smartpubsub.protocols.scoutsubs.duplicates import EventKey
from smartpubsub.protocols.scoutsubs.keepers import TreeKeepers
from smartpubsub.protocols.scoutsubs.messages import Holder, KeepForAudits, Recorded
from smartpubsub.protocols.scoutsubs.settings import ScoutSettings
from smartpubsub.seam import Peer


@dataclass(slots=True)
class _PlacedEvent:
    """An event, the keepers that were sent it, and those that have signed."""

    event: Publication
    sent: dict[Peer, None] = field(default_factory=dict)
    signed: dict[Peer, bytes] = field(default_factory=dict)


class Placement:
    """The events that this node has published and that keepers are to keep.

    `on_quorum` is called with an event and its tree when enough keepers have signed.
    """

    def __init__(
        self,
        outbox: ScoutOutbox,
        settings: ScoutSettings,
        keepers: TreeKeepers,
        on_quorum: Callable[[EventKey], None],
    ) -> None:
        self._outbox = outbox
        self._settings = settings
        self._keepers = keepers
        self._on_quorum = on_quorum
        self._placed: dict[EventKey, _PlacedEvent] = {}

    def prepare(self, tree: str) -> None:
        """Look up the keepers of a tree that this node publishes to."""
        if self._settings.region_size and self._settings.has_audits:
            self._keepers.prepare(tree)

    def place(self, event: Publication, tree: str, holders: Iterable[Peer] = ()) -> None:
        """Have all keepers keep an event, except those that hold it; again if it was called before.

        If the keepers are not known yet, that happens when they are.
        """
        if not self._settings.has_audits:
            return
        key = (event.id, tree)
        placed = self._placed.get(key)
        if placed is None:
            placed = self._placed[key] = _PlacedEvent(event)
        for peer in holders:
            placed.sent[peer] = None
        self.prepare(tree)
        self._send(key, placed)
        if not self._keepers.is_under_way(tree) and not self._settings.keeper_quorum:
            del self._placed[key]

    def repeat(self, event: Publication, tree: str) -> None:
        """Send an event again to the keepers that have not signed."""
        placed = self._placed.get((event.id, tree))
        if placed is not None:
            placed.sent = dict.fromkeys(placed.signed)
        self.place(event, tree)

    def _send(self, key: EventKey, placed: _PlacedEvent) -> None:
        wants_answer = bool(self._settings.keeper_quorum)
        for peer in self._keepers.found(key[1]):
            if peer not in placed.sent:
                placed.sent[peer] = None
                self._outbox.queue(peer, KeepForAudits(placed.event, key[1], wants_answer))

    def on_keepers_found(self, tree: str) -> None:
        """The keepers of a tree are known."""
        for key, placed in list(self._placed.items()):
            if key[1] == tree:
                self._send(key, placed)
                if not self._settings.keeper_quorum:
                    del self._placed[key]
                elif self.has_quorum(key):
                    self._on_quorum(key)

    # --- quorum ---

    def has_quorum(self, key: EventKey) -> bool:
        """Whether enough keepers have signed that they keep an event."""
        wanted = self._settings.keeper_quorum
        placed = self._placed.get(key)
        if not wanted or placed is None:
            return True
        if self._keepers.is_under_way(key[1]):
            return False
        return len(placed.signed) >= min(wanted, len(self._keepers.found(key[1])) // 2 + 1)

    def has_asked(self, peer: Peer, part: Recorded) -> bool:
        """Whether a keeper was sent an event that it has not signed for."""
        placed = self._placed.get((part.id, part.attribute))
        return placed is not None and peer in placed.sent and peer not in placed.signed

    def on_signed(self, key: EventKey, holders: Iterable[Holder]) -> None:
        """Some nodes have signed that they keep an event."""
        placed = self._placed.get(key)
        if placed is not None:
            placed.signed |= {holder.peer: holder.evidence for holder in holders}

    def on_recorded(self, peer: Peer, part: Recorded) -> None:
        """A keeper has signed that it keeps an event."""
        key = (part.id, part.attribute)
        if not part.is_full and self.has_asked(peer, part):
            self.on_signed(key, (Holder(peer, part.evidence),))
            if self.has_quorum(key):
                self._on_quorum(key)

    def take(self, key: EventKey) -> list[Holder]:
        """The keepers that have signed for an event, which is published now."""
        placed = self._placed.pop(key, None)
        return [] if placed is None else [Holder(*item) for item in placed.signed.items()]

    def forget_old(self, oldest_us: int) -> None:
        """Forget events that were given up."""
        for key, placed in list(self._placed.items()):
            if placed.event.created_us < oldest_us:
                del self._placed[key]

    def __len__(self) -> int:
        return len(self._placed)

    def check(self) -> None:
        """Assert the invariants: only keepers that were sent an event sign for it."""
        for placed in self._placed.values():
            assert all(peer in placed.sent for peer in placed.signed)
