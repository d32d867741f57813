"""Where a predicate is kept in a settled network, and which nodes get an event of it.

It sends no message: it reads the state of all nodes, and follows their own rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from smartpubsub.kademlia.keys import Contact, key_of
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.scoutsubs.membership import Role
from smartpubsub.protocols.scoutsubs.messages import ChildCopy
from smartpubsub.protocols.scoutsubs.shard_names import tree_name
from smartpubsub.sim.experiments.experiment import Experiment
from smartpubsub.sim.experiments.inside import scoutsubs_of
from smartpubsub.workloads.actions import Subscribe, Unsubscribe, Workload


@dataclass(frozen=True, kw_only=True)
class Attribute:
    """One attribute of the predicate, and the node that it leads to."""

    name: str
    key: str
    rendezvous: str
    children: int
    """The number of nodes from which the rendezvous has filters."""
    filters: int
    """The number of filters that it keeps."""


@dataclass(frozen=True, kw_only=True)
class Below:
    """A child, as its parent knows it."""

    node: str
    filters: tuple[str, ...]
    shortcut: str | None
    """The node that events go to directly, past the child."""
    backups: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Stop:
    """A node on the way up to the rendezvous, and what it keeps in the attribute's tree."""

    node: str
    role: str | None
    """None if the node is not in the tree."""
    own: tuple[str, ...]
    """The filters of its own subscriptions."""
    children: tuple[Below, ...]
    shows: tuple[str, ...]
    """The summary that it announces to its parent."""
    backups: tuple[str, ...]
    """The nodes that keep replicas of its children."""
    offers: str | None
    """The shortcut past itself that it offers to its parent."""


@dataclass(frozen=True, kw_only=True)
class Journey:
    """An event's path by one of its attributes."""

    attribute: str
    up: tuple[str, ...]
    """From the publisher to the rendezvous."""
    receivers: tuple[str, ...]
    messages_down: int
    shortcuts_taken: int


@dataclass(frozen=True, kw_only=True)
class AttributeTree:
    """The whole tree of the attribute that the predicate is kept under."""

    attribute: str
    rendezvous: str
    parents: dict[str, str]
    """From each child to its parent."""
    subscribers: tuple[str, ...]
    shortcuts: tuple[tuple[str, str], ...]
    """Maps a node with the offer of a shortcut to the node that it leads to."""


@dataclass(frozen=True, kw_only=True)
class Route:
    """The whole route, with the names of nodes."""

    predicate: str
    attributes: tuple[Attribute, ...]
    kept_under: str
    start: str
    stops: tuple[Stop, ...]
    journeys: tuple[Journey, ...]
    wanted_by: tuple[str, ...]
    """The nodes whose subscriptions such an event matches."""
    tree: AttributeTree

    @property
    def received_by(self) -> tuple[str, ...]:
        """The nodes that would get such an event, by any attribute."""
        return tuple(dict.fromkeys(name for way in self.journeys for name in way.receivers))

    def document(self) -> dict[str, object]:
        """The route as a JSON document."""
        return {**asdict(self), "received_by": self.received_by}


def only_subscriptions(workload: Workload) -> Workload:
    """The same nodes, with only the subscriptions that the workload leaves in the end."""
    held: dict[tuple[int, Predicate], int] = {}
    for action in workload.actions():
        if isinstance(action, Subscribe | Unsubscribe):
            change = 1 if isinstance(action, Subscribe) else -1
            key = (action.node, action.predicate)
            held[key] = held.get(key, 0) + change
    phase = tuple(
        Subscribe(0, node, predicate)
        for (node, predicate), count in held.items()
        for _ in range(count)
    )
    return Workload(names=workload.names, phases=(phase,) if phase else ())


def route(experiment: Experiment, predicate: Predicate, start: int | None = None) -> Route:
    """The route of a predicate in an experiment that is over, from `start` or some subscriber."""
    return _NetworkView(experiment).route(predicate, start)


