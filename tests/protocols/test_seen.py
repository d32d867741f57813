"""What was seen is known for a time, and no more than so many."""

from hypothesis import given
from hypothesis import strategies as st

from smartpubsub.protocols.publication import EventId
from smartpubsub.protocols.seen import Seen


def event(number: int) -> EventId:
    return EventId(b"publisher", 0, number)


def test_an_event_is_seen_for_the_first_time_once() -> None:
    seen: Seen[EventId] = Seen(keep_us=100, count_max=10)

    assert seen.add(event(1), now=0)
    assert not seen.add(event(1), now=50)
    assert event(1) in seen
    assert event(2) not in seen


def test_events_are_forgotten_after_a_time_which_does_not_begin_again() -> None:
    seen: Seen[EventId] = Seen(keep_us=100, count_max=10)
    seen.add(event(1), now=0)
    seen.add(event(1), now=50)

    seen.add(event(2), now=99)
    assert event(1) in seen

    seen.add(event(3), now=100)
    assert event(1) not in seen
    assert event(2) in seen


def test_the_oldest_make_room_for_the_newest() -> None:
    seen: Seen[EventId] = Seen(keep_us=100, count_max=3)
    for number in range(5):
        seen.add(event(number), now=number)

    assert [number for number in range(5) if event(number) in seen] == [2, 3, 4]


def test_a_node_that_was_stopped_for_longer_than_ids_are_kept_knows_what_it_saw_before() -> None:
    seen: Seen[EventId] = Seen(keep_us=100, count_max=10)
    seen.add(event(1), now=0)

    seen.add(event(2), now=1_000)
    seen.add(event(3), now=1_001)
    assert event(1) in seen

    seen.add(event(4), now=1_050)
    assert event(1) not in seen
    assert event(2) in seen


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 25))))
def test_there_are_never_more_and_none_older(steps: list[tuple[int, int]]) -> None:
    seen: Seen[EventId] = Seen(keep_us=50, count_max=4)
    added: dict[int, int] = {}
    now = 0
    for number, later in steps:
        now += later
        if seen.add(event(number), now):
            added[number] = now

        known = [n for n in added if event(n) in seen]
        assert number in known
        assert len(seen) == len(known) <= 4
        # An event that was there already puts nothing else out.
        if added[number] == now:
            assert all(added[n] > now - 50 for n in known)
