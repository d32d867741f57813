"""A publisher's events at the keepers of their attributes.

The rendezvous and its replicas hold an event by its acknowledgement. Its publisher sends it to the
other keepers. With `keeper_quorum`, the publisher sends each event to all keepers at once, and the
event is published only when a quorum of them have signed that they keep it. Otherwise the publisher
asks for signatures if the rendezvous does not acknowledge an event.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from smartpubsub.protocols.publication import Publication
from smartpubsub.protocols.runtime.bounded import BoundedDict
from smartpubsub.protocols.scoutsubs.attestation import ScoutOutbox
from smartpubsub.protocols.scoutsubs.audit_keeper import AuditKeeper
from smartpubsub.protocols.scoutsubs.convictions import Convictions
from smartpubsub.protocols.scoutsubs.duplicates import EventKey
from smartpubsub.protocols.scoutsubs.keeper_copies import KeeperCopies
from smartpubsub.protocols.scoutsubs.keepers import TreeKeepers
from smartpubsub.protocols.scoutsubs.messages import (
    Done,
    Holder,
    KeepForAudits,
    KeptAt,
    Recorded,
)
from smartpubsub.protocols.scoutsubs.settings import ScoutSettings
from smartpubsub.seam import Peer

STORING_COUNT_MAX = 10_000
"""Of how many events a publisher remembers the keepers that store them; other keepers store an
event for as long as it may be under way."""


@dataclass(slots=True)
class _PlacedEvent:
    """An event, the keepers that were sent it, and those that have signed."""

    event: Publication
    wants_answer: bool
    sent: dict[Peer, None] = field(default_factory=dict)
    asked: dict[Peer, None] = field(default_factory=dict)
    """The keepers among these that this node has asked to sign."""
    placed: dict[Peer, None] = field(default_factory=dict)
    """The keepers that have signed for a place, and can be convicted if they forget the event."""
    signed: dict[Peer, bytes] = field(default_factory=dict)

    def has_signed(self, peer: Peer) -> bool:
        """Whether a keeper has signed that it keeps the event, and at which place."""
        return peer in self.signed and peer in self.placed


@dataclass(eq=False)
class Placement:
    """The events of this node that keepers have to keep.

    `on_quorum` is called with an event and its tree when enough keepers have signed.
    """

    _outbox: ScoutOutbox
    _settings: ScoutSettings
    _keepers: TreeKeepers
    _own_keeper: AuditKeeper
    _copies: KeeperCopies
    _convictions: Convictions
    _on_quorum: Callable[[EventKey], None]

    def __post_init__(self) -> None:
        self._placed: dict[EventKey, _PlacedEvent] = {}
        self._storing: BoundedDict[EventKey, dict[Peer, None]] = BoundedDict(STORING_COUNT_MAX)
        """The keepers that store an event until a rendezvous has it."""

    def place(self, event: Publication, tree: str, holders: Collection[Peer] = ()) -> None:
        """Send an event to all keepers except those that hold it, once the keepers are known."""
        key = (event.id, tree)
        placed = self._placed.get(key)
        if placed is None and not self._settings.keeper_quorum and self._keepers.are_known(tree):
            self._keep_own(event, tree)
            for peer in self._keepers.found(tree):
                if peer not in holders:
                    self._copies.send(peer, event, tree)
            return
        if placed is None:
            placed = self._placed[key] = _PlacedEvent(event, bool(self._settings.keeper_quorum))
        placed.sent |= dict.fromkeys(holders)
        placed.asked = {peer: None for peer in placed.asked if peer not in holders}
        self._keepers.prepare(tree)
        if key in self._placed:  # Not if the lookup has ended at once.
            self._send(key, placed)

    def ask(self, event: Publication, tree: str) -> None:
        """Ask all keepers that have not signed for an event to keep it and to sign."""
        placed = self._placed.setdefault((event.id, tree), _PlacedEvent(event, wants_answer=True))
        placed.wants_answer = True
        self._convictions.remember(event)
        placed.sent = dict.fromkeys(placed.signed)
        self.place(event, tree)

    def _send(self, key: EventKey, placed: _PlacedEvent) -> None:
        tree = key[1]
        self._keep_own(placed.event, tree)
        for peer in self._keepers.found(tree):
            if peer not in placed.sent:
                placed.sent[peer] = None
                if not placed.wants_answer:
                    self._copies.send(peer, placed.event, tree)
                    continue
                placed.asked[peer] = None
                self._outbox.queue(peer, KeepForAudits(placed.event, tree, True))
                if not self._settings.keeper_quorum:
                    storing = self._storing.get(key, {})
                    storing[peer] = None
                    self._storing[key] = storing
        if not self._keepers.is_under_way(tree) and not placed.wants_answer:
            del self._placed[key]

    def _keep_own(self, event: Publication, tree: str) -> None:
        """Keep an event here too if this node is a keeper, as in small networks."""
        if self._keepers.includes_own(tree):
            self._own_keeper.keep(event, tree)

    def on_keepers_found(self, tree: str) -> None:
        """Send the events that have waited for the keepers of a tree."""
        for key, placed in list(self._placed.items()):
            if key[1] == tree:
                self._send(key, placed)
                self._conclude_if_signed(key)

    # --- quorum ---

    def has_quorum(self, key: EventKey) -> bool:
        """Whether enough keepers have signed that they keep an event, in most bands.

        Keepers that this node has not found by its own lookups do not count. Nor do keepers without
        a signature for a place, as they could forget the event with impunity.
        """
        tree = key[1]
        placed = self._placed.get(key)
        if placed is None or self._keepers.is_under_way(tree):
            return False
        bands = self._keepers.bands(tree)
        signed = [sum(map(placed.has_signed, band)) for band in bands]
        agreeing = sum(2 * count > len(band) for count, band in zip(signed, bands, strict=True))
        wanted = self._settings.keeper_quorum or self._settings.backups + 1
        found = sum(map(len, bands))
        return 2 * agreeing >= len(bands) and sum(signed) >= min(wanted, (found + 1) // 2)

    def can_stand_in(self, key: EventKey) -> bool:
        """Whether the keepers that have signed for an event can stand in for its rendezvous."""
        placed = self._placed.get(key)
        return (
            placed is not None
            and any(map(placed.has_signed, placed.signed))
            and self.has_quorum(key)
        )

    def on_departed(self) -> None:
        """Count the signatures again: without a keeper that has left, fewer are enough."""
        for key in list(self._placed):
            self._conclude_if_signed(key)

    def _conclude_if_signed(self, key: EventKey) -> None:
        if self.has_quorum(key):
            self._on_quorum(key)

    def has_asked(self, peer: Peer, part: Recorded) -> bool:
        """Whether a keeper was sent an event that it has not signed for."""
        placed = self._placed.get((part.id, part.attribute))
        return placed is not None and peer in placed.sent and peer not in placed.signed

    def on_kept_at(self, peer: Peer, part: KeptAt) -> None:
        """Take a keeper's signature for the place of an event."""
        self._convictions.on_kept_at(peer, part)
        key = (part.id, part.attribute)
        placed = self._placed.get(key)
        is_sent = placed is not None and peer in placed.sent
        if placed is not None and is_sent and placed.event.digest == part.digest:
            placed.placed[peer] = None
            self._conclude_if_signed(key)

    def on_recorded(self, peer: Peer, part: Recorded) -> None:
        """Take a keeper's signature that it keeps an event."""
        key = (part.id, part.attribute)
        if not part.is_full and self.has_asked(peer, part):
            self._placed[key].signed[peer] = part.evidence
            self._conclude_if_signed(key)

    def take(self, key: EventKey) -> list[Holder]:
        """Take the keepers that have signed for an event that is published now."""
        placed = self._placed.get(key)
        if placed is None or not placed.wants_answer:
            return []  # The event may still wait until the keepers are known.
        del self._placed[key]
        if not self._settings.keeper_quorum:
            # This node asks no keeper again. Each request without a signature may have been lost.
            for peer in placed.asked:
                if peer not in placed.signed:
                    self._copies.send(peer, placed.event, key[1])
        return [Holder(*item) for item in placed.signed.items()]

    def on_admitted(self, key: EventKey) -> None:
        """Tell the keepers that store an event that a rendezvous has it."""
        for peer in self._storing.pop(key, {}):
            self._outbox.queue_late(peer, Done(*key))

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
