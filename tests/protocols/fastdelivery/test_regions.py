"""Regions: events cross between them as rarely as possible, and are measured if undeclared."""

from collections import Counter

import pytest

from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.ledger import USER_SHARE
from smartpubsub.kademlia.settings import SECOND
from smartpubsub.protocols.fastdelivery.book import MemberState
from smartpubsub.protocols.fastdelivery.messages import (
    Join,
    Measure,
    Measured,
    Packet,
    decode,
    encode,
)
from smartpubsub.protocols.fastdelivery.regions import PINGS_MAX, RegionFinder
from smartpubsub.protocols.fastdelivery.settings import FastSettings
from smartpubsub.protocols.pubsub import Published
from smartpubsub.protocols.runtime.messages import MessageLimits
from smartpubsub.seam import Received, Send
from smartpubsub.sim.kernel.network import NetworkOptions
from smartpubsub.sim.kernel.places import region_of
from smartpubsub.sim.kernel.population import peer_id
from smartpubsub.sim.kernel.world import Host
from tests.protocols.fastdelivery.nodes import OWNER, FastNodes, watch_events

REGIONS = 3
COUNT = 40
WIDE = NetworkOptions(regions=REGIONS)
NAMES = [f"region-{region_of(peer_id(1, number), REGIONS)}" for number in range(COUNT)]


def test_a_member_that_repeats_its_request_goes_on_measuring() -> None:
    nodes = FastNodes(5, FastSettings(region="", timeout_us_min=SECOND))
    nodes.create("surf", is_advertised=False)
    first = nodes.join(1, "surf", "surf")
    nodes.run_until(lambda: first in nodes.in_force(1))
    nodes.crash(1)  # It is the landmark, so measuring takes a while.
    joins: list[int] = []
    measures: list[int] = []
    transmit = nodes.world._transmit

    def decoding_anew(host: Host, peer: bytes, message: object, event: object) -> None:
        if isinstance(message, Packet):
            message = decode(encode(message), MessageLimits())
            joins.extend([message.number] if isinstance(message.part, Join) else [])
            measures.extend([message.number] if isinstance(message.part, Measure) else [])
        transmit(host, peer, message, event)  # type: ignore[arg-type]

    nodes.world._transmit = decoding_anew  # type: ignore[method-assign]
    second = nodes.join(2, "surf", "surf")
    nodes.run_until(lambda: second in nodes.in_force(2))
    assert len(joins) > 1
    assert len(set(measures)) == 1


def test_a_member_cannot_declare_a_measured_region() -> None:
    nodes = FastNodes(3, regions=["", "measured-2", ""])
    group = nodes.create("surf")
    nodes.subscribe(1, "surf")
    assert nodes.member(group, 1).region == "measured-1"


def test_an_event_crosses_once_for_each_helper_and_each_member_that_is_served_directly() -> None:
    nodes = FastNodes(COUNT, FastSettings(capacity=40), regions=NAMES, network=WIDE)
    group = nodes.create("surf")
    nodes.subscribe_all(range(1, COUNT), "surf")
    nodes.run(5)
    noted = watch_events(nodes)
    event = nodes.publish("surf")
    nodes.run(2)
    assert nodes.got(event) == list(range(1, COUNT))
    crossing = Counter(
        NAMES[receiver] for sender, receiver, _ in noted if NAMES[sender] != NAMES[receiver]
    )
    served = [*nodes.at(group, MemberState.HELPER), *nodes.at(group, MemberState.DIRECT)]
    needed = Counter(NAMES[number] for number in served if NAMES[number] != NAMES[OWNER])
    assert crossing == needed
    assert set(needed) == set(NAMES) - {NAMES[OWNER]}
    assert set(needed.values()) == {3}  # One helper each, and the pool.


def test_no_event_is_sent_to_a_region_without_interested_members() -> None:
    nodes = FastNodes(COUNT, FastSettings(capacity=40), regions=NAMES, network=WIDE)
    nodes.create("surf/price[,]")
    elsewhere = sorted(set(NAMES) - {NAMES[OWNER]})[0]
    for number in range(1, COUNT):
        wanted = "surf/price[5,9]" if NAMES[number] == elsewhere else "surf/price[0,4]"
        nodes.subscribe(number, wanted)
    nodes.run(5)
    noted = watch_events(nodes)
    event = nodes.publish("surf/price=7")
    nodes.run(2)
    assert nodes.got(event) == [n for n in range(1, COUNT) if NAMES[n] == elsewhere]
    assert {NAMES[receiver] for _, receiver, _ in noted} == {elsewhere}


def test_members_without_a_declared_region_are_grouped_by_round_trips() -> None:
    nodes = FastNodes(COUNT, FastSettings(region="", capacity=40), network=WIDE)
    group = nodes.create("surf")
    nodes.subscribe_all(range(1, COUNT), "surf")
    nodes.run(5)
    measured: dict[str, set[str]] = {}
    for number in range(1, COUNT):
        region = nodes.member(group, number).region
        measured.setdefault(region, set()).add(NAMES[number])
    assert sorted(map(sorted, measured.values())) == [[name] for name in sorted(set(NAMES))]
    event = nodes.publish("surf")
    nodes.run(2)
    assert nodes.got(event) == list(range(1, COUNT))


def test_measurements_for_one_owner_leave_room_for_those_for_others() -> None:
    nodes = FastNodes(4, FastSettings(region="", capacity=40))
    group = nodes.create("surf")
    nodes.create("kite", owner=2)
    nodes.subscribe(3, "surf")
    nodes.subscribe(1, "kite")
    landmarks = tuple(Contact.of(b"landmark %d" % n) for n in range(100))
    effects = []
    for number in range(200):
        measure = Packet(10_000 + number, Measure(landmarks))
        received = Received(nodes.contacts[2].peer, measure, nodes.contacts[2].addresses)
        effects += nodes.fast(1).handle(received, nodes.world.now)
    pings = [e for e in effects if isinstance(e, Send) and e.peer.startswith(b"landmark")]
    assert len(pings) == PINGS_MAX // USER_SHARE
    nodes.subscribe(1, "surf")
    nodes.run(1)
    assert nodes.member(group, 1).region == nodes.member(group, 3).region
    nodes.run(60)
    (account,) = (a for a in nodes.core(1).kademlia.ledger if a.name == "measured round trips")
    assert (account.size, account.refused > 0) == (0, True)


@pytest.mark.parametrize("round_trips", [None, (), (1, 1, 1)], ids=["none", "too few", "too many"])
def test_a_member_that_does_not_measure_as_asked_holds_up_no_event(
    monkeypatch: pytest.MonkeyPatch, round_trips: tuple[int, ...] | None
) -> None:
    def answer_as_told(finder: RegionFinder, contact: Contact, number: int, _: Measure) -> None:
        if round_trips is not None:
            finder._requests.answer(contact.peer, number, Measured(round_trips))

    monkeypatch.setattr(RegionFinder, "on_measure", answer_as_told)
    nodes = FastNodes(4, FastSettings(region="", capacity=40))
    group = nodes.create("surf")
    for number in (1, 2):  # The first has no landmark to measure.
        nodes.subscribe(number, "surf")
        nodes.run_until(lambda: len(group.book) == number, 60)  # noqa: B023
    assert nodes.member(group, 1).region != nodes.member(group, 2).region
    event = nodes.publish("surf")
    nodes.run_until(lambda: any(told == Published(event) for *_, told in nodes.told), 10)
    assert nodes.got(event) == [1, 2]
