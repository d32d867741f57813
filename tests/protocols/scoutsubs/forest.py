"""A simulated network of ScoutSubs nodes, numbered by their distance from an attribute's key."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from smartpubsub.kademlia import messages
from smartpubsub.kademlia.core import Kademlia
from smartpubsub.kademlia.keys import Contact, key_of
from smartpubsub.kademlia.messages import Message
from smartpubsub.kademlia.queries import Found, Joined
from smartpubsub.kademlia.settings import MINUTE, SECOND, Settings
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.node import NodeCore
from smartpubsub.protocols.publication import EventId, Publication
from smartpubsub.protocols.pubsub import (
    Confirmed,
    Delivery,
    Published,
    Refused,
    Subscribed,
    Unsubscribed,
)
from smartpubsub.protocols.scoutsubs.attestation import Attestation
from smartpubsub.protocols.scoutsubs.inspection import TreeView
from smartpubsub.protocols.scoutsubs.membership import Role
from smartpubsub.protocols.scoutsubs.messages import Announce, Bundle, Part, wire_bytes
from smartpubsub.protocols.scoutsubs.protocol import ScoutSubs
from smartpubsub.protocols.scoutsubs.settings import ScoutSettings
from smartpubsub.seam import Deliver, Effect, Event, Received, Send
from smartpubsub.sim.kernel.network import DROP, NetworkOptions
from smartpubsub.sim.kernel.signing import StandInSigning
from smartpubsub.sim.kernel.streams import stream
from smartpubsub.sim.kernel.world import Host, World

MS = 1_000
HOP_US = 10 * MS
"""How long a message takes unless a test says otherwise."""

Knows = Callable[[int], Iterable[int]]
"""Whom a node knows when it starts."""


class FixedKademlia(Kademlia):
    """Knows whom it was told to know and learns nothing, so that paths are what a test says.

    Only a publisher finds the nodes closest to a key, whom it does not know for that.
    """

    everyone: tuple[Contact, ...] = ()

    def handle(self, event: Event, now: int) -> list[Effect]:  # noqa: ARG002
        return []

    def knows(self, contact: Contact) -> bool:  # noqa: ARG002
        return True

    def find_closest(
        self,
        name: bytes,
        now: int,
        count: int = 0,
        *,
        paths: int = 0,  # noqa: ARG002
        waits_for_slow: bool = True,
    ) -> tuple[int, list[Effect]]:
        if waits_for_slow:
            return super().find_closest(name, now, count)
        number = self._take_number()
        closest = sorted(self.everyone, key=lambda contact: contact.key ^ key_of(name))
        return number, [Deliver(Found(number, name, tuple(closest[:count]), 1))]

    def is_closest(self, name: bytes) -> bool | None:
        known = self.closest_local(name, 1)
        key = key_of(name)
        return not known or self.own.key ^ key < known[0].key ^ key


class CheckedScoutSubs(ScoutSubs):
    """Checks all invariants after every input."""

    def handle(self, event: Event, now: int) -> list[Effect]:
        effects = super().handle(event, now)
        self.check()
        return effects


class Indication(NamedTuple):
    """Something that an application was told."""

    at_us: int
    node: int
    item: object


class Said(NamedTuple):
    """Something that a node was told by another."""

    at_us: int
    receiver: int
    part: Part


@lru_cache(maxsize=16)
def contacts_around(attribute: str, count: int, seed: int) -> tuple[Contact, ...]:
    """Contacts, those closest to an attribute's key first."""
    key = key_of(attribute.encode())
    anyhow = [
        Contact.of(b"\x00\x24\x08\x01\x12\x20" + b"%08d%024d" % (seed, n), (b"address %d" % n,))
        for n in range(count)
    ]
    return tuple(sorted(anyhow, key=lambda contact: contact.key ^ key))


