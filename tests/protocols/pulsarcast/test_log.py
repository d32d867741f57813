"""The DAG of events: what is missing, what a peer lacks, and one order on all nodes."""

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from smartpubsub.protocols.blocks import Cid
from smartpubsub.protocols.pulsarcast.events import TopicEvent
from smartpubsub.protocols.pulsarcast.log import Log
from smartpubsub.protocols.pulsarcast.settings import Retention
from tests.protocols.pulsarcast.makers import NOW, Person

ANN = Person(1)
TOPIC, _ = ANN.topic()


def graph(choices: list[list[int]]) -> list[TopicEvent]:
    """Events that each link to some of those before."""
    events: list[TopicEvent] = []
    for chosen in choices:
        parents = {number % len(events): None for number in chosen if events}
        linked = [events[number] for number in parents][:8]
        events.append(ANN.event(TOPIC, *linked, payload=b"%d" % len(events)))
    return events


graphs = st.lists(st.lists(st.integers(0, 50), max_size=3), min_size=1, max_size=14).map(graph)


def log_of(events: Iterable[TopicEvent]) -> Log:
    log = Log()
    for event in events:
        log.must_fit(event)
        log.add(event)
    return log


def below(events: list[TopicEvent], tips: Iterable[Cid]) -> set[Cid]:
    """Some events and all that they link to."""
    by_cid = {event.cid: event for event in events}
    found: set[Cid] = set()
    open_cids = [cid for cid in tips if cid in by_cid]
    while open_cids:
        cid = open_cids.pop()
        if cid not in found:
            found.add(cid)
            open_cids += by_cid[cid].parents
    return found


@given(graphs, st.randoms(use_true_random=False))
def test_the_order_is_the_same_however_events_came(
    events: list[TopicEvent], random: st.DataObject
) -> None:
    shuffled = [*events]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    log = log_of(shuffled)
    order = log.after(None)
    places = {event.cid: place for place, event in enumerate(order)}

    assert order == log_of(events).after(None)
    assert all(places[parent] < places[e.cid] for e in order for parent in e.parents)
    assert not log.missing
    assert log.heads == log.whole == log_of(events).heads


@given(graphs, st.randoms(use_true_random=False))
def test_events_are_whole_when_all_below_them_is_there(
    events: list[TopicEvent], random: st.DataObject
) -> None:
    shuffled = [*events]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    log = Log()
    whole: list[TopicEvent] = []
    here: set[Cid] = set()
    for event in shuffled:
        whole += log.add(event)
        here.add(event.cid)
        expected = {e.cid for e in events if below(events, [e.cid]) <= here}
        assert {e.cid for e in whole} == expected
        assert set(log.missing) == {p for e in log.events.values() for p in e.parents} - here
    told: set[Cid] = set()
    for event in whole:
        assert told.issuperset(event.parents)
        told.add(event.cid)


@given(graphs, st.data())
def test_a_peer_lacks_all_below_what_it_wants_except_what_is_below_what_it_has(
    events: list[TopicEvent], data: st.DataObject
) -> None:
    cids = [event.cid for event in events]
    wanted = data.draw(st.lists(st.sampled_from(cids), max_size=3))
    had = data.draw(st.lists(st.sampled_from(cids), max_size=3))
    found = log_of(events).beyond(wanted, had, 0)

    assert {event.cid for event in found} == below(events, wanted) - below(events, had)
    assert found == sorted(found, key=lambda event: event.place)


def test_of_old_events_only_the_wanted_ones_are_sent() -> None:
    old = [ANN.event(TOPIC, now=NOW - 100)]
    for _ in range(3):
        old.append(ANN.event(TOPIC, old[-1], now=NOW - 100))
    new = ANN.event(TOPIC, old[-1], now=NOW)
    log = log_of([*old, new])

    assert log.beyond([new.cid], [], NOW - 50) == [new]
    assert log.beyond([old[2].cid], [], NOW - 50) == [old[2]]
    assert log.beyond([new.cid], [], 0) == [*old, new]


def test_events_from_before_the_start_are_not_missing() -> None:
    first = ANN.event(TOPIC)
    second = ANN.event(TOPIC, first)
    third = ANN.event(TOPIC, second)
    log = Log()
    log.start_at([(second.cid, second.height)], NOW - 10)
    log.must_fit(third)

    assert log.add(third) == [third]
    assert not log.missing
    assert log.heads == {third.cid: 3}


@given(graphs, st.randoms(use_true_random=False))
def test_heads_that_a_peer_named_stay_heads_in_whatever_order_events_arrive(
    events: list[TopicEvent], random: st.DataObject
) -> None:
    linked = {cid for event in events for cid in event.parents}
    heads = {event.cid: event.height for event in events if event.cid not in linked}
    log = Log()
    log.start_at(heads.items(), floor_us=0)
    shuffled = [*events]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    for event in shuffled:
        log.must_fit(event)
        log.add(event)
        log.check()

        assert heads.keys() <= log.heads.keys()
    assert log.heads == heads
    assert not log.parked


