"""Trees: every parent is closer to the author, has few children, and is replaced when lost."""

from functools import partial

import pytest

from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.settings import SECOND
from smartpubsub.protocols.pulsarcast.membership import Membership
from smartpubsub.protocols.pulsarcast.messages import JoinTopic, Wait
from smartpubsub.protocols.pulsarcast.settings import PulsarSettings
from smartpubsub.protocols.pulsarcast.topics import Topic
from smartpubsub.seam import Disconnected
from smartpubsub.sim.kernel.network import NetworkOptions
from tests.protocols.pulsarcast.village import Village


def check_tree(village: Village, topic: Topic) -> None:
    """One root, strictly closer parents, bounded fan-out, and both ends agree."""
    parents = village.parents(topic)
    assert list(parents.values()).count(None) == 1
    for node, parent in parents.items():
        assert len(village.children(node, topic)) <= village.settings.fan_out_max
        if parent is not None:
            assert village.distance(parent, topic) < village.distance(node, topic)
            assert village.host(node).peer in village.children(parent, topic)


def village_with(count: int, subscribers: int, author: int = 0) -> tuple[Village, Topic]:
    village = Village(count)
    topic = village.create(author)
    village.subscribe_all(range(subscribers), topic)
    return village, topic


def test_a_popular_author_is_not_the_hub_of_a_star() -> None:
    village, topic = village_with(60, 60)

    assert village.subscribed() == set(range(60))
    check_tree(village, topic)
    assert village.parents(topic)[0] is None
    assert village.depth(topic) <= 7  # A tree of four below each would have at least three levels.


def test_late_subscribers_find_a_place() -> None:
    village, topic = village_with(40, 10)
    for node in range(10, 40):
        village.subscribe(node, topic)
        village.run(0.05)
    village.run(5)

    check_tree(village, topic)
    assert set(village.members(topic)) == set(range(40))


def test_an_event_of_any_publisher_reaches_every_node_once() -> None:
    village, topic = village_with(30, 30)
    for node in (0, 7, 29):
        village.publish(node, topic, b"from %d" % node)
    village.run(1)

    for node in range(30):
        assert sorted(village.payloads(node)) == [b"from 0", b"from 29", b"from 7"]
    assert village.refused()["repeated"] == 0


def test_a_leaving_node_orphans_no_child() -> None:
    village, topic = village_with(30, 30)
    parents = village.parents(topic)
    inner = [node for node in parents if node in parents.values() and parents[node] is not None]
    leaving = inner[:3]
    for node in leaving:
        village.world.carry_out(
            village.host(node), village.node(node).unsubscribe(1, village.world.now)
        )
    village.run(1)
    village.publish(0, topic, b"after")
    village.run(1)

    for node in range(30):
        assert village.payloads(node) == ([] if node in leaving else [b"after"])


def test_a_leaf_that_leaves_is_gone_for_good() -> None:
    village, topic = village_with(30, 30)
    parents = village.parents(topic)
    leaf = next(
        node
        for node in parents
        if node not in parents.values()
        and not village.is_keeper(node, topic)
        and parents[node] is not None
    )
    above = parents[leaf]
    assert above is not None
    effects = village.node(leaf).unsubscribe(1, village.world.now)
    village.world.carry_out(village.host(leaf), effects)
    village.run(1)

    assert leaf not in village.members(topic)
    assert village.host(leaf).peer not in village.children(above, topic)
    assert not [key for key in village.host(leaf).storage if key.startswith(b"pulsarcast/")]


@pytest.mark.parametrize("seed", [1, 2])
def test_a_lost_parent_is_replaced(seed: int) -> None:
    village = Village(30, seed=seed)
    topic = village.create(0)
    village.subscribe_all(range(30), topic)
    parents = village.parents(topic)
    inner = [node for node in parents if node in parents.values() and parents[node] is not None]
    village.crash(*inner[:2])
    village.publish(0, topic, b"while they are away")
    village.run(60)

    check_tree(village, topic)
    for node in range(30):
        if node not in inner[:2]:
            assert village.payloads(node) == [b"while they are away"]


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("is_root", [True, False])
def test_a_tree_is_whole_again_within_seconds(seed: int, is_root: bool) -> None:
    village = Village(30, seed=seed)
    topic = village.create(0)
    village.subscribe_all(range(30), topic)
    village.run(20)
    parents = village.parents(topic)
    inner = [node for node in parents if node in parents.values() and parents[node] is not None]
    lost = [0] if is_root else inner[:2]
    village.crash(*lost)
    village.run(8)

    placed = village.parents(topic)
    assert list(placed.values()).count(None) == 1
    assert not {*lost} & {*placed.values()}
    village.publish(7, topic, b"x")
    village.run(1)
    for node in range(30):
        assert village.payloads(node) == ([] if node in lost else [b"x"])


def test_lost_answers_do_not_inflate_the_round_trip_time() -> None:
    village = Village(10, network=NetworkOptions(loss=0.2))
    topic = village.create(0)
    village.run(20)
    village.subscribe_all(range(10), topic)
    village.run(300)

    assert max(village.core(node).liveness.round_trip_us for node in range(10)) < SECOND // 2


def test_a_parent_whose_connection_is_lost_is_probed_at_once() -> None:
    village, topic = village_with(20, 20)
    village.run(10)
    child, parent = next((n, p) for n, p in village.parents(topic).items() if p)
    before = village.received[parent, "Beat"]
    lost = Disconnected(village.host(parent).peer)
    effects = village.core(child).handle(lost, village.world.now)
    village.world.carry_out(village.host(child), effects)
    village.run(0.05)

    assert village.received[parent, "Beat"] > before
    assert village.parents(topic)[child] == parent


def test_a_lost_root_is_replaced_by_the_closest_node_and_comes_back() -> None:
    village, topic = village_with(20, 20)
    village.crash(0)
    village.run(60)
    acting = min(range(1, 20), key=lambda node: village.distance(node, topic))
    assert village.parents(topic)[acting] is None
    check_tree(village, topic)

    village.publish(5, topic, b"without the author")
    village.run(2)
    village.restart(0)
    village.run(20)

    assert village.parents(topic)[0] is None
    check_tree(village, topic)
    for node in range(20):
        assert village.payloads(node) == [b"without the author"]


def test_a_candidate_that_asks_for_patience_again_and_again_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def ask_for_patience(membership: Membership, contact: Contact, message: JoinTopic) -> None:
        membership._outbox.queue(contact.peer, Wait(message.topic_id))

    village = Village(3)
    for node in (0, 1):
        core = village.core(node)
        patient = partial(ask_for_patience, core.membership)
        monkeypatch.setitem(core._on_message, JoinTopic, patient)
    topic = village.create(0)
    village.subscribe(2, topic)
    village.run(50)
    assert village.subscribed() == set()
    village.run(100)
    assert village.subscribed() == {2}


def test_nodes_without_a_subscription_only_forward() -> None:
    village = Village(12, PulsarSettings(keepers=1))
    topic = village.create(0)
    village.crash(0)
    village.run(1)
    village.subscribe_all([3, 4], topic)
    village.run(30)
    village.publish(3, topic, b"x")
    village.run(2)

    assert village.payloads(4) == [b"x"]
    others = [node for node in range(1, 12) if node not in (3, 4)]
    assert not [node for node in others if village.payloads(node)]
