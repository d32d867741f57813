"""On saturated links nodes do not give busy peers up, and do not retransmit everything."""

from smartpubsub.kademlia.settings import SECOND
from smartpubsub.protocols.pulsarcast.messages import Parcel, Welcome
from smartpubsub.protocols.pulsarcast.topics import rules_ordered_by
from smartpubsub.seam import Received
from tests.protocols.pulsarcast.village import Village

NODES = range(16)
SLOW = 150
"""Links then carry 7 kB a second, and an event in the tree has half a kilobyte."""


def slowed_down(village: Village) -> None:
    for node in NODES:
        village.world.network.slow_down(node, SLOW)


def sent(village: Village, kind: str) -> int:
    return sum(village.received[node, kind] for node in NODES)


def test_a_parent_busy_in_one_topic_is_not_given_up_in_another() -> None:
    village = Village(len(NODES))
    busy, quiet = village.create(0, "busy"), village.create(0, "quiet")
    for topic in (busy, quiet):
        village.subscribe_all(NODES, topic)
    village.publish(0, busy, b"first")
    village.run(10)
    # Nodes with the same parent in both topics hear from it in the busy one.
    above = village.parents(busy)
    places = {n: p for n, p in village.parents(quiet).items() if p is not None and p == above[n]}
    assert len(places) >= 4
    slowed_down(village)
    for number in range(60):
        village.publish(0, busy, b"%d" % number)
    slowest_us = 0
    for _ in range(60):
        village.run(1)
        slowest_us = max(slowest_us, *(village.core(node).liveness.round_trip_us for node in NODES))
        parents = village.parents(quiet)
        assert {node: parents[node] for node in places} == places

    assert sent(village, "Spread") == 61 * (len(NODES) - 1)
    for node in NODES:
        assert village.payloads(node) == [b"first", *(b"%d" % number for number in range(60))]
    assert slowest_us > SECOND  # Answers were late indeed, and the nodes measured that.


def test_an_unexpected_welcome_is_no_round_trip_sample() -> None:
    village = Village(len(NODES))
    topic = village.create(0)
    village.subscribe_all(NODES, topic)
    village.run(20)
    child, parent = next((n, p) for n, p in village.parents(topic).items() if p is not None)
    liveness = village.core(child).liveness
    usual_us = liveness.round_trip_us
    again = Parcel((Welcome(topic.stable_id, topic.cid, ()),))
    village.core(child).handle(Received(village.host(parent).peer, again, ()), village.world.now)

    assert liveness.round_trip_us == usual_us < SECOND
    assert village.parents(topic)[child] == parent


def test_requests_that_wait_for_their_turn_are_not_retransmitted() -> None:
    village = Village(len(NODES))
    author = village.host(0).peer
    topic = village.create(0, rules=rules_ordered_by(author))
    village.subscribe_all(NODES, topic)
    slowed_down(village)
    wanted = [village.publish(5, topic, b"%d" % number) for number in range(60)]
    village.run(120)

    assert village.published() >= set(wanted)
    assert village.received[0, "Request"] <= 2 * len(wanted)
    for node in NODES:
        assert village.payloads(node) == [b"%d" % number for number in range(60)]
