"""Nodes that run FastDelivery in a simulated world, and what they have delivered."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from smartpubsub.kademlia.core import Kademlia
from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.messages import Message
from smartpubsub.kademlia.messages import wire_bytes as kademlia_bytes
from smartpubsub.kademlia.settings import SECOND, Settings
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.fastdelivery.book import GroupMember, MemberState
from smartpubsub.protocols.fastdelivery.group import Contract, OwnedGroup, accept_all
from smartpubsub.protocols.fastdelivery.messages import (
    Answer,
    GroupNotify,
    Packet,
    Question,
    Relay,
    wire_bytes,
)
from smartpubsub.protocols.fastdelivery.protocol import FastDelivery
from smartpubsub.protocols.fastdelivery.results import GroupOpened, JoinRefused, SearchResult
from smartpubsub.protocols.fastdelivery.settings import FastSettings
from smartpubsub.protocols.node import NodeCore
from smartpubsub.protocols.publication import EventId
from smartpubsub.protocols.pubsub import Delivery, Subscribed, Subscription, Unsubscribed
from smartpubsub.sim.kernel.network import NetworkOptions
from smartpubsub.sim.kernel.population import contact_of
from smartpubsub.sim.kernel.signing import StandInSigning
from smartpubsub.sim.kernel.streams import stream
from smartpubsub.sim.kernel.world import Host, World

OWNER = 0
SurelyTold = Delivery | Subscribed | Unsubscribed | GroupOpened | JoinRefused | SearchResult


class FastNodes:
    """Nodes that know each other; the first owns the groups unless a test says otherwise."""

    def __init__(
        self,
        count: int,
        settings: FastSettings | None = None,
        *,
        capacities: Sequence[int] = (),
        regions: Sequence[str] = (),
        network: NetworkOptions | None = None,
        seed: int = 1,
    ) -> None:
        self.told: list[tuple[int, int, object]] = []
        """The time, the node, and what it has delivered to its application."""
        self._settings = settings or FastSettings(region="here")
        self._capacities, self._regions, self._seed = capacities, regions, seed
        self.world = World(
            network or NetworkOptions(),
            seed,
            {Message: kademlia_bytes, Packet: self._measure},
            on_deliver=lambda host, item: self.told.append((self.world.now, host.number, item)),
            on_effects=lambda host, _: self.fast(host.number).check(),
        )
        self.contacts = [contact_of(seed, number) for number in range(count)]
        for contact in self.contacts:
            self.world.add(contact.peer, self._maker(contact), contact.addresses)
        for host in self.world.hosts:
            others = [contact for contact in self.contacts if contact.peer != host.peer]
            self._do(host.number, lambda core, now, known=others: core.settle(known, now))
        self.run(1)

    def _measure(self, packet: Packet) -> int:
        return wire_bytes(packet)

    def _maker(self, own: Contact) -> Callable[[int], NodeCore]:
        number = self.contacts.index(own)
        settings = self._settings
        if self._capacities:
            settings = replace(settings, capacity=self._capacities[number])
        if self._regions:
            settings = replace(settings, region=self._regions[number])

        def make(incarnation: int) -> NodeCore:
            kademlia = Kademlia(own, Settings(), stream(self._seed, "k", number, incarnation))
            signing = StandInSigning(own.peer)
            rng = stream(self._seed, "fast", number, incarnation)
            return NodeCore(kademlia, FastDelivery(settings, kademlia, signing, rng), signing)

        return make

    # --- time ---

    def run(self, seconds: float) -> None:
        self.world.run(self.world.now + round(seconds * SECOND))

    def run_until(self, condition: Callable[[], bool], seconds: float = 60) -> None:
        until = self.world.now + round(seconds * SECOND)
        assert self.world.run_while(lambda: not condition(), until), (
            "the condition did not become true in time"
        )

    # --- nodes ---

    def host(self, number: int) -> Host:
        return self.world.hosts[number]

    def core(self, number: int) -> NodeCore:
        core = self.host(number).core
        assert isinstance(core, NodeCore)
        return core

    def fast(self, number: int) -> FastDelivery:
        pubsub = self.core(number).pubsub
        assert isinstance(pubsub, FastDelivery)
        return pubsub

    def _do(self, number: int, action: Callable[..., list]) -> None:  # type: ignore[type-arg]
        host = self.host(number)
        self.world.carry_out(host, action(self.core(number), host.clock(self.world.now)))

    def crash(self, number: int) -> None:
        self.world.crash(self.host(number))

    # --- groups ---

    def create(
        self,
        text: str,
        owner: int = OWNER,
        *,
        is_advertised: bool = True,
        is_private: bool = False,
        contract: Contract = accept_all,
    ) -> OwnedGroup:
        predicate = Predicate.parse(text)
        fast = self.fast(owner)
        self._do(
            owner,
            lambda _, now: fast.create_group(
                predicate,
                now,
                is_advertised=is_advertised,
                is_private=is_private,
                contract=contract,
            ),
        )
        self.run_until(lambda: self.group(text, owner).is_open)
        return self.group(text, owner)

    def end(self, group: OwnedGroup) -> str:
        """End a group of the owner; why not, if it goes on."""
        problems: list[str] = []

        def end(_: NodeCore, now: int) -> list:  # type: ignore[type-arg]
            problem, effects = self.fast(OWNER).end_group(group.predicate, now)
            problems.append(problem)
            return effects

        self._do(OWNER, end)
        return problems[0]

    def group(self, text: str, owner: int = OWNER) -> OwnedGroup:
        return self.fast(owner).groups[Predicate.parse(text)]

    def member(self, group: OwnedGroup, number: int) -> GroupMember:
        return group.book.members[self.contacts[number].peer]

    def at(self, group: OwnedGroup, place: MemberState) -> list[int]:
        peers = [contact.peer for contact in self.contacts]
        members = group.book.members.values()
        return sorted(peers.index(m.peer) for m in members if m.state is place)

    # --- what applications do ---

    def subscribe(self, number: int, text: str) -> int:
        """Subscribe, and wait until it is in force."""
        given: list[int] = []

        def subscribe(core: NodeCore, now: int) -> list:  # type: ignore[type-arg]
            subscription, effects = core.subscribe(Predicate.parse(text), now)
            given.append(subscription)
            return effects

        self._do(number, subscribe)
        self.run_until(lambda: any(s.number == given[0] for s in self.in_force(number)))
        return given[0]

    def subscribe_all(self, numbers: Sequence[int], text: str) -> None:
        """Subscribe several at once."""
        for number in numbers:
            self._do(number, lambda core, now: core.subscribe(Predicate.parse(text), now)[1])
        self.run_until(lambda: all(self.in_force(number) for number in numbers))

    def join(self, number: int, group: str, wanted: str, invitation: bytes = b"") -> Subscription:
        """Ask to join a group of the owner."""
        subscription = Subscription(1000 + number, Predicate.parse(wanted))
        self._do(
            number,
            lambda core, now: core.pubsub.join_group(
                subscription, self.contacts[OWNER], Predicate.parse(group), now, invitation
            ),
        )
        return subscription

    def unsubscribe(self, number: int, subscription: int) -> None:
        self._do(number, lambda core, now: core.unsubscribe(subscription, now))

    def search(self, number: int, text: str) -> list[str]:
        """Search, and wait for the result."""
        predicate = Predicate.parse(text)
        fast, before = self.fast(number), len(self.told)
        self._do(number, lambda _, now: fast.search(predicate, 1, now))
        self.run_until(lambda: bool(self.items(SearchResult, number, before)))
        (result,) = self.items(SearchResult, number, before)
        return sorted(str(notice.predicate) for notice in result.notices)

    def publish(self, text: str, group: str | None = None, owner: int = OWNER) -> EventId:
        """Publish in a group, or in the group of the event's shape."""
        given: list[EventId] = []

        def publish(core: NodeCore, now: int) -> list:  # type: ignore[type-arg]
            predicate = Predicate.parse(text)
            if group is None:
                id, effects = core.publish(predicate, b"", now, wants_all=True)
                given.append(id)
                return effects
            event = core.new_event(predicate, b"", now)
            given.append(event.id)
            fast = self.fast(owner)
            return fast.publish_in(Predicate.parse(group), event, now, wants_all=True)

        self._do(owner, publish)
        return given[0]

    # --- what applications got ---

    def items(self, kind: type, number: int | None = None, since: int = 0) -> list:  # type: ignore[type-arg]
        return [
            item
            for _, node, item in self.told[since:]
            if isinstance(item, kind) and number in (None, node)
        ]

    def in_force(self, number: int) -> list[Subscription]:
        return [told.subscription for told in self.items(Subscribed, number)]

    def got(self, id: EventId) -> list[int]:
        """The nodes that have delivered an event, once per delivery."""
        return sorted(
            node
            for _, node, item in self.told
            if isinstance(item, Delivery) and item.event.id == id
        )

    def hops(self, id: EventId) -> dict[int, int]:
        return {
            node: item.hops
            for _, node, item in self.told
            if isinstance(item, Delivery) and item.event.id == id
        }


