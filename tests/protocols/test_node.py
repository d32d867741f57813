"""What of a node outlives a crash, and how the parts of a network find each other again."""

from random import Random
from typing import NamedTuple, cast

import pytest

from smartpubsub.kademlia.core import Kademlia
from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.queries import Joined
from smartpubsub.kademlia.settings import HOUR, MINUTE, SECOND, Settings
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.baselines.floodsub import Floodsub, FloodsubSettings
from smartpubsub.protocols.departure import Goodbye
from smartpubsub.protocols.node import NodeCore
from smartpubsub.protocols.pubsub import Delivery, PubSub, Tally
from smartpubsub.seam import (
    Ask,
    Connected,
    Deliver,
    Departed,
    Disconnected,
    Effect,
    Event,
    Indication,
    Loaded,
    Received,
    Send,
    Started,
    Store,
    TimerFired,
    Unknown,
)
from smartpubsub.sim.kernel.faults import Partition
from smartpubsub.sim.kernel.population import address
from smartpubsub.sim.kernel.signing import StandInSigning
from tests.protocols.network import MakePubSub, Nodes, contact, flooding, gossiping

EITHER = pytest.mark.parametrize(
    "make_pubsub", [flooding(), gossiping()], ids=["floodsub", "gossipsub"]
)


def joined(make_pubsub: MakePubSub, count: int = 16, k: int = 4) -> Nodes:
    nodes = Nodes(count, make_pubsub, k=k)
    nodes.join_all()
    return nodes


def crash_and_restart(nodes: Nodes, number: int, down: int = MINUTE) -> None:
    nodes.world.crash(nodes.host(number))
    nodes.run(down)
    nodes.world.restart(nodes.host(number))
    nodes.run(2 * MINUTE)


def deliveries_to(nodes: Nodes, number: int) -> list[Delivery]:
    return [delivery for node, delivery in nodes.deliveries if node == number]


@EITHER
def test_subscriptions_survive_a_restart(make_pubsub: MakePubSub) -> None:
    nodes = joined(make_pubsub)
    kept = nodes.subscribe(3, "surf/price[10,20]")
    ended = nodes.subscribe(3, "surf")
    nodes.do(3, nodes.core(3).unsubscribe(ended, nodes.clock(3)))

    crash_and_restart(nodes, 3)
    nodes.publish(5, "surf/price=15")
    nodes.publish(5, "surf/price=5")
    nodes.run(SECOND)

    (delivery,) = deliveries_to(nodes, 3)
    assert delivery.subscriptions == (kept,)
    assert str(delivery.event.predicate) == "surf/price=15"


@EITHER
def test_numbers_of_subscriptions_are_not_given_again(make_pubsub: MakePubSub) -> None:
    nodes = joined(make_pubsub)
    first, second = nodes.subscribe(3, "a"), nodes.subscribe(3, "b")

    crash_and_restart(nodes, 3)
    third = nodes.subscribe(3, "c")

    assert len({first, second, third}) == 3
    assert sorted(nodes.core(3).subscriptions) == [first, second, third]


def test_a_subscription_before_the_storage_is_loaded_does_not_get_a_stored_number() -> None:
    nodes = joined(flooding())
    stored = [nodes.subscribe(3, "a"), nodes.subscribe(3, "b")]

    nodes.world.crash(nodes.host(3))
    nodes.world.restart(nodes.host(3))
    core = nodes.core(3)
    core.handle(Started(7), nodes.clock(3))
    early, effects = core.subscribe(Predicate.parse("c"), nodes.clock(3))
    nodes.do(3, effects)
    nodes.run(MINUTE)
    late = nodes.subscribe(3, "d")

    assert len({*stored, early, late}) == 4
    wanted = {number: str(each.predicate) for number, each in core.subscriptions.items()}
    assert wanted == dict(zip([*stored, early, late], "abcd", strict=True))


