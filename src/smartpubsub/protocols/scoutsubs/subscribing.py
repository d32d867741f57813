"""A node's own subscriptions, each in all the trees that bring its events.

That is the tree of one of its attributes, and while that attribute is split, all its branches. A
subscription is in force when it is so in all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from smartpubsub.kademlia.keys import key_of
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.pubsub import Subscribed, Subscription, SubscriptionState, Unsubscribed
from smartpubsub.protocols.scoutsubs.branches import is_split, name_of, names_of
from smartpubsub.protocols.scoutsubs.office import Office
from smartpubsub.protocols.scoutsubs.settings import Mapping
from smartpubsub.protocols.scoutsubs.tree import Tree


@dataclass(slots=True)
class _Placed:
    """A subscription that has a place."""

    subscription: Subscription
    base: str
    """The name of its attribute's tree."""
    trees: dict[str, bool] = field(default_factory=dict)
    """Where its filter is kept, and whether it is in force there."""
    is_told: bool = False
    """Whether the application knows that it is in force."""


class Subscribing:
    """What the applications of one node want."""

    def __init__(self, office: Office) -> None:
        self._office = office
        self._placed: dict[int, _Placed] = {}
        self._unplaced: dict[int, Subscription] = {}
        """Those for which there is no room yet."""
        self._ending: dict[int, _Placed] = {}
        self._lagging: dict[str, dict[int, None]] = {}
        """By tree: what is in force and not yet in all branches."""

    def attribute_for(self, predicate: Predicate) -> str:
        """The attribute that a subscription is kept under."""
        names = list(predicate.attributes)
        if self._office.settings.mapping is Mapping.SHARED:
            return min(names, key=lambda name: key_of(name.encode()))
        own = self._office.own.key
        return min(names, key=lambda name: key_of(name.encode()) ^ own)

    def subscribe(self, subscription: Subscription) -> None:
        """Take a subscription of the node's application."""
        base = name_of(self.attribute_for(subscription.predicate))
        if self._office.tree(base) is None:
            self._unplaced[subscription.number] = subscription
            return
        placed = self._placed[subscription.number] = _Placed(subscription, base)
        self._place(placed)

    def unsubscribe(self, number: int) -> None:
        """End a subscription of the node's application."""
        self._office.recalling.forget(number)
        unplaced = self._unplaced.pop(number, None)
        if unplaced is not None:
            self._office.deliver(Unsubscribed(unplaced))
            return
        placed = self._ending[number] = self._placed.pop(number)
        self._no_longer_lags(placed)
        for name in list(placed.trees):
            self._withdraw(name, number)

    def wanted(self, number: int) -> tuple[Predicate, str] | None:
        """What a subscription wants and the tree that it is kept in, if it has a place."""
        placed = self._placed.get(number)
        return None if placed is None else (placed.subscription.predicate, placed.base)

    def state_of(self, number: int) -> SubscriptionState:
        """How far a subscription has come."""
        office = self._office
        placed = self._placed.get(number)
        if placed is None:
            return SubscriptionState.PENDING  # The node has no place in the overlay yet.
        trees = [office.trees[name] for name in placed.trees]
        if placed.is_told and all(t.is_in_force and number not in t.waiting for t in trees):
            return SubscriptionState.IN_FORCE
        last_us = office.trees[placed.base].in_force_us
        if last_us and office.now - last_us > 2 * office.settings.renew_us:
            return SubscriptionState.LAPSED
        return SubscriptionState.PENDING

    def lags(self, tree: Tree) -> bool:
        """Whether something that is in force is not yet in all branches."""
        return tree.attribute in self._lagging

    def on_stage(self, tree: Tree) -> None:
        """An attribute is split, or whole again."""
        for number in list(tree.own):
            placed = self._placed[number]
            self._place(placed)
            if placed.is_told and not self._is_everywhere(placed):
                self._lagging.setdefault(placed.base, {})[number] = None
            else:
                self._no_longer_lags(placed)

    def on_in_force(self, number: int, name: str) -> None:
        """A change of the node's own is in force in a tree."""
        office = self._office
        ending = self._ending.get(number)
        if ending is not None:
            ending.trees.pop(name, None)
            if not ending.trees:
                del self._ending[number]
                office.deliver(Unsubscribed(ending.subscription))
            return
        placed = self._placed.get(number)
        if placed is None or name not in placed.trees:
            return  # It has left that branch.
        placed.trees[name] = True
        if not self._is_everywhere(placed):
            return
        self._no_longer_lags(placed)
        if not placed.is_told:
            placed.is_told = True
            office.deliver(Subscribed(placed.subscription))
            office.recalling.on_in_force(number)
        elif name != placed.base:
            office.announcing.update(office.trees[placed.base])

    def tick(self) -> None:
        """Once in a while: see whether there is room for what had none."""
        unplaced, self._unplaced = self._unplaced, {}
        for subscription in unplaced.values():
            self.subscribe(subscription)
        for placed in self._placed.values():
            if len(placed.trees) < len(self._wanted_trees(placed)):
                self._place(placed)

    # --- places ---

    def _wanted_trees(self, placed: _Placed) -> tuple[str, ...]:
        stage = self._office.trees[placed.base].stage
        return names_of(placed.base) if is_split(stage) else (placed.base,)

    def _is_everywhere(self, placed: _Placed) -> bool:
        return all(placed.trees.get(name) for name in self._wanted_trees(placed))

    def _place(self, placed: _Placed) -> None:
        """Have a subscription in all trees that bring its events, and in no others."""
        office, number = self._office, placed.subscription.number
        wanted = self._wanted_trees(placed)
        for name in [name for name in placed.trees if name not in wanted]:
            del placed.trees[name]
            self._withdraw(name, number)
        for name in wanted:
            tree = None if name in placed.trees else office.tree(name)
            if tree is not None:
                placed.trees[name] = False
                tree.subscribe(number, placed.subscription.predicate)
                office.copying.touch(tree, office.own.peer)
                office.announcing.on_own_change(tree, number)

    def _withdraw(self, name: str, number: int) -> None:
        office = self._office
        tree = office.trees[name]
        tree.unsubscribe(number)
        office.copying.touch(tree, office.own.peer)
        office.announcing.on_own_change(tree, number)

    def _no_longer_lags(self, placed: _Placed) -> None:
        lagging = self._lagging.get(placed.base)
        if lagging is not None:
            lagging.pop(placed.subscription.number, None)
            if not lagging:
                del self._lagging[placed.base]
