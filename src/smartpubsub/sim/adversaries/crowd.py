"""The adversaries of one run: their nodes, cores and calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property, partial

from smartpubsub.kademlia.core import Kademlia
from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.settings import SECOND
from smartpubsub.predicates import Interval, Predicate
from smartpubsub.protocols.publication import Signing
from smartpubsub.protocols.pubsub import PubSub
from smartpubsub.seam import Peer
from smartpubsub.sim.adversaries.kinds import (
    PUBLISHING,
    SURROUND,
    SYBIL,
    Adversary,
    chosen_nodes,
)
from smartpubsub.sim.adversaries.minting import minted
from smartpubsub.sim.adversaries.node import HostileNode
from smartpubsub.sim.kernel.faults import Churn, Fault
from smartpubsub.sim.kernel.population import address, peer_id
from smartpubsub.sim.kernel.streams import stream
from smartpubsub.workloads.actions import Action, CreateTopic, Publish, Subscribe, Workload

FLAP_UP_S = 20.0
FLOOD_TIMES = 100
"""A flooding node publishes at so many times the rate of a publisher of the workload."""
FLOOD_EVENTS_MAX = 20_000
"""The events of all flooding nodes together."""
INVENTED_COUNT = 2_000
_INVENTED_FIRST = 10_000_000
"""The number of invented peers, some of which are close to any key."""


class Crowd:
    """The adversaries of a run."""

    def __init__(
        self,
        adversaries: Sequence[Adversary],
        workload: Workload,
        honest: Sequence[Contact],
        seed: int,
        peer_of: Callable[[int, int], Peer] = peer_id,
    ) -> None:
        """Choose the adversaries; `peer_of` makes the peer id of a seed and a number."""
        self._workload = workload
        self._seed = seed
        nodes = len(honest)
        self.by_node = chosen_nodes(adversaries, _candidates(workload, nodes), nodes, seed)
        own_peer_of = partial(peer_of, seed)
        peers = [contact.peer for contact in honest]
        joining: dict[int, Adversary] = {}
        for adversary in adversaries:
            joining |= dict.fromkeys(self._minted(adversary, peers, own_peer_of), adversary)
        joining = dict(sorted(joining.items(), key=lambda item: item[1].value))
        self.minted = tuple(joining)
        """The numbers from which minted peer ids are made."""
        self.sybils = tuple(map(own_peer_of, self.minted))
        """The peer ids of nodes that join beside those of the workload, in the order of joining."""
        self.late_us = {
            node: round(adversary.value * SECOND)
            for node, adversary in enumerate(joining.values(), nodes)
            if adversary.value
        }
        """By sybil that joins during the workload: how long after the begin of the workload."""
        contacts = [*honest, *(_contact(nodes + n, peer) for n, peer in enumerate(self.sybils))]
        self.by_node |= dict(enumerate(joining.values(), nodes))
        publishing = [action.node for action in self._published]
        self._censored = contacts[publishing[0]].peer if publishing else b""
        """The publisher whose events censoring nodes withhold."""
        self._by_peer = {contacts[node].peer: one for node, one in self.by_node.items()}
        self._accomplices = [contacts[node] for node in self.by_node]
        self._has_begun = False

    def _minted(
        self, adversary: Adversary, honest: Sequence[Peer], peer_of: Callable[[int], Peer]
    ) -> tuple[int, ...]:
        names: list[bytes] = []
        if adversary.kind == SYBIL:
            names = [name.encode() for name in _attributes(self._workload)]
        elif adversary.kind == SURROUND:
            names = [honest[self._surrounded()]]
        return minted(names, int(adversary.amount), honest, peer_of)

    def _surrounded(self) -> int:
        """The subscriber that adversaries surround."""
        subscribing = (a.node for a in self._workload.actions() if isinstance(a, Subscribe))
        return next(node for node in subscribing if node not in self.by_node)

    def begin(self) -> None:
        """Begin with the workload: the overlay is complete."""
        self._has_begun = True

    @cached_property
    def _invented(self) -> list[Contact]:
        """The contacts of invented peers."""
        numbers = range(_INVENTED_FIRST, _INVENTED_FIRST + INVENTED_COUNT)
        return [_contact(number, peer_id(self._seed, number)) for number in numbers]

    def _named(self, liked: Sequence[Contact]) -> Sequence[Contact]:
        """The peers that an adversary names in lookups; none while the overlay forms.

        A node whose only bootstrap peer lies would depend on that peer for ever.
        """
        return liked if self._has_begun else ()

    def __contains__(self, node: object) -> bool:
        return node in self.by_node

    @property
    def peers(self) -> Collection[Peer]:
        """The peer ids of all adversaries."""
        return self._by_peer.keys()

    def counts(self, among: Iterable[Peer] | None = None) -> dict[str, int]:
        """The number of nodes of each kind, of all adversaries or of those among some peers."""
        peers = self._by_peer if among is None else among
        return dict(Counter(self._by_peer[peer].kind for peer in peers if peer in self._by_peer))

    def of_peer(self, peer: Peer) -> Adversary | None:
        """The adversary that a peer is; None if it is honest."""
        return self._by_peer.get(peer)

    def make(
        self, adversary: Adversary, kademlia: Kademlia, pubsub: PubSub, signing: Signing
    ) -> HostileNode:
        """The core of an adversary."""
        invents = adversary.kind == "route-poison"
        named = partial(self._named, self._invented if invents else self._accomplices)
        return HostileNode(
            kademlia, pubsub, signing, adversary, named, self._censored, lambda: self._has_begun
        )

    # --- faults and calls of their own ---

    def faults(self, began_us: int) -> Iterator[Fault]:
        """The crashes and restarts of adversaries that come and go."""
        for node, adversary in self.by_node.items():
            if adversary.kind == "flap":
                yield Churn(
                    nodes=(node,),
                    at_us=began_us,
                    until_us=began_us + self._length_us,
                    up_us_mean=round(FLAP_UP_S * SECOND),
                    down_us_mean=round(adversary.value * SECOND),
                    seed=self._seed,
                )

    def calls(self) -> Iterator[Action]:
        """The calls of adversaries beside the workload, from its begin on."""
        for node, adversary in self.by_node.items():
            rng = stream(self._seed, "adversary", node)
            if adversary.kind == "broad":
                names = _attributes(self._workload)
                for name in names:
                    yield Subscribe(rng.randrange(SECOND), node, Predicate.of({name: True}))
                for number in range(round(adversary.value)):
                    narrow = Interval(float(number), float(number))
                    predicate = Predicate.of({rng.choice(names): narrow})
                    yield Subscribe(rng.randrange(SECOND), node, predicate)
            elif adversary.kind == "flood":
                yield from self._events(node, adversary.value or FLOOD_TIMES * self._usual_per_s)
            elif adversary.kind in PUBLISHING:
                yield from self._events(node, self._usual_per_s)

    @cached_property
    def _published(self) -> list[Publish]:
        return [a for a in self._workload.actions() if isinstance(a, Publish)]

    @property
    def _usual_per_s(self) -> float:
        """How many events a publisher of the workload publishes in a second."""
        publishers = len({event.node: None for event in self._published})
        return len(self._published) / max(1, publishers) / (self._length_us / SECOND)

    def _events(self, node: int, per_s: float) -> Iterator[Action]:
        """Events of an adversary, like those of the workload."""
        publishing = sum(one.kind in ("flood", *PUBLISHING) for one in self.by_node.values())
        every_us = round(SECOND / per_s)
        count = min(self._length_us // every_us, FLOOD_EVENTS_MAX // publishing)
        rng = stream(self._seed, "adversary", node)
        for number in range(count):
            event = rng.choice(self._published)
            yield Publish(number * every_us, node, event.predicate, event.payload)

    @property
    def _length_us(self) -> int:
        """The least duration of the workload."""
        return SECOND + sum(phase[-1].at_us for phase in self._workload.phases if phase)


def _contact(number: int, peer: Peer) -> Contact:
    return Contact.of(peer, (address(number),))


def _candidates(workload: Workload, nodes: int) -> list[int]:
    """The nodes that may be adversaries: those that publish nothing, if there are any.

    Publishers stay honest, so that every event counts.
    """
    kinds = (Publish, CreateTopic)
    publishing = {a.node: None for a in workload.actions() if isinstance(a, kinds)}
    others = [node for node in range(nodes) if node not in publishing]
    return others or list(range(nodes))


def _attributes(workload: Workload) -> list[str]:
    """The attributes of all subscriptions and events, in the order of their first use."""
    using = (a for a in workload.actions() if isinstance(a, Publish | Subscribe))
    return list(dict.fromkeys(name for action in using for name in action.predicate.attributes))
