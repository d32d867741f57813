"""When a hot attribute is split over several keys, and which shard an event goes to.

A rendezvous with a high load splits its attribute: the new epoch goes down the tree, and the
subscribers put their filters into all shards (`subscriptions.py`) and claim the epoch upward. When
all have, the rendezvous forwards events to the shards. Each of these events permits the shard to
admit further events directly from their publishers for a while. Without a permit, a shard forwards
events to the attribute's first tree, which may always admit them: each subscriber in a shard is
there too.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from smartpubsub.protocols.scoutsubs.attestation import ScoutOutbox
from smartpubsub.protocols.scoutsubs.duplicates import EventKey
from smartpubsub.protocols.scoutsubs.filters import Filters
from smartpubsub.protocols.scoutsubs.membership import TreeMembership
from smartpubsub.protocols.scoutsubs.messages import Raise
from smartpubsub.protocols.scoutsubs.settings import ScoutSettings
from smartpubsub.protocols.scoutsubs.shard_names import base_name, is_split, shard_for
from smartpubsub.seam import Peer

PERMIT_US = 30_000_000
"""For how long at most a shard may admit events after the attribute's rendezvous permits it."""
COOLING_FACTOR = 8
"""An attribute need not be split if its load is this many times less than that of a hot one."""
LOAD_US = 1_000_000


@dataclass(slots=True)
class _Load:
    """The load of a rendezvous."""

    since_us: int
    """When counting began."""
    epoch_us: int
    """When the epoch last changed, or was not yet known."""
    hot_us: int = -1 << 62
    """When the load was last enough to keep the attribute split."""
    copies: Counter[Peer] = field(default_factory=Counter)
    """By publisher: the number of copies of its events."""


@dataclass(eq=False)
class Shards:
    """This node's share in splitting attributes."""

    _outbox: ScoutOutbox
    _settings: ScoutSettings
    _membership: TreeMembership
    _filters: Filters

    def __post_init__(self) -> None:
        self._permitted_us: dict[str, int] = {}
        """By shard: when it was last permitted to admit events."""
        self._under_way: dict[tuple[Peer, str], dict[EventKey, None]] = {}
        """By publisher and tree: events in flight from this node as the root."""
        self._loads: dict[str, _Load] = {}

    # --- load ---

    def add_load(self, attribute: str, publisher: Peer, copies: int) -> None:
        """Count the copies of an event that a rendezvous has sent; split a hot attribute."""
        settings, hot = self._settings, self._settings.hot_copies_per_s
        if not hot or not settings.is_reliable or base_name(attribute) != attribute:
            return
        load = self._load_of(attribute)
        load.copies[publisher] += copies
        took_us = self._outbox.now - load.since_us
        if took_us < LOAD_US:
            return
        per_s = load.copies.total() * 1_000_000 // took_us
        most_per_s = max(load.copies.values()) * 1_000_000 // took_us
        load.copies.clear()
        load.since_us = self._outbox.now
        if COOLING_FACTOR * per_s >= hot:
            load.hot_us = self._outbox.now
        # The events of one publisher stay in one tree in any case.
        is_hot = per_s >= hot and 2 * (per_s - most_per_s) >= hot
        epoch = self._filters.epochs.of(attribute)
        if is_hot and not is_split(epoch) and self._filters.epochs.claim(attribute) == epoch:
            self._filters.epochs.set_epoch(attribute, epoch + 1)

    def _load_of(self, attribute: str) -> _Load:
        load = self._loads.get(attribute)
        if load is None:
            now = self._outbox.now
            load = self._loads[attribute] = _Load(now, now)
        return load

    def on_epoch(self, attribute: str) -> None:
        """Note that the epoch of an attribute has changed."""
        self._load_of(attribute).epoch_us = self._outbox.now

    def tick(self) -> None:
        """Merge the shards of attributes that are not hot any more."""
        tables = self._filters.tables
        self._loads = {name: load for name, load in self._loads.items() if name in tables}
        for attribute in list(tables):
            epoch = self._filters.epochs.of(attribute)
            if self._membership.is_root(attribute) and is_split(epoch):
                # Longer than any permit lasts, or any event that was permitted.
                load = self._load_of(attribute)
                cold_us = self._outbox.now - max(load.epoch_us, load.hot_us)
                if cold_us > 4 * self._settings.renew_us:
                    self._filters.epochs.set_epoch(attribute, epoch + 1)
        oldest = self._outbox.now - self._permit_us
        self._permitted_us = {n: at for n, at in self._permitted_us.items() if at > oldest}

    # --- events in flight ---

    def on_flight(self, key: EventKey) -> None:
        """Note an event that goes down a tree from this node as its root."""
        line = key[0].publisher, key[1]
        under_way = self._under_way.get(line)
        if under_way is None:
            self._under_way[line] = {key: None}
        else:
            under_way[key] = None

    def on_concluded(self, key: EventKey) -> None:
        """Note that an event is completed, or retransmitted so often that no other waits for it."""
        line = key[0].publisher, key[1]
        there = self._under_way.get(line)
        if there is not None:
            there.pop(key, None)
            if not there:
                del self._under_way[line]

    # --- the way of an event ---

    @property
    def _permit_us(self) -> int:
        """How long a permit is valid: shorter than subscribers stay in the shards."""
        return min(PERMIT_US, self._settings.renew_us // 2)

    def may_forward(self, attribute: str) -> bool:
        """Whether events of a tree may have to go on to another shard; False for most trees."""
        return base_name(attribute) != attribute or is_split(self._filters.tables[attribute].epoch)

    def forwarded(self, part: Raise, *, is_here: bool) -> Raise | None:
        """The message for another shard; None if this node has to admit the event.

        It stays if it or an earlier event is here, which it might overtake by another shard.
        """
        attribute, publisher = part.attribute, part.event.id.publisher
        is_here = is_here or (publisher, attribute) in self._under_way
        base = base_name(attribute)
        if attribute == base:
            name = shard_for(base, publisher)
            if name == base or not self._are_shards_open(attribute) or is_here:
                return None
            self.add_load(attribute, publisher, 1)
            return part._replace(attribute=name, is_permitted=True)
        if part.is_permitted:
            self._permitted_us[attribute] = self._outbox.now
            return None
        permit_us = self._permit_us
        age_us = self._outbox.now - self._permitted_us.get(attribute, -permit_us)
        is_late = 2 * age_us > permit_us and not is_here
        if age_us < permit_us and not is_late:
            return None
        return part._replace(attribute=base)

    def _are_shards_open(self, attribute: str) -> bool:
        """Whether all subscribers are in the shards and will stay there."""
        table = self._filters.tables[attribute]
        return (
            is_split(table.epoch)
            and self._filters.epochs.claim(attribute) == table.epoch
            and self._outbox.now - self._load_of(attribute).hot_us < self._settings.renew_us
            and self._filters.copied_version(attribute) >= table.epoch_copy_version
        )

    def check(self) -> None:
        """Assert the invariants: events in flight are under their own publishers and trees."""
        for line, keys in self._under_way.items():
            assert keys
            assert all((id.publisher, attribute) == line for id, attribute in keys)
