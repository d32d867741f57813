"""A keeper that is up and never confirms events does not stop publishing."""

from smartpubsub.protocols.pubsub import Published
from smartpubsub.protocols.pulsarcast.keepers import RESENT_AT_ONCE_MAX
from smartpubsub.protocols.pulsarcast.messages import InviteKeeper, KeepEvents
from smartpubsub.protocols.pulsarcast.results import TopicStored
from smartpubsub.protocols.pulsarcast.settings import PulsarSettings
from smartpubsub.protocols.pulsarcast.topics import Topic
from smartpubsub.sim.kernel.network import NetworkOptions
from tests.protocols.pulsarcast.village import Village


def make_deaf(village: Village, *nodes: int) -> None:
    """Have nodes ignore what is asked of keepers; they answer everything else."""
    for node in nodes:
        handlers = village.core(node)._on_message
        handlers[KeepEvents] = handlers[InviteKeeper] = lambda *_: None


def published_within(village: Village, node: int, topic: Topic, seconds: float) -> Published | None:
    """Publish, and return the acknowledgement if it has come after a time."""
    id = village.publish(node, topic)
    village.run(seconds)
    return next((i for _, i in village.told if isinstance(i, Published) and i.id == id), None)


def other_keepers(village: Village, topic: Topic) -> list[int]:
    return [node for node in village.keepers(0, topic) if node != 0]


def test_a_keeper_that_never_confirms_is_replaced() -> None:
    village = Village(12)
    topic = village.create(0)
    liar = other_keepers(village, topic)[0]
    make_deaf(village, liar)
    peer = village.host(liar).peer

    first = published_within(village, 0, topic, 5)
    assert first is not None
    assert len(first.kept_by) == 3
    assert peer not in first.kept_by
    for _ in range(30):
        again = published_within(village, 0, topic, 0.2)
        assert again is not None
        assert len(again.kept_by) == 3
        assert peer not in again.kept_by
    assert liar not in village.keepers(0, topic)
    # The others store the event indeed.
    for node in village.keepers(0, topic):
        assert len(village.log(node, topic)) == 32
    [state] = village.node(0).kademlia.blame.states(village.world.now)
    assert (state.blamed, state.reasons) == (peer, {"unconfirmed": 1})


def test_a_keeper_that_never_confirms_is_left_out_longer_each_time() -> None:
    village = Village(12)
    topic = village.create(0)
    make_deaf(village, other_keepers(village, topic)[0])
    slow = 0
    for _ in range(30):
        village.run(120)
        if published_within(village, 0, topic, 0.2) is None:
            slow += 1
            village.run(5)
            assert not village.core(0).keepers.pending_count(village.replica(0, topic))
    assert 2 <= slow <= 8


def test_a_topic_is_made_although_a_keeper_never_confirms() -> None:
    village = Village(8)
    make_deaf(village, 3, 5)
    topics = [village.create(0, f"topic {number}") for number in range(4)]
    village.run(5)
    stored = {item.topic for _, item in village.told if isinstance(item, TopicStored)}
    assert stored == {topic.cid for topic in topics}


def test_the_only_other_node_never_confirms() -> None:
    village = Village(2)
    topic = village.create(0)
    make_deaf(village, 1)
    assert published_within(village, 0, topic, 5) is None  # No node can replace it: wait longer.
    village.run(15)
    assert not village.core(0).keepers.pending_count(village.replica(0, topic))
    again = published_within(village, 0, topic, 0.2)
    assert again is not None
    assert again.kept_by == (village.host(0).peer,)


def test_an_event_that_all_others_refuse_is_not_acknowledged() -> None:
    village = Village(5)
    topic = village.create(0)
    make_deaf(village, 1, 2, 3, 4)
    assert published_within(village, 0, topic, 300) is None


def test_slow_keepers_that_confirm_are_kept() -> None:
    """Each answer takes longer than the usual time: the round trips are long."""
    village = Village(12, network=NetworkOptions(latency_us=1_000_000))
    topic = village.create(0)
    village.run(60)
    for _ in range(5):
        acknowledged = published_within(village, 0, topic, 20)
        assert acknowledged is not None
        assert len(acknowledged.kept_by) == 3
    assert not village.node(0).kademlia.blame.states(village.world.now)


def test_a_busy_keeper_is_kept() -> None:
    """On a full link its confirmations come late, but one after the other."""
    village = Village(12)
    topic = village.create(0)
    village.subscribe_all(range(12), topic)
    before = village.keepers(0, topic)
    for node in range(12):
        village.world.network.slow_down(node, 150)
    wanted = {village.publish(0, topic, b"%d" % number) for number in range(40)}
    village.run(60)
    assert village.published() >= wanted
    assert village.keepers(0, topic) == before
    assert not village.node(0).kademlia.blame.states(village.world.now)


def test_lost_messages_do_not_make_an_honest_keeper_be_left_out() -> None:
    village = Village(8, PulsarSettings(keepers=3), network=NetworkOptions(loss=0.1))
    topic = village.create(0)
    village.run(20)
    wanted = {village.publish(0, topic) for _ in range(RESENT_AT_ONCE_MAX // 2)}
    village.run(4)
    assert village.published() >= wanted
    assert not village.node(0).kademlia.blame.states(village.world.now)
