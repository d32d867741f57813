"""New versions of topics: which nodes learn them, and which events they allow."""

from collections.abc import Mapping

from smartpubsub.protocols.blocks import Cid
from smartpubsub.protocols.pulsarcast.events import predicate_of
from smartpubsub.protocols.pulsarcast.history import Wanted
from smartpubsub.protocols.pulsarcast.messages import Parcel, Spread
from smartpubsub.protocols.pulsarcast.results import HistoryRead, TopicDescribed
from smartpubsub.protocols.pulsarcast.topics import Rules, Topic
from smartpubsub.seam import Received
from tests.protocols.pulsarcast.village import Village

AUTHOR, GUEST, NEWCOMER = 0, 3, 30


def updated(
    village: Village,
    topic: Topic,
    rules: Rules | None = None,
    subtopics: Mapping[str, Cid] | None = None,
) -> Topic:
    made, effects = village.core(AUTHOR).update(
        topic.cid, village.world.now, rules=rules, subtopics=subtopics
    )
    village.world.carry_out(village.host(AUTHOR), effects)
    village.run(2)
    return made


def versions(village: Village, node: int, topic: Topic) -> tuple[Topic, ...]:
    """The versions of a topic that a node finds."""
    number, effects = village.core(node).describe(topic.cid, village.world.now)
    village.world.carry_out(village.host(node), effects)
    village.run(15)
    found = [t for n, t in village.told if n == node and isinstance(t, TopicDescribed)]
    assert found[-1].number == number
    return found[-1].versions


def history(village: Village, node: int, topic: Topic, last: int = 0) -> list[bytes]:
    _, effects = village.core(node).read(topic.cid, Wanted(last=last), village.world.now)
    village.world.carry_out(village.host(node), effects)
    village.run(15)
    read = [t for n, t in village.told if n == node and isinstance(t, HistoryRead)][-1]
    return [bytes(e.draft.payload) for e in read.events if not e.draft.is_announcement]


def test_an_author_knows_its_newest_version_after_a_restart() -> None:
    village = Village(8)
    first = village.create(AUTHOR)
    second = updated(village, first, Rules(takes_requests=True))
    village.crash(AUTHOR)
    village.restart(AUTHOR)
    village.run(10)
    third = updated(village, first, Rules())

    assert (third.version, third.parent) == (3, second.cid)
    assert versions(village, 5, first) == (third, second, first)


def test_an_author_stays_in_the_tree_of_its_topic_without_subscribers() -> None:
    village = Village(8)
    topic = village.create(AUTHOR)
    village.run(2 * 60 * 60)

    assert AUTHOR in village.members(topic)
    assert updated(village, topic, Rules(takes_requests=True)).version == 2


def test_a_newcomer_with_an_old_version_finds_all_versions() -> None:
    village = Village(NEWCOMER + 1)
    first = village.create(AUTHOR)
    surf = village.create(1, "surf")
    second = updated(village, first, subtopics={"surf": surf.cid})
    third = updated(village, second, Rules(takes_requests=True))

    assert versions(village, NEWCOMER, first) == (third, second, first)
    assert third.subtopics["surf"] == surf.cid
    assert versions(village, NEWCOMER, third) == (third, second, first)


def test_history_has_events_that_only_a_later_version_allows() -> None:
    village = Village(NEWCOMER + 1)
    author, guest = village.host(AUTHOR).peer, village.host(GUEST).peer
    first = village.create(AUTHOR, rules=Rules(publishers=(author,)))
    village.publish(AUTHOR, first, b"closed")
    village.run(1)
    updated(village, first, Rules(publishers=(author, guest)))
    village.publish(GUEST, first, b"by a guest")
    village.run(1)
    updated(village, first, Rules(publishers=(author,)))
    village.publish(AUTHOR, first, b"closed again")
    village.run(2)

    assert history(village, NEWCOMER, first) == [b"closed", b"by a guest", b"closed again"]
    assert not village.core(NEWCOMER).tally().refused


def test_the_last_events_are_counted_without_announcements() -> None:
    village = Village(8)
    topic = village.create(AUTHOR)
    for payload in (b"1", b"2"):
        village.publish(AUTHOR, topic, payload)
        village.run(1)
    updated(village, topic, Rules(takes_requests=True))

    for node in (AUTHOR, 6):
        assert history(village, node, topic, last=1) == [b"2"]
        assert history(village, node, topic, last=5) == [b"1", b"2"]


def test_a_topic_that_no_node_has_has_no_versions() -> None:
    village, other = Village(6), Village(6, seed=2)
    nowhere = other.create(AUTHOR)
    number, effects = village.core(4).describe(nowhere.cid, village.world.now)
    village.world.carry_out(village.host(4), effects)
    village.run(10)  # The user who asks waits for three searches, and not for all ten.

    assert (4, TopicDescribed(number, ())) in village.told


def test_an_event_brings_the_version_of_its_own_topic_to_a_neighbour_in_several() -> None:
    village = Village(2)
    topics = [village.create(0, name) for name in ("first", "second", "third")]
    for topic in topics:
        village.subscribe(1, topic)
    village.run(10)
    now = village.world.now
    version, _ = village.core(0).update(topics[1].cid, now)  # All messages about it are lost.
    village.node(0).publish(predicate_of(version.cid), b"news", now)
    event = village.log(0, version).newest(1)[0]

    received = Received(village.host(0).peer, Parcel((Spread(event.block, 1),)))
    village.world.carry_out(village.host(1), village.core(1).handle(received, now))
    village.run(0.5)

    assert version.cid in village.replica(1, version).versions
    assert not village.refused()["unauthorised"]