@pytest.mark.parametrize("with_storage", [False, True])
def test_ids_of_events_are_not_given_again(with_storage: bool) -> None:
    nodes = joined(flooding())
    before = [nodes.publish(3, "surf") for _ in range(3)]

    nodes.world.crash(nodes.host(3), with_storage=with_storage)
    nodes.world.restart(nodes.host(3))
    after = [nodes.publish(3, "surf") for _ in range(3)]

    assert len({*before, *after}) == 6
    assert max(before) < min(after)


@EITHER
def test_a_restarted_node_rejoins_by_the_peers_that_it_remembers(make_pubsub: MakePubSub) -> None:
    nodes = joined(make_pubsub)
    nodes.subscribe(3, "surf")
    nodes.world.crash(nodes.host(3))
    nodes.run(HOUR)
    assert not any(
        contact(3) in nodes.core(number).kademlia.table for number in nodes.numbers if number != 3
    )

    del nodes.joined[3]
    nodes.world.restart(nodes.host(3))
    nodes.run(5 * SECOND)
    assert 3 in nodes.joined

    id = nodes.publish(5, "surf")
    nodes.run(5 * SECOND)
    assert nodes.receivers(id) == [3]


def test_a_node_that_lost_its_storage_waits_until_others_remember_it() -> None:
    nodes = joined(flooding())
    nodes.subscribe(3, "surf")
    nodes.world.crash(nodes.host(3), with_storage=True)
    nodes.run(HOUR)

    del nodes.joined[3]
    nodes.world.restart(nodes.host(3))
    nodes.run(10 * MINUTE)

    assert 3 not in nodes.joined
    assert len(nodes.core(3).kademlia.table) > 0
    assert nodes.core(3).subscriptions == {}


def test_a_node_that_restarts_before_anybody_else_does_joins_when_they_are_there() -> None:
    nodes = joined(flooding(), count=5)
    for number in nodes.numbers:
        nodes.world.crash(nodes.host(number))
    nodes.subscribe(3, "surf")
    nodes.world.restart(nodes.host(3))
    nodes.run(5 * MINUTE)
    assert len(nodes.core(3).kademlia.table) == 0

    for number in (0, 1, 2, 4):
        nodes.world.restart(nodes.host(number))
    nodes.run(5 * MINUTE)
    nodes.subscribe(3, "surf")
    id = nodes.publish(0, "surf")
    nodes.run(SECOND)

    assert nodes.receivers(id) == [3]


def test_a_node_alone_after_a_restart_has_its_place_as_soon_as_somebody_comes() -> None:
    nodes = joined(flooding(), count=5)
    for number in nodes.numbers:
        nodes.world.crash(nodes.host(number), with_storage=number != 3)
    nodes.joined.clear()
    nodes.world.restart(nodes.host(3))
    nodes.run(12 * SECOND)  # Nobody has answered, and it is not time to try again.
    assert 3 not in nodes.joined

    nodes.world.restart(nodes.host(4))
    nodes.join(4, [contact(3)])
    nodes.run(SECOND)
    assert sorted(nodes.joined) == [3, 4]


def test_a_node_alone_also_looks_for_its_bootstrap_peer_when_another_peer_comes() -> None:
    nodes = joined(flooding(), count=5)
    for number in (3, 4):
        nodes.world.crash(nodes.host(number), with_storage=True)
    cut = Partition(group=(3, 4), at_us=nodes.world.now, until_us=nodes.world.now + 11 * SECOND)
    cut.plan(nodes.world)
    nodes.world.restart(nodes.host(3))
    nodes.join(3, [contact(0)])
    nodes.run(12 * SECOND)  # The bootstrap peer has not answered, and it is not time to try again.

    nodes.world.restart(nodes.host(4))
    nodes.join(4, [contact(3)])
    nodes.run(SECOND)

    assert nodes.core(3).kademlia.knows(contact(0))