def cut(nodes: FastNodes, one: int, other: int) -> None:
    """Drop all messages of FastDelivery between two nodes from now on."""
    transmit, hosts = nodes.world._transmit, {nodes.contacts[n].peer for n in (one, other)}

    def dropping(host: Host, peer: bytes, message: object, event: object) -> None:
        if not isinstance(message, Packet) or {host.peer, peer} != hosts:
            transmit(host, peer, message, event)  # type: ignore[arg-type]

    nodes.world._transmit = dropping  # type: ignore[method-assign]


def answer_always(nodes: FastNodes, number: int, kind: type[Question], answer: Answer) -> None:
    """Have a node give the same answer to all questions of a kind."""
    fast = nodes.fast(number)

    def answering(contact: Contact, question_number: int, _: Question) -> None:
        fast._requests.answer(contact.peer, question_number, answer)

    fast._on_question[kind] = answering


def watch_events(nodes: FastNodes) -> list[tuple[int, int, GroupNotify | Relay]]:
    """Record all messages with events: the sender, the receiver, and the message."""
    noted: list[tuple[int, int, GroupNotify | Relay]] = []
    peers = {contact.peer: number for number, contact in enumerate(nodes.contacts)}
    transmit = nodes.world._transmit

    def noting(host: Host, peer: bytes, message: object, event: object) -> None:
        if isinstance(message, Packet) and isinstance(message.part, GroupNotify | Relay):
            noted.append((host.number, peers[peer], message.part))
        transmit(host, peer, message, event)  # type: ignore[arg-type]

    nodes.world._transmit = noting  # type: ignore[method-assign]
    return noted
