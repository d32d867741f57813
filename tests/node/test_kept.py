"""Queues on disk, against a model that has only what the reader may see."""

from __future__ import annotations

from random import Random

import pytest

from smartpubsub.node.storage import kept
from smartpubsub.node.storage.kept import (
    PREFIX,
    TAKEN_US_MAX,
    Change,
    KeptLimits,
    KeptQueues,
)
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.publication import EventId, Publication
from smartpubsub.protocols.pubsub import Delivery

LIMITS = KeptLimits(event_count_max=8, byte_count_max=1 << 20, all_bytes_max=1 << 20)


def delivery(number: int, payload: bytes = b"x") -> Delivery:
    id = EventId(b"publisher", 1, number)
    return Delivery(Publication.of(id, Predicate.parse("a"), payload, bytes(64), 5), (1,), 2)


class Disk(dict[bytes, bytes]):
    """What is stored."""

    def store(self, changes: list[Change]) -> None:
        for key, value in changes:
            if value is None:
                self.pop(key, None)
            else:
                self[key] = value

    def load(self, limits: KeptLimits = LIMITS) -> KeptQueues:
        return KeptQueues(limits, sorted(self.items()))


@pytest.mark.parametrize("seed", range(20))
def test_a_reader_gets_all_events_in_order_and_each_again_until_it_acknowledges(seed: int) -> None:
    rng = Random(seed)
    disk = Disk()
    queues = disk.load()
    queue, changes = queues.create(1, is_kept=True)
    disk.store(changes)
    queue.begin()
    waiting: list[int] = []
    given = dropped = told = told_and_acknowledged = 0
    last = 0
    for _ in range(400):
        action = rng.choice(["append", "append", "next", "take", "crash"])
        if action == "append":
            last += 1
            disk.store(queues.append(queue, delivery(last), last))
            queue.show(str(delivery(last).event.id))
            waiting.append(last)
            if len(waiting) > LIMITS.event_count_max:
                waiting.pop(0)
                dropped += given == 0
                given = max(0, given - 1)
        elif action == "next":
            found = queue.next()
            assert (found is None) == (given == len(waiting))
            if found is not None:
                assert found[0].event.id.number == waiting[given]
                assert (found[0].hops, found[0].event) == (2, delivery(waiting[given]).event)
                given += 1
                told += found[1]
                assert told == dropped
        elif action == "take" and given:
            count = rng.randrange(1, given + 1)
            disk.store(queue.take(str(EventId(b"publisher", 1, waiting[count - 1])), last))
            waiting, given = waiting[count:], given - count
            told_and_acknowledged = told
        elif action == "crash":
            queues = disk.load()
            found_queue = queues.get(1)
            assert found_queue is not None
            queue, given, told = found_queue, 0, told_and_acknowledged
        queues.check()
        assert queue.dropped == dropped
        assert len(queue) == len(waiting)
    disk.store(queues.remove(1))
    assert disk == {}


def test_history_comes_before_what_waited_and_each_event_once() -> None:
    disk = Disk()
    queues = disk.load()
    queue, changes = queues.create(1, is_kept=True)
    disk.store(changes)
    for number in (4, 5):
        disk.store(queues.append(queue, delivery(number), 1))
    queue.begin()
    queue.begin_history()
    for number in (2, 3, 4, 6):
        disk.store(queues.append(queue, delivery(number), 1))
    disk.store(queue.end_history())
    queues.check()
    for read in (queue, disk.load().get(1)):
        assert read is not None
        numbers = []
        while (found := read.next()) is not None:
            numbers.append(found[0].event.id.number)
        assert numbers == [2, 3, 4, 6, 5]


def test_an_event_that_a_peer_sends_again_after_a_restart_is_not_delivered_again() -> None:
    disk = Disk()
    queues = disk.load()
    queue, changes = queues.create(1, is_kept=True)
    disk.store([*changes, *queues.append(queue, delivery(1), 1)])
    queues = disk.load()
    again = queues.get(1)
    assert again is not None
    assert again.next() is not None
    disk.store(again.take(str(delivery(1).event.id), 1))
    assert queues.append(again, delivery(1), 2) == []
    queues = disk.load()
    again = queues.get(1)
    assert again is not None
    assert queues.append(again, delivery(1), 2) == []
    again.begin_history()  # But a reader can ask for it again.
    disk.store(queues.append(again, delivery(1), 2))
    disk.store(again.end_history())
    assert again.next() is not None
    queues.check()


def test_acknowledged_events_are_forgotten_when_peers_do_not_send_them_any_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    count_max = 20
    monkeypatch.setattr(kept, "TAKEN_COUNT_MAX", count_max)
    disk = Disk()
    limits = KeptLimits(event_count_max=1 << 20, byte_count_max=1 << 30, all_bytes_max=1 << 30)
    queues = disk.load(limits)
    queue, changes = queues.create(1, is_kept=True)
    disk.store(changes)
    for number in range(count_max + 10):
        disk.store(queues.append(queue, delivery(number), 1))
        disk.store(queue.take(str(delivery(number).event.id), 1))
    assert len(disk) == count_max + 1
    queues.check()
    later = 2 + TAKEN_US_MAX
    disk.store(queues.append(queue, delivery(1 << 20), later))
    disk.store(queue.take(str(delivery(1 << 20).event.id), later))
    assert len(disk) == 2
    disk.store(queues.remove(1))
    assert disk == {}


def test_events_beyond_a_limit_are_dropped_oldest_first() -> None:
    disk = Disk()
    limits = KeptLimits(
        event_count_max=100, byte_count_max=3_000, all_bytes_max=4_000, age_us_max=10
    )
    queues = disk.load(limits)
    one, _ = queues.create(1, is_kept=True)
    two, _ = queues.create(2, is_kept=False)
    for number in range(5):
        disk.store(queues.append(one, delivery(number, bytes(800)), 1))
    assert (len(one), one.dropped) == (3, 2)
    for number in range(3):
        disk.store(queues.append(two, delivery(number, bytes(800)), 5))
    assert one.byte_count + two.byte_count <= limits.all_bytes_max
    assert len(one) + len(two) == 4
    disk.store(one.expire(12, limits))
    assert (len(one), one.dropped) == (0, 5)
    queues.check()


def test_an_event_larger_than_the_limit_is_dropped_alone() -> None:
    disk = Disk()
    limits = KeptLimits(event_count_max=9, byte_count_max=1_000, all_bytes_max=1_000)
    queues = disk.load(limits)
    queue, changes = queues.create(7, is_kept=True)
    disk.store(changes)
    disk.store(queues.append(queue, delivery(1, bytes(5_000)), 1))
    disk.store(queues.append(queue, delivery(2), 1))
    queue.show(str(delivery(2).event.id))
    found = queue.next()
    assert found is not None
    assert (found[0].event.id.number, found[1]) == (2, 1)
    assert all(key.startswith(PREFIX) for key in disk)


def test_queues_of_ended_subscriptions_are_removed() -> None:
    disk = Disk()
    queues = disk.load()
    for number in (1, 2):
        queue, changes = queues.create(number, is_kept=False)
        disk.store(changes)
        disk.store(queues.append(queue, delivery(3), 1))
    disk.store(queues.retain([2]))
    assert [queue.number for queue in disk.load()] == [2]