def test_an_older_event_that_arrives_late_is_no_head_if_a_known_event_links_to_it() -> None:
    first = ANN.event(TOPIC)
    second = ANN.event(TOPIC, first)
    log = Log()
    log.start_at([(first.cid, first.height)], NOW - 10)
    log.add(second)
    log.add(first)  # By a backfill.

    assert log.heads == {second.cid: second.height}
    log.check()


def test_giving_up_a_missing_event_lets_its_successors_go_on() -> None:
    first = ANN.event(TOPIC)
    second = ANN.event(TOPIC, first)
    third = ANN.event(TOPIC, second)
    log = Log()
    assert log.add(third) == []
    assert log.add(first) == [first]

    assert log.give_up(second.cid) == [third]
    assert not log.missing
    assert log.give_up(second.cid) == []


def test_in_a_chained_topic_an_event_that_its_successors_passed_is_not_delivered() -> None:
    chain = [ANN.event(TOPIC)]
    for _ in range(4):
        chain.append(ANN.event(TOPIC, chain[-1]))
    _, second, third, fourth, fifth = chain
    log = Log()
    log.start_at([(third.cid, third.height)], NOW - 10)

    assert log.add(second, is_chained=True) == []  # Its place below the head is not known yet.
    assert log.add(fourth, is_chained=True) == [fourth]
    assert log.add(third, is_chained=True) == []
    assert not log.missing  # Nothing fetches the first event, to deliver it after the fourth.
    assert log.add(fifth, is_chained=True) == [fifth]
    log.check()

    late = Log()
    assert late.add(third, is_chained=True) == []
    assert late.give_up(second.cid) == [third]
    assert late.add(second, is_chained=True) == []
    assert late.add(fifth, is_chained=True) == []  # It waits for the fourth, which is not late.
    assert late.add(fourth, is_chained=True) == [fourth, fifth]


def test_an_event_that_came_before_the_first_heads_is_not_delivered_after_later_ones() -> None:
    log = Log()
    chain = [ANN.event(TOPIC)]
    for _ in range(3):
        chain.append(ANN.event(TOPIC, chain[-1]))
    first, second, third, fourth = chain
    assert log.add(second, is_chained=True) == []
    log.start_at([(third.cid, third.height)], NOW - 10)
    assert log.add(fourth, is_chained=True) == [fourth]

    assert log.give_up(first.cid) == []


def test_events_of_another_branch_are_delivered_before_the_event_that_merges_it() -> None:
    """The branch is not higher than the heads that the node has begun with."""
    first = ANN.event(TOPIC)
    second, third = (ANN.event(TOPIC, first) for _ in range(2))
    head, other = ANN.event(TOPIC, second), ANN.event(TOPIC, third)
    merging = ANN.event(TOPIC, head, other)
    log = Log()
    log.start_at([(head.cid, head.height)], NOW - 10)

    assert log.add(merging, is_chained=True) == []
    assert log.add(other, is_chained=True) == []
    assert log.add(third, is_chained=True) == []
    assert log.give_up(first.cid) == [third, other, merging]


def test_the_oldest_events_are_pruned_by_count_size_and_age() -> None:
    events = [ANN.event(TOPIC, now=NOW)]
    for number in range(1, 6):
        events.append(ANN.event(TOPIC, events[-1], now=NOW + number))
    size = len(events[-1].block)

    by_count = log_of(events)
    assert by_count.prune(Retention(event_count_max=4), NOW) == events[:2]
    by_size = log_of(events)
    assert by_size.prune(Retention(byte_count_max=2 * size), NOW) == events[:4]
    assert by_size.bytes == sum(len(event.block) for event in events[4:])
    by_age = log_of(events)
    assert by_age.prune(Retention(age_us_max=3), NOW + 6) == events[:3]
    assert by_age.heads == {events[-1].cid: 6}
    everything = log_of(events)
    assert everything.prune(Retention(event_count_max=0), NOW) == events
    assert everything.heads == {events[-1].cid: 6}  # The next event still links to it.


def test_the_newest_and_what_comes_after_a_place_are_in_order() -> None:
    first = ANN.event(TOPIC)
    forks = [ANN.event(TOPIC, first, payload=b"%d" % number) for number in range(4)]
    log = log_of([first, *forks])
    forks.sort(key=lambda event: event.cid)

    assert log.after(first.place) == forks
    assert log.newest(2) == forks[2:]
    assert log.after(forks[1].place) == forks[2:]


def test_a_peer_hears_of_parked_events_after_all_heads() -> None:
    first = ANN.event(TOPIC, payload=b"first")
    hidden = ANN.event(TOPIC, first, payload=b"hidden")
    above = ANN.event(TOPIC, hidden, payload=b"above")
    last = ANN.event(TOPIC, above, payload=b"last")
    log = log_of([first])
    log.settle()
    for event in (above, last):
        log.must_fit(event)
        log.add(event)

    assert list(log.parked) == [above.cid, last.cid]
    assert [head.cid for head in log.newest_heads(5)] == [first.cid]
    assert [head.cid for head in log.newest_tips(5)] == [first.cid, last.cid]
    assert [head.cid for head in log.newest_tips(1)] == [first.cid]
