"""A node that was away fetches what it missed in few round trips, and goes on."""

import pytest

from smartpubsub.kademlia.settings import SECOND
from smartpubsub.protocols.pulsarcast.messages import Beat, Head, Parcel
from smartpubsub.protocols.pulsarcast.settings import PulsarSettings, Retention
from smartpubsub.protocols.pulsarcast.topics import Rules, rules_ordered_by
from smartpubsub.seam import Disconnected, Received
from smartpubsub.sim.kernel.network import DROP, NetworkOptions
from tests.protocols.pulsarcast.village import Village


@pytest.mark.parametrize(("count", "ordered", "pages_max"), [(10_000, False, 25), (1_000, True, 5)])
def test_ten_thousand_missed_events_take_few_round_trips(
    count: int, ordered: bool, pages_max: int
) -> None:
    village = Village(4, network=NetworkOptions(bandwidth_bytes_per_s=100 << 20))
    rules = rules_ordered_by(village.host(0).peer) if ordered else Rules()
    topic = village.create(0, rules=rules)
    village.subscribe_all(range(4), topic)
    village.publish(0, topic, b"first")
    village.run(1)
    village.crash(2)
    for number in range(count):
        village.publish(0, topic, b"%d" % number)
        if number % 100 == 99:
            village.run(0.1)
    village.run(20)
    before = village.received[2, "Page"]
    village.restart(2)
    village.run(60)
    village.publish(3, topic, b"last")
    village.run(5)

    told = village.payloads(2)
    assert len(told) == len(set(told)) == count + 2
    assert told == [b"first", *(b"%d" % number for number in range(count)), b"last"]
    assert village.received[2, "Page"] - before <= pages_max


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_on_a_lossy_network_every_event_is_delivered_once(seed: int) -> None:
    village = Village(15, network=NetworkOptions(loss=0.15), seed=seed)
    topic = village.create(0)
    village.run(20)
    village.subscribe_all(range(15), topic)
    while len(village.subscribed()) < 15:
        village.run(1)
    for number in range(30):
        village.publish(number % 15, topic, b"%02d" % number)
        village.run(0.05)
    village.run(120)

    for node in range(15):
        assert sorted(village.payloads(node)) == [b"%02d" % number for number in range(30)]


def test_both_sides_of_a_split_have_all_events_after_it() -> None:
    village = Village(16)
    topic = village.create(0)
    village.subscribe_all(range(16), topic)
    one_side = range(8)
    village.world.network.rules.append(
        lambda _, a, b: DROP if (a in one_side) != (b in one_side) else None
    )
    village.run(60)
    village.publish(1, topic, b"here")
    village.publish(12, topic, b"there")
    village.run(30)
    assert village.payloads(2) == [b"here"]
    assert village.payloads(14) == [b"there"]
    village.world.network.rules.clear()
    village.run(300)

    for node in range(16):
        assert sorted(village.payloads(node)) == [b"here", b"there"]


def test_a_node_that_is_cut_off_is_the_only_keeper_until_it_is_back() -> None:
    village = Village(8)
    topic = village.create(0)
    village.subscribe_all(range(8), topic)
    village.world.network.rules.append(lambda _, a, b: DROP if 5 in (a, b) else None)
    village.run(60)
    id = village.publish(5, topic, b"x")
    village.run(60)
    assert id in village.published()
    assert [village.payloads(node) for node in range(8)] == [
        [b"x"] if node == 5 else [] for node in range(8)
    ]
    village.world.network.rules.clear()
    village.run(200)

    assert id in village.published()
    assert [village.payloads(node) for node in range(8)] == [[b"x"]] * 8