def test_whom_a_node_remembers_is_not_forgotten_for_those_that_it_is_told_of() -> None:
    nodes = joined(flooding(), count=5)
    stored = nodes.host(3).storage
    kademlia = Kademlia(contact(3), Settings(), Random(0))
    core = NodeCore(
        kademlia, Floodsub(FloodsubSettings(), kademlia, StandInSigning(b"")), StandInSigning(b"")
    )
    core.handle(Started(2), 0)
    early = core.join([contact(9)], 0)
    loaded = core.handle(Loaded(b"node/", tuple(sorted(stored.items()))), 0)

    assert early == []
    asked = {effect.peer for effect in loaded if isinstance(effect, Ask)}
    assert contact(9).peer in asked
    assert len(asked) > 1
    [kept] = [effect.value for effect in loaded if isinstance(effect, Store)]
    assert kept is not None
    assert all(contact(number).peer in kept for number in (0, 1, 2, 4, 9))


def test_the_address_of_a_bootstrap_peer_replaces_the_one_that_is_remembered() -> None:
    nodes = joined(flooding(), count=5)
    stored = nodes.host(3).storage
    moved = Contact.of(contact(0).peer, (address(77),))
    core = NodeCore(
        kademlia := Kademlia(contact(3), Settings(), Random(0)),
        Floodsub(FloodsubSettings(), kademlia, StandInSigning(b"")),
        StandInSigning(b""),
    )
    core.handle(Started(2), 0)
    core.join([moved], 0)
    loaded = core.handle(Loaded(b"node/", tuple(sorted(stored.items()))), 0)

    asked = [effect for effect in loaded if isinstance(effect, Ask) and effect.peer == moved.peer]
    assert [effect.addresses for effect in asked] == [moved.addresses]
    [kept] = [effect.value for effect in loaded if isinstance(effect, Store)]
    assert kept is not None
    assert address(77) in kept
    assert contact(0).addresses[0] not in kept


@EITHER
def test_the_sides_of_a_partition_meet_again(make_pubsub: MakePubSub) -> None:
    nodes = joined(make_pubsub)
    left, right = (0, 2, 4, 6, 8, 10, 12, 14), (1, 3, 5, 7, 9, 11, 13, 15)
    for number in nodes.numbers:
        nodes.subscribe(number, "surf")
    now = nodes.world.now
    Partition(group=left, at_us=now, until_us=now + 2 * HOUR).plan(nodes.world)
    nodes.run(2 * HOUR - MINUTE)

    apart = nodes.publish(0, "surf")
    nodes.run(30 * SECOND)
    assert set(nodes.receivers(apart)) == set(left)
    for number in left:
        assert not any(contact(n) in nodes.core(number).kademlia.table for n in right)

    nodes.run(30 * MINUTE)
    together = nodes.publish(0, "surf")
    nodes.run(10 * SECOND)
    assert nodes.receivers(together) == list(nodes.numbers)


class Note(NamedTuple):
    text: str


class Diary:
    """A resident that writes down what it is told."""

    name = "diary"
    messages: tuple[type, ...] = (Note,)

    def __init__(self) -> None:
        self.told: list[Event] = []

    def handle(self, event: Event, now: int) -> list[Effect]:
        self.told.append(event)
        return [Deliver(("written at", now))] if isinstance(event, Received) else []

    def tally(self) -> Tally:
        return Tally((), {})


def events_told_to(core: NodeCore, monkeypatch: pytest.MonkeyPatch) -> list[Event]:
    """From now on all events that reach a node's protocol, which does nothing about them."""
    told: list[Event] = []

    def note(event: Event, _: int) -> list[Effect]:
        told.append(event)
        return []

    monkeypatch.setattr(core.pubsub, "handle", note)
    return told


def test_somebody_known_by_its_id_alone_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = joined(flooding(), count=60)
    core = nodes.core(0)
    known = core.kademlia.table.contacts()
    stranger = next(n for n in nodes.numbers[1:] if contact(n) not in known)
    told = events_told_to(core, monkeypatch)

    nodes.do(0, core.handle(Unknown(contact(stranger).peer), nodes.clock(0)))
    nodes.run(10 * SECOND)

    assert told == [Connected(contact(stranger).peer)]


