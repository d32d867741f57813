"""Topics in which publishers choose the links of events."""

from functools import partial

from smartpubsub.predicates import Predicate
from smartpubsub.protocols.blocks import Cid, cid_of, cid_text, encode
from smartpubsub.protocols.publication import EventId
from smartpubsub.protocols.pulsarcast.membership import TopicLeft
from smartpubsub.protocols.pulsarcast.settings import PulsarSettings
from smartpubsub.protocols.pulsarcast.topics import Linking, Rules, Topic
from tests.protocols.pulsarcast.village import Village

AUTHOR, NEWCOMER = 0, 15


def publish(village: Village, node: int, topic: Topic, payload: bytes, *parents: Cid) -> EventId:
    core, now = village.node(node), village.world.now
    event = core.new_event(Predicate.of({cid_text(topic.cid): True}), payload, now)
    effects = village.core(node).publish_in(topic.cid, event, now, parents)
    village.world.carry_out(village.host(node), effects)
    village.run(3)
    return event.id


def cid_at(village: Village, node: int, topic: Topic, payload: bytes) -> Cid:
    events = village.log(node, topic).after(None)
    return next(event.cid for event in events if event.draft.payload == payload)


def parents_of(village: Village, topic: Topic, payload: bytes) -> tuple[Cid, ...]:
    events = village.log(AUTHOR, topic).after(None)
    return next(event.parents for event in events if event.draft.payload == payload)


def test_a_newcomer_links_to_an_event_from_before_it_joined() -> None:
    village = Village(16, PulsarSettings(keepers=1))
    topic = village.create(AUTHOR, rules=Rules(linking=Linking.CUSTOM))
    publish(village, AUTHOR, topic, b"root")
    root = cid_at(village, AUTHOR, topic, b"root")
    publish(village, AUTHOR, topic, b"branch", root)
    assert NEWCOMER not in village.members(topic)
    id = publish(village, NEWCOMER, topic, b"other branch", root)
    village.run(5)

    assert id in village.published()
    assert parents_of(village, topic, b"other branch") == (root,)


def test_an_event_that_no_node_has_cannot_be_linked_to() -> None:
    village = Village(6)
    topic = village.create(AUTHOR, rules=Rules(linking=Linking.CUSTOM))
    id = publish(village, 4, topic, b"x", cid_of(encode({"no": "event"})))
    assert id not in village.refusals()
    village.run(30)

    assert village.refusals()[id] == "no node has the event to link to"


def test_an_event_that_waits_for_its_links_is_refused_when_its_topic_is_left() -> None:
    village = Village(6)
    topic = village.create(AUTHOR, rules=Rules(linking=Linking.CUSTOM))
    id = publish(village, 4, topic, b"x", cid_of(encode({"no": "event"})))
    core = village.core(4)
    (replica,) = core.replicas.by_id.values()
    core._on_membership_news(TopicLeft(replica))
    village.world.carry_out(village.host(4), core._outbox.take())

    assert village.refusals()[id] == "no node has the event to link to"


def test_an_author_with_invented_links_does_not_keep_others_from_linking() -> None:
    village = Village(16, PulsarSettings(keepers=1, waiting_count_max=20, names_max=10))
    topic = village.create(AUTHOR, rules=Rules(linking=Linking.CUSTOM))
    publish(village, AUTHOR, topic, b"root")
    root = cid_at(village, AUTHOR, topic, b"root")
    publish(village, AUTHOR, topic, b"branch", root)
    village.subscribe(NEWCOMER, topic)
    village.run(3)
    core, replica = village.core(NEWCOMER), village.replica(NEWCOMER, topic)
    assert root not in replica.log
    refused: list[int] = []
    for number in range(30):
        invented = cid_of(encode({"no": number}))
        core._parent_fetcher.when_here(
            *(replica, (invented,), village.host(7).peer),
            lambda: None,
            partial(refused.append, number),
        )
    village.world.carry_out(village.host(NEWCOMER), core._outbox.take())
    assert refused == list(range(20, 30))
    id = publish(village, NEWCOMER, topic, b"other branch", root)
    village.run(5)

    assert refused == [*range(20, 30), 19]  # The attacker's last request gave way.
    assert id in village.published()


def test_links_go_with_a_request_and_survive_a_restart() -> None:
    village = Village(16)
    author = village.host(AUTHOR).peer
    rules = Rules(publishers=(author,), takes_requests=True, linking=Linking.CUSTOM)
    topic = village.create(AUTHOR, rules=rules)
    publish(village, AUTHOR, topic, b"root")
    root = cid_at(village, AUTHOR, topic, b"root")
    for payload in (b"one", b"two"):
        publish(village, AUTHOR, topic, payload, root)
    id = publish(village, 7, topic, b"asked for", root)
    assert id in village.published()
    assert parents_of(village, topic, b"asked for") == (root,)

    village.crash(AUTHOR)
    publish(village, 7, topic, b"asked for in vain", cid_at(village, AUTHOR, topic, b"one"))
    village.crash(7)
    village.restart(AUTHOR, 7)
    village.run(60)
    one = cid_at(village, AUTHOR, topic, b"one")
    assert parents_of(village, topic, b"asked for in vain") == (one,)
