"""New topics and versions, and who may publish in them."""

import pytest

from smartpubsub.kademlia.values import ValueStore
from smartpubsub.protocols.pulsarcast.messages import Parcel, Spread
from smartpubsub.protocols.pulsarcast.results import TopicStored
from smartpubsub.protocols.pulsarcast.topics import Rules, rules_ordered_by
from smartpubsub.seam import Received, Store
from smartpubsub.sim.kernel.signing import StandInSigning
from tests.protocols.pulsarcast.makers import Person
from tests.protocols.pulsarcast.village import Village


def test_every_node_can_find_a_topic_and_its_meta_topic() -> None:
    village = Village(12)
    topic = village.create(0)
    assert topic.meta is not None

    assert (0, TopicStored(topic.cid)) in village.told
    for cid in (topic.cid, topic.meta):
        held = [
            h for h in village.world.hosts if village.node(h.number).kademlia.values.get(cid, 0)
        ]
        assert len(held) == 12


def test_an_author_that_restarts_stores_the_descriptors_that_others_lack() -> None:
    village = Village(12)
    _, effects = village.core(0).create("news", village.world.now)
    stored = [effect for effect in effects if isinstance(effect, Store)]
    village.world.carry_out(village.host(0), stored)  # It crashes before it sends anything.
    village.crash(0)
    village.restart(0)
    village.run(20)

    (topic,) = {replica.topic.cid for replica in village.core(0).replicas.by_id.values()}
    values = [village.node(node).kademlia.values for node in range(12)]
    assert sum(held.get(topic, village.world.now) is not None for held in values) == 12


def test_subscribers_follow_to_a_new_version_and_its_rules_hold_everywhere() -> None:
    village = Village(12)
    first = village.create(0)
    village.subscribe_all(range(12), first)
    core = village.core(0)
    rules = Rules(publishers=(village.host(0).peer, village.host(3).peer))
    second, effects = core.update(first.cid, village.world.now, rules=rules)
    village.world.carry_out(village.host(0), effects)
    village.run(2)

    assert (0, TopicStored(second.cid)) in village.told
    assert all(village.replica(node, first).topic == second for node in range(12))
    assert second.parent == first.cid
    village.publish(3, first, b"allowed")  # A node that knows an old version follows too.
    refused = village.publish(4, second, b"not allowed")
    village.run(1)
    assert village.payloads(7) == [b"allowed"]
    assert "does not allow" in village.refusals()[refused]


def test_a_subscriber_to_an_old_version_learns_the_newest() -> None:
    village = Village(12)
    first = village.create(0)
    versions = [first]
    for _ in range(3):
        core, now = village.core(0), village.world.now
        topic, effects = core.update(versions[-1].cid, now, rules=Rules(takes_requests=True))
        village.world.carry_out(village.host(0), effects)
        village.run(1)
        versions.append(topic)
    village.subscribe(5, first)
    village.run(3)

    assert village.replica(5, first).topic == versions[-1]


def test_sub_topics_are_links_to_other_topics() -> None:
    village = Village(8)
    surf = village.create(0, "surf")
    sports = village.create(1, "sports", subtopics={"surf": surf.cid})
    village.subscribe_all([4], sports)

    assert village.replica(4, sports).topic.subtopics["surf"] == surf.cid


def test_a_node_that_may_neither_publish_nor_request_is_refused() -> None:
    village = Village(8)
    topic = village.create(0, rules=Rules(publishers=(village.host(0).peer,)))
    village.subscribe_all(range(8), topic)
    id = village.publish(3, topic, b"x")
    village.run(1)

    assert "does not allow" in village.refusals()[id]
    assert not village.payloads(0)


def test_publishing_in_a_topic_that_no_node_has_is_refused() -> None:
    village = Village(6)
    nowhere, _ = Person(1).topic()
    id = village.publish(3, nowhere)
    village.run(60)

    assert "not found" in village.refusals()[id]


@pytest.mark.parametrize("ordered", [False, True])
def test_publishing_from_outside_the_tree_reaches_the_tree(ordered: bool) -> None:
    village = Village(20)
    rules = rules_ordered_by(village.host(0).peer) if ordered else Rules()
    topic = village.create(0, rules=rules)
    village.subscribe_all(range(10), topic)
    ids = [village.publish(15, topic, b"%d" % number) for number in range(3)]
    village.run(5)

    assert village.published() >= set(ids)
    for node in range(10):
        assert village.payloads(node) == [b"0", b"1", b"2"]
    assert not village.payloads(15)


def test_an_invalid_event_of_a_neighbour_goes_no_further_and_is_counted() -> None:
    village = Village(20)
    topic = village.create(0, rules=Rules(publishers=(village.host(0).peer,)))
    village.subscribe_all(range(20), topic)
    parents = village.parents(topic)
    victim = next(node for node in parents.values() if node)
    hostile = next(node for node, parent in parents.items() if parent == victim)
    by_hostile = Person(9).event(topic)  # A peer that the topic does not allow.
    for block in (by_hostile.block, b"garbage", bytes(2 << 20)):
        said = Received(village.host(hostile).peer, Parcel((Spread(block, 1),)))
        effects = village.node(victim).handle(said, village.world.now)
        assert not effects
    village.run(1)
    village.publish(0, topic, b"honest")
    village.run(1)

    assert village.core(victim).tally().refused == {
        "unauthorised": 1,
        "malformed": 1,
        "oversized": 1,
    }
    assert sum(village.refused().values()) == 3
    assert all(village.payloads(node) == [b"honest"] for node in range(20))


def test_a_forged_event_is_stopped_at_the_first_hop() -> None:
    village = Village(10)
    topic = village.create(0)
    village.subscribe_all(range(10), topic)
    eve = Person(3)
    forged = eve.event(topic)
    signing = StandInSigning(village.host(1).peer)
    assert not signing.is_statement_of(eve.peer, forged.signed, forged.signature)
    said = Received(village.host(1).peer, Parcel((Spread(forged.block, 1),)))
    effects = village.node(0).handle(said, forged.draft.created_us)

    assert not [
        e
        for e in effects
        if isinstance(getattr(e, "message", None), Parcel)
        and any(
            isinstance(part, Spread)
            for part in e.message.parts  # type: ignore[union-attr]
        )
    ]
    assert village.core(0).tally().refused == {"forged": 1}


def test_a_descriptor_that_no_node_has_room_for_is_stored_when_there_is_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    village = Village(1)
    with monkeypatch.context() as patched:
        patched.setattr(ValueStore, "put", lambda *_: False)
        topic = village.create(0)
        village.run(10)
        assert (0, TopicStored(topic.cid)) not in village.told
    village.run(10)
    assert (0, TopicStored(topic.cid)) in village.told
