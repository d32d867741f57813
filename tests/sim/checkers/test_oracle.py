"""The oracle agrees with the predicates on what matches, and knows which nodes are owed what."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartpubsub.kademlia.settings import MINUTE
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.publication import EventId
from smartpubsub.sim.judging import oracle as oracle_module
from smartpubsub.sim.judging.journal import EventRecord, Journal, Span, Split, SubscriptionRecord
from smartpubsub.sim.judging.oracle import Oracle, expected_pairs, wants
from tests.matching.strategies import REPEATABLE, events, filters


@REPEATABLE
@given(filter=filters, event=events)
def test_the_rule_is_that_of_the_predicates(filter: Predicate, event: Predicate) -> None:
    assert wants(filter, event) == filter.matches(event)
    assert wants(event, event)


@REPEATABLE
@given(wishes=st.lists(filters, max_size=12), asked=st.lists(events, max_size=6))
def test_all_who_are_interested_are_found_in_their_order(
    wishes: list[Predicate], asked: list[Predicate]
) -> None:
    oracle = Oracle()
    records = []
    for number, predicate in enumerate(wishes):
        records.append(SubscriptionRecord(number, 1, predicate, 0))
        oracle.add(records[-1])
        for event in (*asked, *asked):
            interested = [record for record in records if record.predicate.matches(event)]
            assert oracle.interested(event) == interested


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oracle_module, "_REMEMBERED_MAX", 10)
    oracle = Oracle()
    oracle.add(SubscriptionRecord(1, 1, Predicate.parse("price[5,]"), 0))
    for _ in range(2):
        for price in range(100):
            found = oracle.interested(Predicate.parse(f"price={price}"))
            assert len(found) == (price >= 5)
            found.clear()


class Story:
    """A journal written by hand: all nodes subscribe to surf at 10, and node 0 publishes."""

    def __init__(self, nodes: int = 4) -> None:
        self.journal = Journal()
        self.oracle = Oracle()
        for node in range(nodes):
            self.subscribe(node, "surf")

    def subscribe(self, node: int, predicate: str) -> SubscriptionRecord:
        number = len(self.journal.subscriptions) + 1
        record = SubscriptionRecord(node, number, Predicate.parse(predicate), 10, [Span(10)])
        self.journal.subscriptions[node, number] = record
        self.oracle.add(record)
        return record

    def publish(self, at: int, *, acknowledged: bool = True) -> EventRecord:
        id = EventId(b"publisher", 0, len(self.journal.events) + 1)
        event = EventRecord(id, 0, Predicate.parse("surf/price=5"), at)
        event.acknowledged_us = at + 1 if acknowledged else None
        self.journal.events[id] = event
        return event

    def owed(self, event: EventRecord) -> list[int]:
        expected = expected_pairs(self.journal, self.oracle, refresh_us=MINUTE)
        return list(expected.get(event.id, ()))


def test_an_event_is_owed_once_to_each_node_that_wants_it_also_to_its_publisher() -> None:
    story = Story()
    story.subscribe(2, "price[1,9]")
    story.subscribe(3, "chess")

    assert story.owed(story.publish(20)) == [0, 1, 2, 3]


def test_only_subscriptions_in_force_count() -> None:
    story = Story(1)
    record = story.subscribe(1, "surf")
    record.in_force = [Span(15, 20), Span(30)]
    events = [story.publish(at) for at in (14, 15, 19, 20, 29, 30)]

    assert [1 in story.owed(event) for event in events] == [False, True, True, False, False, True]


def test_nothing_is_owed_of_what_was_refused() -> None:
    story = Story()
    event = story.publish(20)
    event.refused = "no"

    assert story.owed(event) == []


def test_what_was_not_acknowledged_is_owed_if_its_publisher_stayed_up() -> None:
    story = Story()
    before, after = (story.publish(at, acknowledged=False) for at in (20, 40))
    acknowledged = story.publish(20)
    story.journal.downs[0] = [Span(25, 30)]

    assert story.owed(before) == []
    assert story.owed(after) == [0, 1, 2, 3]
    assert story.owed(acknowledged) == [0, 1, 2, 3]


def test_what_was_published_at_the_time_of_a_restart_is_not_owed() -> None:
    story = Story()
    published = story.publish(20, acknowledged=False)
    story.journal.downs[0] = [Span(20, 20)]

    assert story.owed(published) == []


def test_nothing_is_owed_to_nodes_that_do_not_come_back() -> None:
    story = Story()
    story.journal.downs[1] = [Span(50, 60)]
    story.journal.downs[2] = [Span(50)]

    assert story.owed(story.publish(20)) == [0, 1, 3]


def test_a_split_is_felt_for_a_refresh_cycle_after_its_heal() -> None:
    story = Story()
    story.journal.splits.append(Split(frozenset({2, 3}), 100, 200))
    times = (99, 100, 199, 200, 199 + MINUTE, 200 + MINUTE)

    assert [story.owed(story.publish(at)) for at in times] == [
        [0, 1, 2, 3],
        [0, 1],
        [0, 1],
        [0, 1],
        [0, 1],
        [0, 1, 2, 3],
    ]
