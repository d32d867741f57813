"""Durable subscriptions survive a restart with the events not taken; and pruning."""

from collections.abc import Iterator

import pytest

from smartpubsub.predicates import Predicate
from smartpubsub.protocols.blocks import cid_text
from smartpubsub.protocols.pubsub import Subscription
from smartpubsub.protocols.pulsarcast.settings import PulsarSettings, Retention
from smartpubsub.protocols.pulsarcast.topics import Rules, Topic, rules_ordered_by
from tests.protocols.pulsarcast.village import Village

AUTHOR, READER = 0, 5


def keep(village: Village, topic: Topic) -> int:
    number = village.node(READER).new_number()
    wanted = Subscription(number, Predicate.of({cid_text(topic.cid): True}))
    effects = village.core(READER).subscribe(wanted, village.world.now, is_kept=True)
    village.world.carry_out(village.host(READER), effects)
    village.run(2)
    return number


def waiting(village: Village, number: int) -> list[bytes]:
    return list(_waiting(village, number))


def _waiting(village: Village, number: int) -> Iterator[bytes]:
    subscriptions = village.core(READER).subscriptions
    given: dict[bytes, None] = {}
    while (event := subscriptions.next(number, given)) is not None:
        given[event.cid] = None
        yield bytes(event.draft.payload)


def take(village: Village, number: int, count: int) -> None:
    core = village.core(READER)
    cid = [*core.subscriptions.waiting_for(number)][count - 1]
    effects = core.acknowledge(number, cid, village.world.now)
    village.world.carry_out(village.host(READER), effects)


@pytest.mark.parametrize("ordered", [False, True])
def test_events_not_taken_wait_across_a_crash_and_later_ones_follow(ordered: bool) -> None:
    village = Village(8)
    rules = rules_ordered_by(village.host(AUTHOR).peer) if ordered else Rules()
    topic = village.create(AUTHOR, rules=rules)
    number = keep(village, topic)
    for payload in (b"0", b"1", b"2", b"3"):
        village.publish(AUTHOR, topic, payload)
        village.run(0.5)
    take(village, number, 2)
    assert waiting(village, number) == [b"2", b"3"]
    village.crash(READER)
    for payload in (b"4", b"5"):
        village.publish(1, topic, payload)
        village.run(0.5)
    village.restart(READER)
    village.run(20)

    assert waiting(village, number) == [b"2", b"3", b"4", b"5"]
    assert village.core(READER).subscriptions.kept == {number: 4}
    take(village, number, 4)
    village.publish(AUTHOR, topic, b"6")
    village.run(2)
    assert waiting(village, number) == [b"6"]


def test_an_ended_subscription_leaves_nothing_in_storage() -> None:
    village = Village(8, PulsarSettings(keepers=1))
    topic = village.create(AUTHOR)
    number = keep(village, topic)
    village.publish(AUTHOR, topic, b"x")
    village.run(1)
    effects = village.core(READER).unsubscribe(number, village.world.now)
    village.world.carry_out(village.host(READER), effects)
    village.run(1)

    stored = village.host(READER).storage
    assert not [key for key in stored if b"/kept/" in key or b"/waiting/" in key]
    village.crash(READER)
    village.restart(READER)
    village.run(5)
    assert not village.core(READER).subscriptions.kept


def test_pruned_events_do_not_wait_for_a_subscription_and_are_counted() -> None:
    village = Village(6, PulsarSettings(retention=Retention(event_count_max=10)))
    topic = village.create(AUTHOR)
    number = keep(village, topic)
    for count in range(25):
        village.publish(AUTHOR, topic, b"%02d" % count)
        village.run(0.2)
    village.run(2)

    assert waiting(village, number) == [b"%02d" % count for count in range(15, 25)]
    assert village.core(READER).subscriptions.dropped[number] == 15


def test_long_events_are_pruned_by_size() -> None:
    village = Village(5, PulsarSettings(retention=Retention(byte_count_max=20_000)))
    topic = village.create(AUTHOR)
    village.subscribe_all(range(5), topic)
    for count in range(10):
        village.publish(AUTHOR, topic, bytes([count]) * 5_000)
        village.run(0.5)

    for node in range(5):
        log = village.log(node, topic)
        assert len(log) == 3
        assert log.bytes <= 20_000


def test_all_topics_together_keep_to_a_limit_and_pinned_events_stay() -> None:
    village = Village(5, PulsarSettings(stored_bytes_max=60_000))
    pinned, other = village.create(AUTHOR, "pinned"), village.create(AUTHOR, "other")
    village.subscribe_all(range(5), pinned)
    village.subscribe_all(range(5), other)
    for node in range(5):
        effects = village.core(node).pin(pinned.cid, True, village.world.now)
        village.world.carry_out(village.host(node), effects)
    for count in range(10):
        village.publish(AUTHOR, other, bytes([count]) * 5_000)
        village.publish(AUTHOR, pinned, bytes([count]) * 4_000)
        village.run(0.5)

    for node in range(5):
        assert len(village.log(node, pinned)) >= 10
        assert 1 <= len(village.log(node, other)) <= 4
        assert village.core(node).store.stored_bytes <= 60_000
    for count in range(10):
        village.publish(AUTHOR, pinned, bytes([count]) * 4_000)
        village.run(0.5)
    assert village.refused()["no room"]
    assert village.core(1).store.stored_bytes <= 60_000


def test_a_node_that_pins_a_topic_fetches_all_of_it() -> None:
    village = Village(20, PulsarSettings(keepers=1))
    topic = village.create(AUTHOR)
    for count in range(5):
        village.publish(AUTHOR, topic, b"%d" % count)
        village.run(0.5)
    number = keep(village, topic)
    assert not waiting(village, number)
    assert len(village.log(READER, topic)) == 0
    effects = village.core(READER).pin(topic.cid, True, village.world.now)
    village.world.carry_out(village.host(READER), effects)
    village.run(10)

    assert len(village.log(READER, topic)) == 6
    assert village.log(READER, topic).has_all
    assert not waiting(village, number)


def test_a_subscription_that_has_not_begun_again_does_not_wait_for_pruned_events() -> None:
    village = Village(8)
    topic = village.create(AUTHOR)
    number = keep(village, topic)
    for payload in (b"0", b"1", b"2"):
        village.publish(AUTHOR, topic, payload)
        village.run(0.5)
    subscriptions = village.core(READER).subscriptions
    subscriptions._by_topic.clear()  # As after a restart, until the node has joined.
    subscriptions.on_pruned(village.log(READER, topic).newest(3)[:1])
    assert waiting(village, number) == [b"1", b"2"]
    assert subscriptions.dropped[number] == 1