def test_nobody_is_connected_to_for_somebody_who_is_not_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nodes = joined(flooding())
    core = nodes.core(0)
    told = events_told_to(core, monkeypatch)

    nodes.do(0, core.handle(Unknown(contact(999).peer), nodes.clock(0)))
    nodes.run(10 * SECOND)

    assert told == []


def test_a_resident_gets_what_is_its_own_and_what_concerns_all() -> None:
    diary, others = Diary(), Diary()
    kademlia = Kademlia(contact(0), Settings(), Random(0))
    pubsub = cast("PubSub", others)
    core = NodeCore(kademlia, pubsub, StandInSigning(contact(0).peer), [diary])
    own: list[Event] = [
        Received(contact(1).peer, Note("hello")),
        TimerFired(("diary", "page")),
        Loaded(b"diary/pages", ()),
    ]
    of_all: list[Event] = [Started(1), Disconnected(contact(1).peer)]
    of_pubsub: list[Event] = [TimerFired(("flood", "peers")), Loaded(b"flood/", ())]

    effects = [core.handle(event, 7) for event in [*of_all, *own, *of_pubsub]]

    assert diary.told == [*of_all, *own]
    assert others.told == [*of_all, *of_pubsub]
    assert Deliver(("written at", 7)) in effects[2]


def test_a_resident_is_told_what_kademlia_delivers() -> None:
    diary, others = Diary(), Diary()
    kademlia = Kademlia(contact(0), Settings(), Random(0))
    pubsub = cast("PubSub", others)
    core = NodeCore(kademlia, pubsub, StandInSigning(contact(0).peer), [diary])

    core.settle([contact(1), contact(2)], 7)

    assert diary.told == others.told == [Indication(Joined(2))]


def test_a_node_remembers_those_around_it_also_if_they_have_come_later() -> None:
    """And whoever is out of sight, for it may be behind a split."""
    nodes = joined(flooding(), count=30, k=20)
    core, now = nodes.core(0), nodes.clock(0)
    lost = [n for n in range(1, 30) if contact(n).peer in core._remembered][:10]
    for number in lost:
        for _ in range(2):
            core.kademlia.table.failed(contact(number), 2)
    for number in range(1_000, 1_200):
        core.kademlia.table.heard_from(contact(number), now)
    effects = core.handle(TimerFired(("node", "meet")), now)

    around = core.kademlia.closest_local(core.kademlia.own.peer, 20)
    assert any(key >= contact(1_000).peer for key in (each.peer for each in around))
    remembered = set(core._remembered)
    assert {each.peer for each in around} <= remembered
    assert {contact(number).peer for number in lost} <= remembered
    assert len(remembered) <= 40
    [stored] = [e.value for e in effects if isinstance(e, Store) and e.key == b"node/peers"]
    assert stored is not None
    assert all(peer in stored for peer in remembered)


def test_a_goodbye_takes_a_peer_out_of_the_table_and_tells_all_protocols() -> None:
    diary, others = Diary(), Diary()
    kademlia = Kademlia(contact(0), Settings(), Random(0))
    signing = StandInSigning(contact(0).peer)
    core = NodeCore(kademlia, cast("PubSub", others), signing, [diary])
    core.settle([contact(1), contact(2)], 7)

    core.handle(Received(contact(1).peer, Goodbye(3)), 8)

    assert diary.told[-1] == others.told[-1] == Departed(contact(1).peer)
    assert kademlia.table.contacts() == [contact(2)]


def test_a_node_that_leaves_says_goodbye_to_the_peers_that_it_knows() -> None:
    nodes = joined(flooding(), count=4)
    core = nodes.core(0)

    goodbyes = [effect for effect in core.leave(nodes.clock(0)) if isinstance(effect, Send)]

    assert {send.peer for send in goodbyes} == {contact(n).peer for n in (1, 2, 3)}
    assert all(isinstance(send.message, Goodbye) for send in goodbyes)
    connected = [contact(2).peer]
    assert [e.peer for e in core.leave(0, connected) if isinstance(e, Send)] == connected