class Forest:
    """Nodes, of which 0 is the closest to the key of an attribute, 1 the second, and so on."""

    def __init__(
        self,
        count: int,
        settings: ScoutSettings | None = None,
        *,
        attribute: str = "surf",
        seed: int = 1,
        k: int = 20,
        network: NetworkOptions | None = None,
        knows: Knows | None = None,
        is_fixed: bool = False,
        absent: Sequence[int] = (),
        settings_of: Mapping[int, ScoutSettings] | None = None,
    ) -> None:
        """Nodes that know all others at first, or those that `knows` names.

        With `is_fixed` they learn of no others. Absent nodes are down until they join.
        """
        self.seed = seed
        self.settings = settings or ScoutSettings()
        self._settings_of = settings_of or {}
        self.contacts = contacts_around(attribute, count, seed)
        self.told: list[Indication] = []
        self.said: list[Said] = []
        self._kademlia = Settings(k=k)
        self._make_kademlia = FixedKademlia if is_fixed else Kademlia
        self._numbers = {contact.peer: n for n, contact in enumerate(self.contacts)}
        self.world = World(
            network or NetworkOptions(latency_us=HOP_US),
            seed,
            {Message: messages.wire_bytes, Bundle: wire_bytes},
            on_deliver=self._on_deliver,
            on_receive=self._on_receive,
        )
        for contact in self.contacts:
            self.world.add(contact.peer, self._maker(contact), contact.addresses)
        for number in absent:
            self.world.crash(self.host(number))
        for number in self.numbers:
            if number not in absent:
                others = knows(number) if knows else self.numbers
                known = [self.contacts[n] for n in others if n not in (number, *absent)]
                self.do(number, self.core(number).settle(known, self.clock(number)))

    def _maker(self, own: Contact) -> Callable[[int], NodeCore]:
        def make(incarnation: int) -> NodeCore:
            rng = stream(self.seed, "kademlia", own.peer.hex(), incarnation)
            kademlia = self._make_kademlia(own, self._kademlia, rng)
            if isinstance(kademlia, FixedKademlia):
                kademlia.everyone = self.contacts
            signing = StandInSigning(own.peer)
            rng = stream(self.seed, "scoutsubs", own.peer.hex(), incarnation)
            settings = self._settings_of.get(self.number(own.peer), self.settings)
            scouts = CheckedScoutSubs(settings, kademlia, signing, rng)
            return NodeCore(kademlia, scouts, signing)

        return make

    # --- time ---

    def run(self, duration: int) -> None:
        self.world.run(self.world.now + duration)

    def run_until(self, condition: Callable[[], bool], within: int = MINUTE) -> None:
        """Go on until something is so, which has to be before long."""
        there = self.world.run_while(lambda: not condition(), self.world.now + within)
        assert there, f"not within {within / SECOND} s"

    # --- nodes ---

    @property
    def numbers(self) -> range:
        return range(len(self.world.hosts))

    def number(self, peer: bytes) -> int:
        return self._numbers[peer]

    def host(self, number: int) -> Host:
        return self.world.hosts[number]

    def clock(self, number: int) -> int:
        return self.host(number).clock(self.world.now)

    def core(self, number: int) -> NodeCore:
        core = self.host(number).core
        assert isinstance(core, NodeCore)
        return core

    def scouts(self, number: int) -> ScoutSubs:
        pubsub = self.core(number).pubsub
        assert isinstance(pubsub, ScoutSubs)
        return pubsub

    def do(self, number: int, effects: Iterable[object]) -> None:
        self.world.carry_out(self.host(number), effects)  # type: ignore[arg-type]

    def send(self, sender: int, receiver: int, *parts: Part) -> None:
        """Send messages of a node, signed by it, over the network."""
        self.do(sender, [Send(self.contacts[receiver].peer, self._bundle(sender, parts))])

    def receive(self, sender: int, receiver: int, *parts: Part) -> None:
        """Hand messages to a node at once, signed by their sender."""
        contact, bundle = self.contacts[sender], self._bundle(sender, parts)
        received = Received(contact.peer, bundle, contact.addresses)
        self.do(receiver, self.scouts(receiver).handle(received, self.clock(receiver)))

    def poke(self, number: int, call: Callable[[ScoutSubs], object]) -> None:
        """Call a component of a node directly, for what no message or timer can bring about."""
        scouts = self.scouts(number)
        scouts._outbox.now = self.clock(number)
        call(scouts)
        self.do(number, scouts._outbox.take())

    def move(self, number: int, parent: int, *, is_retry: bool = False) -> None:
        """Have a node change its parent."""
        contact = self.contacts[parent]

        def move(scouts: ScoutSubs) -> None:
            membership = scouts._membership
            membership._set_parent(membership.trees["surf"], contact, is_retry=is_retry)

        self.poke(number, move)

    def _bundle(self, sender: int, parts: Iterable[Part]) -> Bundle:
        peer = self.contacts[sender].peer
        queue = [*parts]
        Attestation(StandInSigning(peer)).sign([queue])
        return Bundle(tuple(queue))

    def crash(self, *numbers: int) -> None:
        for number in numbers:
            self.world.crash(self.host(number))

    def restart(self, *numbers: int) -> None:
        for number in numbers:
            self.world.restart(self.host(number))

    def join(self, number: int, by_way_of: int) -> None:
        """Have a node join that was absent."""
        self.restart(number)
        bootstrap = [self.contacts[by_way_of]]
        self.do(number, self.core(number).join(bootstrap, self.clock(number)))
        self.run_until(lambda: any(isinstance(i, Joined) for i in self.items(number)))

    def lose(self, share: float) -> None:
        """From now on lose a share of all messages."""
        rng = stream(self.seed, "loss")
        self.world.network.rules.append(lambda *_: DROP if rng.random() < share else None)

    def cut(self, sender: int, receiver: int, duration: int) -> None:
        """For a while nothing gets from one node to another; it may get back."""
        until = self.world.now + duration
        self.world.network.rules.append(
            lambda now, *link: DROP if now < until and link == (sender, receiver) else None
        )

    def cut_off(self, number: int, duration: int) -> None:
        """For a while nothing gets to a node or from it."""
        until = self.world.now + duration
        self.world.network.rules.append(
            lambda now, *link: DROP if now < until and number in link else None
        )

    # --- what applications want ---

    def subscribe(self, number: int, text: str) -> int:
        subscription, effects = self.core(number).subscribe(
            Predicate.parse(text), self.clock(number)
        )
        self.do(number, effects)
        return subscription

    def subscribed(self, number: int, text: str) -> int:
        """Subscribe, and wait until that is in force."""
        subscription = self.subscribe(number, text)
        self.run_until(lambda: self.is_in_force(number, subscription))
        return subscription

    def unsubscribe(self, number: int, subscription: int) -> None:
        self.do(number, self.core(number).unsubscribe(subscription, self.clock(number)))

    def unsubscribed(self, number: int, subscription: int) -> None:
        """Unsubscribe, and wait until that has taken effect."""
        self.unsubscribe(number, subscription)
        self.run_until(
            lambda: any(
                isinstance(item, Unsubscribed) and item.subscription.number == subscription
                for item in self.items(number)
            )
        )

    def publish(self, number: int, text: str, *, wants_all: bool = False) -> EventId:
        id, effects = self.core(number).publish(
            Predicate.parse(text), b"", self.clock(number), wants_all=wants_all
        )
        self.do(number, effects)
        return id

    def event(self, publisher: int, number: int, text: str) -> Publication:
        """A signed event of a node."""
        id, predicate = EventId(self.contacts[publisher].peer, 0, number), Predicate.parse(text)
        signature = StandInSigning(id.publisher).sign(id, predicate, b"")
        return Publication.of(id, predicate, b"", signature)

    def published(self, number: int, text: str, *, wants_all: bool = False) -> EventId:
        """Publish, and wait until that is acknowledged."""
        id = self.publish(number, text, wants_all=wants_all)
        self.run_until(lambda: self.is_published(id))
        return id

    # --- what they were told ---

    def items(self, number: int) -> list[object]:
        return [told.item for told in self.told if told.node == number]

    def is_in_force(self, number: int, subscription: int) -> bool:
        return any(
            isinstance(item, Subscribed) and item.subscription.number == subscription
            for item in self.items(number)
        )

    def is_published(self, id: EventId) -> bool:
        return self._was_told(Published, id)

    def is_confirmed(self, id: EventId) -> bool:
        return self._was_told(Confirmed, id)

    def _was_told(self, kind: type[Published | Confirmed], id: EventId) -> bool:
        return any(isinstance(told.item, kind) and told.item.id == id for told in self.told)

    def refusals(self) -> list[Refused]:
        return [told.item for told in self.told if isinstance(told.item, Refused)]

    def deliveries(self, number: int) -> list[Delivery]:
        return [item for item in self.items(number) if isinstance(item, Delivery)]

    def received(self, number: int) -> list[EventId]:
        """The events that a node was handed, in order."""
        return [delivery.event.id for delivery in self.deliveries(number)]

    def receivers(self, id: EventId) -> list[int]:
        """Who was handed an event, as often as it was."""
        return sorted(
            told.node
            for told in self.told
            if isinstance(told.item, Delivery) and told.item.event.id == id
        )

    # --- views of nodes ---

    def tree(self, number: int, attribute: str = "surf") -> TreeView:
        tree = self.scouts(number).tree(attribute)
        assert tree is not None
        return tree

    def held(self, number: int, what: str) -> int:
        """How much a node has of something with a limit."""
        (held,) = [b.held for b in self.scouts(number).tally().bounds if b.what == what]
        return held

    def rejected(self, number: int) -> Mapping[str, int]:
        """What a node has rejected, by reason."""
        return self.scouts(number).tally().refused

    def parent(self, number: int, attribute: str = "surf") -> int | None:
        parent = self.tree(number, attribute).parent
        return None if parent is None else self.number(parent.peer)

    def children(self, number: int, attribute: str = "surf") -> dict[int, list[str]]:
        """The children of a node that want something, and what."""
        return {
            self.number(child.contact.peer): sorted(map(str, child.filters))
            for child in self.tree(number, attribute).live_children
        }

    def roots(self, attribute: str = "surf") -> list[int]:
        """Who takes itself for the rendezvous."""
        return [
            n
            for n in self.numbers
            if self.host(n).is_up
            and attribute in self.scouts(n).view().trees
            and self.tree(n, attribute).role is Role.ROOT
        ]

    def shortcut(self, number: int, child: int, attribute: str = "surf") -> int | None:
        """Where a node sends what is for a child, if not to the child."""
        shortcut = self.tree(number, attribute).children[self.contacts[child].peer].shortcut
        return None if shortcut is None else self.number(shortcut.peer)

    def keepers(self, owner: int, attribute: str = "surf") -> list[int]:
        """Who keeps a copy of a node's children."""
        key = (self.contacts[owner].peer, attribute)
        return [
            n for n in self.numbers if self.host(n).is_up and key in self.scouts(n).view().replicas
        ]

    def copy(self, keeper: int, owner: int, attribute: str = "surf") -> dict[int, list[str]]:
        """A keeper's copy of a node's children, without the node's own filters."""
        kept = self.scouts(keeper).view().replicas[self.contacts[owner].peer, attribute]
        return {
            self.number(child.contact.peer): sorted(map(str, child.filters))
            for child in kept
            if child.contact.peer != self.contacts[owner].peer
        }

    def holders(self, id: EventId, attribute: str = "surf") -> list[int]:
        """The nodes that have an unconfirmed event in custody, or keep it as a replica."""
        return [
            n
            for n in self.numbers
            if self.host(n).is_up
            and any(
                (record.event.id, record.attribute) == (id, attribute)
                for record in self.scouts(n).view().records
            )
        ]

    def count(self, *kinds: type) -> Counter[int]:
        """How many parts of some kinds each node was told."""
        return Counter(said.receiver for said in self.said if isinstance(said.part, kinds))

    def announced_to(self, number: int) -> list[Announce]:
        return [
            said.part
            for said in self.said
            if said.receiver == number and isinstance(said.part, Announce)
        ]

    def _on_deliver(self, host: Host, item: object) -> None:
        self.told.append(Indication(self.world.now, host.number, item))

    def _on_receive(self, host: Host, _: bytes, message: object) -> None:
        if isinstance(message, Bundle):
            self.said += [Said(self.world.now, host.number, part) for part in message.parts]


def next_closer_only(count: int) -> Knows:
    """Each node knows the next closer one, and all that are farther away.

    So a message for the rendezvous passes all nodes: 3, 2, 1, 0.
    """
    return lambda number: [n for n in range(count) if n >= number - 1]


def chain(
    count: int, settings: ScoutSettings | None = None, network: NetworkOptions | None = None
) -> Forest:
    """Nodes in one line to the rendezvous."""
    return Forest(count, settings, knows=next_closer_only(count), is_fixed=True, network=network)


def variant(*, is_reliable: bool, redirects: bool) -> ScoutSettings:
    return replace(ScoutSettings(), is_reliable=is_reliable, redirects=redirects)
