"""History since an event: the reader finds a node that knows it, or reports that none does."""

import pytest

from smartpubsub.protocols.blocks import Cid
from smartpubsub.protocols.pulsarcast.history import Wanted
from smartpubsub.protocols.pulsarcast.log import Log
from smartpubsub.protocols.pulsarcast.results import HistoryRead
from smartpubsub.protocols.pulsarcast.topics import Topic
from tests.protocols.pulsarcast.village import Village

AUTHOR, STRANGER = 0, 30


def read_since(village: Village, node: int, topic: Topic, since: Cid) -> HistoryRead:
    wanted = Wanted(since=since)
    number, effects = village.core(node).read(topic.cid, wanted, village.world.now)
    village.world.carry_out(village.host(node), effects)
    village.run(20)
    return next(t for _, t in village.told if isinstance(t, HistoryRead) and t.number == number)


def event_of(village: Village, topic: Topic, payload: bytes) -> Cid:
    events = village.log(AUTHOR, topic).events.values()
    return next(event.cid for event in events if event.draft.payload == payload)


def payloads(read: HistoryRead) -> list[bytes]:
    return [bytes(event.draft.payload) for event in read.events]


@pytest.mark.parametrize("count", [1, 8, STRANGER + 1])
def test_an_unknown_event_is_reported(count: int) -> None:
    village = Village(count)
    topic = village.create(AUTHOR)
    village.publish(AUTHOR, topic, b"one")
    village.run(2)

    for node in {AUTHOR, count - 1}:
        read = read_since(village, node, topic, topic.cid)
        assert (read.topic, read.events, read.is_since_known) == (topic, (), False)


def test_a_node_without_a_replica_reads_on_from_an_event() -> None:
    village = Village(STRANGER + 1)
    topic = village.create(AUTHOR)
    for payload in (b"one", b"two", b"three"):
        village.publish(AUTHOR, topic, payload)
        village.run(1)
    first = event_of(village, topic, b"one")

    read = read_since(village, STRANGER, topic, first)
    assert (payloads(read), read.is_since_known) == ([b"two", b"three"], True)


def test_an_event_that_has_not_arrived_yet_is_found_on_another_node() -> None:
    village = Village(8)
    topic = village.create(AUTHOR)
    village.subscribe_all(range(8), topic)
    for payload in (b"one", b"two"):
        village.publish(AUTHOR, topic, payload)
        village.run(1)
    first = event_of(village, topic, b"one")
    late = next(n for n in range(1, 8) if village.log(n, topic).has_all)
    log = village.replica(late, topic).log = Log()
    log.settle(has_all=True)  # As if all events were still on their way.

    read = read_since(village, late, topic, first)
    assert (payloads(read), read.is_since_known) == ([b"two"], True)
