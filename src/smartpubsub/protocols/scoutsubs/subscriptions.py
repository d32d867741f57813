"""The node's own subscriptions, each in every tree that carries its events.

These are the tree of one of its attributes and, while that attribute is split, all its shards. A
subscription is in force when it is in force in all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from smartpubsub.kademlia.keys import Key, key_of
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.pubsub import Subscribed, Subscription, SubscriptionState, Unsubscribed
from smartpubsub.protocols.scoutsubs.attestation import ScoutOutbox
from smartpubsub.protocols.scoutsubs.filters import Filters
from smartpubsub.protocols.scoutsubs.membership import TreeMembership
from smartpubsub.protocols.scoutsubs.settings import Mapping, ScoutSettings
from smartpubsub.protocols.scoutsubs.shard_names import is_split, shard_names, tree_name


class SubscriptionProgress(Enum):
    """How far a subscription has come."""

    UNPLACED = "unplaced"
    """The node has no room for another tree."""
    PENDING = "pending"
    """It is in its trees, and not in force in all of them."""
    IN_FORCE = "in force"
    LAGGING = "lagging"
    """In force, and not yet in all shards, because its attribute was split recently."""
    ENDING = "ending"
    """Some nodes may still know it."""
    ENDED = "ended"


OWN_SUBSCRIPTION_TRANSITIONS: dict[tuple[SubscriptionProgress, str], SubscriptionProgress] = {
    (SubscriptionProgress.UNPLACED, "tree entered"): SubscriptionProgress.PENDING,
    (SubscriptionProgress.UNPLACED, "unsubscribe"): SubscriptionProgress.ENDED,
    (SubscriptionProgress.PENDING, "in force in all trees"): SubscriptionProgress.IN_FORCE,
    (SubscriptionProgress.PENDING, "unsubscribe"): SubscriptionProgress.ENDING,
    (SubscriptionProgress.IN_FORCE, "attribute split"): SubscriptionProgress.LAGGING,
    (SubscriptionProgress.IN_FORCE, "unsubscribe"): SubscriptionProgress.ENDING,
    (SubscriptionProgress.LAGGING, "in force in all trees"): SubscriptionProgress.IN_FORCE,
    (SubscriptionProgress.LAGGING, "unsubscribe"): SubscriptionProgress.ENDING,
    (SubscriptionProgress.ENDING, "withdrawn from all trees"): SubscriptionProgress.ENDED,
}


@dataclass(slots=True, eq=False)
class OwnSubscription:
    """A subscription with its trees."""

    subscription: Subscription
    base: str
    """The name of its attribute's first tree."""
    trees: dict[str, bool] = field(default_factory=dict)
    """The trees with its filter, and whether it is in force there."""
    progress: SubscriptionProgress = SubscriptionProgress.UNPLACED

    def move(self, trigger: str) -> None:
        """Go on along the table of transitions."""
        self.progress = OWN_SUBSCRIPTION_TRANSITIONS[self.progress, trigger]

    @property
    def is_reported(self) -> bool:
        """Whether the application was told that it is in force."""
        return self.progress in (SubscriptionProgress.IN_FORCE, SubscriptionProgress.LAGGING)


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
        self._subscriptions: dict[int, OwnSubscription] = {}
        """In any state but ENDED, by their numbers."""
        self._lagging: dict[str, dict[int, None]] = {}
        """The numbers of lagging subscriptions, by the first tree of their attribute."""

    def attribute_for(self, predicate: Predicate) -> str:
        """The attribute that a subscription is kept under."""
        names = list(predicate.attributes)
        if self._settings.mapping is Mapping.SHARED:
            return min(names, key=lambda name: key_of(name.encode()))
        return min(names, key=lambda name: key_of(name.encode()) ^ self._own_key)

    def subscribe(self, subscription: Subscription) -> None:
        """Add a subscription; deliver `Subscribed` when it is in force."""
        base = tree_name(self.attribute_for(subscription.predicate))
        own = self._subscriptions[subscription.number] = OwnSubscription(subscription, base)
        self._enter(own)

    def _enter(self, own: OwnSubscription) -> None:
        if self._membership.join(own.base) is not None:
            own.move("tree entered")
            self._place(own)

    def unsubscribe(self, number: int) -> None:
        """End a subscription; deliver `Unsubscribed` when no node knows it any more."""
        own = self._subscriptions[number]
        own.move("unsubscribe")
        self._note_lagging(own)
        if own.progress is SubscriptionProgress.ENDED:
            self._end(own)
        for name in list(own.trees):
            self._filters.unsubscribe(name, number)

    def _end(self, own: OwnSubscription) -> None:
        del self._subscriptions[own.subscription.number]
        self._outbox.deliver(Unsubscribed(own.subscription))

    def _placed(self, number: int) -> OwnSubscription | None:
        """A subscription that is in its trees, and is not being withdrawn."""
        own = self._subscriptions.get(number)
        return own if own is not None and _is_placed(own) else None

    def place_of(self, number: int) -> tuple[Predicate, str] | None:
        """The predicate of a subscription and the tree that it is kept in, if it is in one."""
        own = self._placed(number)
        return None if own is None else (own.subscription.predicate, own.base)

    def state_of(self, number: int) -> SubscriptionState:
        """The state of a subscription."""
        own = self._placed(number)
        if own is None:
            return SubscriptionState.PENDING  # The node has not joined the overlay yet.
        tables = self._filters.tables
        if own.is_reported and all(
            self._filters.is_in_force(name) and number not in tables[name].waiting
            for name in own.trees
        ):
            return SubscriptionState.IN_FORCE
        last_us = tables[own.base].in_force_us
        if last_us and self._outbox.now - last_us > 2 * self._settings.renew_us:
            return SubscriptionState.LAPSED
        return SubscriptionState.PENDING

    def on_epoch(self, attribute: str) -> None:
        """Place subscriptions anew in an attribute that is split, or whole again."""
        for number in list(self._filters.tables[attribute].own):
            own = self._subscriptions[number]
            self._place(own)
            is_everywhere = self._is_everywhere(own)
            if own.progress is SubscriptionProgress.IN_FORCE and not is_everywhere:
                own.move("attribute split")
            elif own.progress is SubscriptionProgress.LAGGING and is_everywhere:
                own.move("in force in all trees")
            self._note_lagging(own)

    def on_filter_in_force(self, number: int, name: str) -> None:
        """Note that a change of a subscription's filter is in force in a tree."""
        own = self._subscriptions.get(number)
        if own is None or name not in own.trees:
            return  # It has left that shard.
        if own.progress is SubscriptionProgress.ENDING:
            del own.trees[name]
            if not own.trees:
                own.move("withdrawn from all trees")
                self._end(own)
            return
        own.trees[name] = True
        if not self._is_everywhere(own):
            return
        was_reported = own.is_reported
        if own.progress is not SubscriptionProgress.IN_FORCE:
            own.move("in force in all trees")
            self._note_lagging(own)
        if not was_reported:
            self._outbox.deliver(Subscribed(own.subscription))
            self._on_in_force(number)
        elif name != own.base:
            self._filters.update(own.base)

    def tick(self) -> None:
        """Enter the trees that the node had no room for."""
        for own in list(self._subscriptions.values()):
            if own.progress is SubscriptionProgress.UNPLACED:
                self._enter(own)
        for own in list(self._subscriptions.values()):
            if _is_placed(own) and len(own.trees) < len(self._wanted_trees(own)):
                self._place(own)

    # --- trees ---

    def _wanted_trees(self, own: OwnSubscription) -> tuple[str, ...]:
        epoch = self._filters.tables[own.base].epoch
        return shard_names(own.base) if is_split(epoch) else (own.base,)

    def _is_everywhere(self, own: OwnSubscription) -> bool:
        return all(own.trees.get(name) for name in self._wanted_trees(own))

    def _place(self, own: OwnSubscription) -> None:
        """Put a subscription into all trees that carry its events, and into no others."""
        number = own.subscription.number
        wanted = self._wanted_trees(own)
        for name in [name for name in own.trees if name not in wanted]:
            del own.trees[name]
            self._filters.unsubscribe(name, number)
        for name in wanted:
            if name not in own.trees and self._membership.join(name) is not None:
                own.trees[name] = False
                self._filters.subscribe(name, number, own.subscription.predicate)

    def _note_lagging(self, own: OwnSubscription) -> None:
        lagging = self._lagging.setdefault(own.base, {})
        if own.progress is SubscriptionProgress.LAGGING:
            lagging[own.subscription.number] = None
        else:
            lagging.pop(own.subscription.number, None)
        if not lagging:
            del self._lagging[own.base]
        self._filters.epochs.set_lagging(own.base, is_lagging=bool(lagging))

    # --- invariants ---

    def check(self) -> None:
        """Assert the invariants: subscriptions are in the tables of their trees, and only there."""
        for number, own in self._subscriptions.items():
            assert own.progress is not SubscriptionProgress.ENDED
            is_lagging = number in self._lagging.get(own.base, {})
            assert is_lagging == (own.progress is SubscriptionProgress.LAGGING)
            assert bool(own.trees) != (own.progress is SubscriptionProgress.UNPLACED)
            if _is_placed(own):
                assert own.base in own.trees
                for name in own.trees:
                    assert number in self._filters.tables[name].own
        for attribute, table in self._filters.tables.items():
            for number in table.own:
                own = self._subscriptions[number]
                assert _is_placed(own)
                assert attribute in own.trees
        assert all(self._lagging.values())


def _is_placed(own: OwnSubscription) -> bool:
    return own.is_reported or own.progress is SubscriptionProgress.PENDING
