"""The node's own subscriptions, each in every tree that carries its events.

That is the tree of one of its attributes and, while that attribute is split, all its shards. A
subscription is in force when it is in force in all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from smartpubsub.kademlia.keys import Key, key_of
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.pubsub import Subscribed, Subscription, SubscriptionState, Unsubscribed
from smartpubsub.protocols.scoutsubs.attestation import ScoutOutbox
from smartpubsub.protocols.scoutsubs.filters import Filters
from smartpubsub.protocols.scoutsubs.membership import TreeMembership
from smartpubsub.protocols.scoutsubs.settings import Mapping, ScoutSettings
from smartpubsub.protocols.scoutsubs.shard_names import is_split, shard_names, tree_name


@dataclass(slots=True)
class _Placed:
    """A subscription with its trees."""

    subscription: Subscription
    base: str
    """The name of its attribute's first tree."""
    trees: dict[str, bool] = field(default_factory=dict)
    """The trees with its filter, and whether it is in force there."""
    is_told: bool = False
    """Whether the application was told that it is in force."""


@dataclass(eq=False)
class Subscriptions:
    """The subscriptions of the node's applications."""

    _outbox: ScoutOutbox
    _settings: ScoutSettings
    _own_key: Key
    _membership: TreeMembership
    _filters: Filters
    _on_in_force: Callable[[int], None]

    def __post_init__(self) -> None:
        self._placed: dict[int, _Placed] = {}
        self._unplaced: dict[int, Subscription] = {}
        """Subscriptions whose tree the node has no room for yet."""
        self._ending: dict[int, _Placed] = {}
        self._lagging: dict[str, dict[int, None]] = {}
        """By tree: subscriptions that are in force and not yet in all shards."""

    def attribute_for(self, predicate: Predicate) -> str:
        """The attribute that a subscription is kept under."""
        names = list(predicate.attributes)
        if self._settings.mapping is Mapping.SHARED:
            return min(names, key=lambda name: key_of(name.encode()))
        return min(names, key=lambda name: key_of(name.encode()) ^ self._own_key)

    def subscribe(self, subscription: Subscription) -> None:
        """Add a subscription; the application is told when it is in force."""
        base = tree_name(self.attribute_for(subscription.predicate))
        if self._membership.join(base) is None:
            self._unplaced[subscription.number] = subscription
            return
        placed = self._placed[subscription.number] = _Placed(subscription, base)
        self._place(placed)

    def unsubscribe(self, number: int) -> None:
        """End a subscription; the application is told when no node knows it any more."""
        unplaced = self._unplaced.pop(number, None)
        if unplaced is not None:
            self._outbox.deliver(Unsubscribed(unplaced))
            return
        placed = self._ending[number] = self._placed.pop(number)
        self._stop_lagging(placed)
        for name in list(placed.trees):
            self._filters.unsubscribe(name, number)

    def place_of(self, number: int) -> tuple[Predicate, str] | None:
        """The predicate of a subscription and the tree that it is kept in, if it is in one."""
        placed = self._placed.get(number)
        return None if placed is None else (placed.subscription.predicate, placed.base)

    def state_of(self, number: int) -> SubscriptionState:
        """The state of a subscription."""
        placed = self._placed.get(number)
        if placed is None:
            return SubscriptionState.PENDING  # The node has not joined the overlay yet.
        tables = self._filters.tables
        if placed.is_told and all(
            self._filters.is_in_force(name) and number not in tables[name].waiting
            for name in placed.trees
        ):
            return SubscriptionState.IN_FORCE
        last_us = tables[placed.base].in_force_us
        if last_us and self._outbox.now - last_us > 2 * self._settings.renew_us:
            return SubscriptionState.LAPSED
        return SubscriptionState.PENDING

    def on_epoch(self, attribute: str) -> None:
        """An attribute is split, or whole again."""
        for number in list(self._filters.tables[attribute].own):
            placed = self._placed[number]
            self._place(placed)
            if placed.is_told and not self._is_everywhere(placed):
                self._lagging.setdefault(placed.base, {})[number] = None
                self._filters.epochs.set_lagging(placed.base, is_lagging=True)
            else:
                self._stop_lagging(placed)

    def on_filter_in_force(self, number: int, name: str) -> None:
        """A change of a subscription's filter is in force in a tree."""
        ending = self._ending.get(number)
        if ending is not None:
            ending.trees.pop(name, None)
            if not ending.trees:
                del self._ending[number]
                self._outbox.deliver(Unsubscribed(ending.subscription))
            return
        placed = self._placed.get(number)
        if placed is None or name not in placed.trees:
            return  # It has left that shard.
        placed.trees[name] = True
        if not self._is_everywhere(placed):
            return
        self._stop_lagging(placed)
        if not placed.is_told:
            placed.is_told = True
            self._outbox.deliver(Subscribed(placed.subscription))
            self._on_in_force(number)
        elif name != placed.base:
            self._filters.update(placed.base)

    def tick(self) -> None:
        """Enter the trees that the node had no room for."""
        unplaced, self._unplaced = self._unplaced, {}
        for subscription in unplaced.values():
            self.subscribe(subscription)
        for placed in self._placed.values():
            if len(placed.trees) < len(self._wanted_trees(placed)):
                self._place(placed)

    # --- trees ---

    def _wanted_trees(self, placed: _Placed) -> tuple[str, ...]:
        epoch = self._filters.tables[placed.base].epoch
        return shard_names(placed.base) if is_split(epoch) else (placed.base,)

    def _is_everywhere(self, placed: _Placed) -> bool:
        return all(placed.trees.get(name) for name in self._wanted_trees(placed))

    def _place(self, placed: _Placed) -> None:
        """Have a subscription in all trees that carry its events, and in no others."""
        number = placed.subscription.number
        wanted = self._wanted_trees(placed)
        for name in [name for name in placed.trees if name not in wanted]:
            del placed.trees[name]
            self._filters.unsubscribe(name, number)
        for name in wanted:
            if name not in placed.trees and self._membership.join(name) is not None:
                placed.trees[name] = False
                self._filters.subscribe(name, number, placed.subscription.predicate)

    def _stop_lagging(self, placed: _Placed) -> None:
        lagging = self._lagging.get(placed.base)
        if lagging is not None:
            lagging.pop(placed.subscription.number, None)
            if not lagging:
                del self._lagging[placed.base]
                self._filters.epochs.set_lagging(placed.base, is_lagging=False)

    # --- invariants ---

    def check(self) -> None:
        """Assert the invariants: subscriptions are in the tables of their trees, and only there."""
        for number, placed in self._placed.items():
            assert number not in self._ending
            assert number not in self._unplaced
            assert placed.base in placed.trees
            for name in placed.trees:
                assert number in self._filters.tables[name].own
        for attribute, table in self._filters.tables.items():
            for number in table.own:
                assert attribute in self._placed[number].trees
        for numbers in self._lagging.values():
            assert numbers
            assert all(self._placed[number].is_told for number in numbers)