class _NetworkView:
    """The state of all nodes of an experiment."""

    def __init__(self, experiment: Experiment) -> None:
        self._experiment = experiment
        hosts = experiment.world.hosts
        self._names = _names(experiment.workload.names, len(hosts))
        self._numbers = {host.peer: host.number for host in hosts}
        self._keys = [key_of(host.peer) for host in hosts]
        self._nodes = [scoutsubs_of(experiment, host.number) for host in hosts]

    def route(self, predicate: Predicate, start: int | None) -> Route:
        attribute = self._kept_under(predicate, start or 0)
        if start is None:
            start = self._some_subscriber(attribute)
        return Route(
            predicate=str(predicate),
            attributes=tuple(map(self._attribute, predicate.attributes)),
            kept_under=attribute,
            start=self.name(start),
            stops=tuple(self._stop(node, attribute) for node in self._way_up(start, attribute)),
            journeys=tuple(self._journey(start, name, predicate) for name in predicate.attributes),
            wanted_by=self._wanted_by(predicate),
            tree=self._tree(attribute),
        )

    # --- names ---

    def name(self, node: int) -> str:
        """The name of a node."""
        return self._names[node]

    def _number(self, contact: Contact) -> int:
        return self._numbers[contact.peer]

    def _name_of(self, contact: Contact | None) -> str | None:
        return self.name(self._number(contact)) if contact else None

    def _names_of(self, contacts: Iterable[Contact]) -> tuple[str, ...]:
        return tuple(self.name(self._number(contact)) for contact in contacts)

    # --- the rendezvous ---

    def _kept_under(self, predicate: Predicate, node: int) -> str:
        return tree_name(self._nodes[node].attribute_for(predicate))

    def _some_subscriber(self, attribute: str) -> int:
        """The node in the tree with the longest way to the rendezvous."""
        subscribers = self._subscribers(attribute)
        return max(subscribers, key=lambda node: len(self._way_up(node, attribute)), default=0)

    def _subscribers(self, attribute: str) -> list[int]:
        trees = [(node, scouts.tree(attribute)) for node, scouts in enumerate(self._nodes)]
        return [node for node, tree in trees if tree is not None and tree.own]

    def _rendezvous(self, attribute: str) -> int:
        key = key_of(attribute.encode())
        return min(range(len(self._keys)), key=lambda node: self._keys[node] ^ key)

    def _attribute(self, name: str) -> Attribute:
        rendezvous = self._rendezvous(name)
        tree = self._nodes[rendezvous].tree(name)
        return Attribute(
            name=name,
            key=f"{key_of(name.encode()):064x}",
            rendezvous=self.name(rendezvous),
            children=len(tree.live_children) if tree else 0,
            filters=len(tree.members) if tree else 0,
        )

    # --- up ---

    def _way_up(self, start: int, attribute: str) -> list[int]:
        way = [start]
        while (above := self._above(way[-1], attribute)) is not None and above not in way:
            way.append(above)
        rendezvous = self._rendezvous(attribute)
        if way[-1] != rendezvous:
            way.append(rendezvous)  # A node that knows no closer one looks it up.
        return way

    def _above(self, node: int, attribute: str) -> int | None:
        hop = self._nodes[node].next_hop(attribute)
        return self._number(hop) if hop else None

    def _stop(self, node: int, attribute: str) -> Stop:
        tree = self._nodes[node].tree(attribute)
        if tree is None:
            return Stop(
                node=self.name(node),
                role=None,
                own=(),
                children=(),
                shows=(),
                backups=(),
                offers=None,
            )
        return Stop(
            node=self.name(node),
            role=tree.role.value,
            own=_texts(tree.own.values()),
            children=tuple(map(self._below, tree.live_children)),
            shows=_texts(tree.summary),
            backups=self._names_of(tree.replicas),
            offers=self._name_of(tree.shortcut),
        )

    def _below(self, child: ChildCopy) -> Below:
        return Below(
            node=self.name(self._number(child.contact)),
            filters=_texts(child.filters),
            shortcut=self._name_of(child.shortcut),
            backups=self._names_of(child.backups),
        )

    # --- down ---

    def _journey(self, start: int, attribute: str, event: Predicate) -> Journey:
        up = self._way_up(start, attribute)
        receivers: list[int] = []
        sent_to = [up[-1]]
        shortcuts = 0
        for node in sent_to:  # The list grows meanwhile.
            tree = self._nodes[node].tree(attribute)
            if tree is None:
                continue
            own, children = self._nodes[node].interested(attribute, event)
            if own:
                receivers.append(node)
            for child in (tree.children[peer] for peer in children):
                shortcuts += child.shortcut is not None
                sent_to.append(self._number(child.shortcut or child.contact))
        return Journey(
            attribute=attribute,
            up=self._named(up),
            receivers=self._named(receivers),
            messages_down=len(sent_to) - 1,
            shortcuts_taken=shortcuts,
        )

    def _named(self, nodes: Sequence[int]) -> tuple[str, ...]:
        return tuple(map(self.name, nodes))

    def _wanted_by(self, event: Predicate) -> tuple[str, ...]:
        return self._named(
            [
                host.number
                for host in self._experiment.world.hosts
                if any(
                    held.predicate.matches(event)
                    for held in self._experiment.core(host.number).subscriptions.values()
                )
            ]
        )

    # --- the whole tree ---

    def _tree(self, attribute: str) -> AttributeTree:
        trees = [(node, scouts.tree(attribute)) for node, scouts in enumerate(self._nodes)]
        shortcuts = [
            (self.name(node), self.name(self._number(child.shortcut)))
            for node, tree in trees
            for child in (tree.live_children if tree else ())
            if child.shortcut
        ]
        parents = {
            self.name(node): self.name(self._number(tree.parent))
            for node, tree in trees
            if tree and tree.parent and tree.role is Role.CHILD and tree.members
        }
        return AttributeTree(
            attribute=attribute,
            rendezvous=self.name(self._rendezvous(attribute)),
            parents=parents,
            subscribers=self._named(self._subscribers(attribute)),
            shortcuts=tuple(shortcuts),
        )


def _names(given: Sequence[str], count: int) -> list[str]:
    """Names for all nodes; nodes without a name in the workload have their numbers."""
    names = list(given)
    for number in range(len(given), count):
        name = str(number)
        while name in given:
            name = f"#{name}"
        names.append(name)
    return names


def _texts(predicates: Iterable[Predicate]) -> tuple[str, ...]:
    return tuple(sorted(map(str, predicates)))