def test_keepers_have_all_events_and_lost_keepers_are_replaced() -> None:
    village = Village(20, PulsarSettings(keepers=3, proof_us=20 * SECOND))
    topic = village.create(0)
    village.subscribe_all([0, 1], topic)
    for number in range(50):
        village.publish(1, topic, b"%d" % number)
    village.run(5)

    def keepers() -> list[int]:
        return [node for node in village.members(topic) if village.is_keeper(node, topic)]

    first = keepers()
    assert len(first) == 3
    assert all(len(village.log(node, topic)) == 51 for node in first)
    lost = [node for node in first if node not in (0, 1)][:2]
    village.crash(*lost)
    village.run(120)

    assert len(keepers()) == 3
    assert all(len(village.log(node, topic)) == 51 for node in keepers())
    assert all(not village.payloads(node) for node in keepers() if node not in (0, 1))


def test_an_unreachable_keeper_does_not_delay_an_acknowledgement() -> None:
    village = Village(12)
    topic = village.create(0)
    village.subscribe_all(range(12), topic)
    village.publish(9, topic, b"first")
    village.run(2)
    lost = next(keeper for keeper in village.keepers(9, topic) if keeper != 9)
    village.crash(lost)
    id = village.publish(9, topic, b"second")
    village.run(0.1)
    assert id not in village.published()
    effects = village.node(9).handle(Disconnected(village.host(lost).peer), village.world.now)
    village.world.carry_out(village.host(9), effects)
    village.run(0.1)

    assert id in village.published()
    assert len(village.keepers(9, topic)) == 3
    village.run(60)
    assert all(village.payloads(n)[-1] == b"second" for n in range(12) if village.host(n).is_up)


def test_an_acknowledged_event_survives_its_publisher() -> None:
    village = Village(12)
    topic = village.create(0)
    village.subscribe_all(range(8), topic)
    id = village.publish(9, topic, b"last words")
    while id not in village.published():
        village.run(0.001)
    village.crash(9)
    village.run(60)

    assert all(village.payloads(node) == [b"last words"] for node in range(8))


def test_a_restart_loses_no_event_and_delivers_none_twice() -> None:
    village = Village(8)
    topic = village.create(0)
    village.subscribe_all(range(8), topic)
    for number in range(20):
        village.publish(1, topic, b"%02d" % number)
    village.run(2)
    village.crash(3)
    village.restart(3)
    village.run(10)

    assert (
        len(village.log(3, topic)) == 20
    )  # The announcement of the topic is older than its subscription.
    assert village.payloads(3) == [b"%02d" % number for number in range(20)]
    village.publish(3, topic, b"and on")
    village.run(1)
    assert village.payloads(5)[-1] == b"and on"


def test_retention_prunes_the_oldest_events_except_in_pinned_topics() -> None:
    settings = PulsarSettings(retention=Retention(event_count_max=10))
    village = Village(5, settings)
    topic = village.create(0)
    village.subscribe_all(range(5), topic)
    village.log(4, topic).pin(True)
    for number in range(30):
        village.publish(1, topic, b"%02d" % number)
        village.run(0.2)
    village.run(5)

    for node in range(4):
        assert len(village.log(node, topic)) == 10
        keys = [k for k in village.host(node).storage if k.startswith(b"pulsarcast/event/")]
        assert len(keys) == 10
    assert len(village.log(4, topic)) == 31
    assert all(len(village.payloads(node)) == 30 for node in range(5))


def test_a_late_head_from_before_a_subscription_is_not_waited_for() -> None:
    village = Village(6)
    topic = village.create(0)
    village.subscribe_all([0, 1], topic)
    for number in range(5):
        village.publish(1, topic, b"%d" % number)
        village.run(0.2)
    old = next(event for event in village.log(0, topic).after(None) if event.height == 3)
    village.subscribe_all([3], topic)
    heads = (Head(old.cid, old.height),)
    beat = Parcel((Beat(topic.stable_id, topic.cid, heads, 0, False),))
    effects = village.core(3).handle(Received(village.host(0).peer, beat, ()), village.world.now)
    village.world.carry_out(village.host(3), effects)
    fetcher, replica = village.core(3).fetcher, village.replica(3, topic)
    assert fetcher.missed(replica) == {old.cid}
    village.run(2)

    assert not fetcher.missed(replica)
    assert fetcher.lost == 0
    assert village.payloads(3) == []
