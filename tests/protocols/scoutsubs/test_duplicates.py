"""Within the duplicate window copies of an event are ignored, and after it they are rejected."""

import tracemalloc

from hypothesis import given, settings
from hypothesis import strategies as st

from smartpubsub.kademlia.settings import MINUTE, SECOND
from smartpubsub.protocols.publication import EventId
from smartpubsub.protocols.scoutsubs.duplicates import BLOCK_BITS, DuplicateWindow
from smartpubsub.protocols.scoutsubs.messages import Bundle, Notify, Part, Raise
from smartpubsub.protocols.scoutsubs.settings import ScoutSettings
from smartpubsub.seam import Received
from tests.protocols.scoutsubs.forest import Forest

REPEATABLE = settings(deadline=None, database=None, derandomize=True)
FAR = 1 << BLOCK_BITS
"""A number that is not in the block of the first ones."""


def key(number: int, incarnation: int = 1, publisher: bytes = b"p") -> tuple[EventId, str]:
    return EventId(publisher, incarnation, number), "surf"


def test_remembered_events_are_duplicates_and_forgotten_ones_are_replays() -> None:
    window = DuplicateWindow(100, 10)
    assert window.add(key(5), 0)
    assert not window.add(key(5), 50)
    assert not window.is_replay(key(4))  # It may come late.
    assert window.add(key(FAR), 100)

    assert key(5) not in window
    assert window.is_replay(key(5))
    assert window.is_replay(key(4))
    assert window.is_replay(key(99, incarnation=0))
    assert not window.is_replay(key(6))
    assert not window.is_replay(key(FAR))
    assert not window.is_replay(key(1, incarnation=2))
    assert not window.is_replay(key(5, publisher=b"q"))


def test_an_event_is_remembered_for_as_long_as_those_next_to_it() -> None:
    window = DuplicateWindow(100, 10)
    window.add(key(5), 0)
    window.add(key(6), 50)
    window.add(key(FAR), 100)

    window.add(key(FAR + 1), 149)
    assert key(5) in window
    assert not window.is_replay(key(5))
    window.add(key(FAR + 2), 150)
    assert key(5) not in window
    assert window.is_replay(key(5))
    assert window.is_replay(key(6))
    assert not window.is_replay(key(7))


def test_an_evicted_event_does_not_make_late_events_replays() -> None:
    window = DuplicateWindow(100, 1)
    for number in (5, 6, 7):
        window.add(key(number), number)

    assert len(window) == 1
    assert not window.is_replay(key(4))


def test_the_newest_event_stays_if_others_make_room_for_it() -> None:
    window = DuplicateWindow(100, 2)
    for number in (FAR, 7, 8, 5):  # The last comes late.
        window.add(key(number), 0)
        assert key(number) in window
        window.check()

    assert len(window) == 2
    assert key(FAR) not in window


@REPEATABLE
@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from([b"p", b"q"]), st.integers(0, 40)), max_size=80
    ),
    st.integers(1, 6),
)
def test_the_window_is_never_larger_and_forgets_none_too_early(
    arrivals: list[tuple[int, bytes, int]], count_max: int
) -> None:
    window = DuplicateWindow(100, count_max)
    added: dict[tuple[EventId, str], int] = {}
    now = 0
    for number, publisher, pause in arrivals:
        now += pause
        name = key(number * FAR // 2, publisher=publisher)
        if window.add(name, now):
            added[name] = now
        window.check()
        assert name in window
        known = [other for other in added if other in window]
        assert len(known) == len(window)
        young = [other for other, at in added.items() if at > now - 100]
        assert len(known) >= min(count_max, len(young))


def test_an_event_takes_a_few_bytes() -> None:
    count = 50_000
    ids = [EventId(bytes([n % 5]) * 38, 1_700_000_000, 1 + n // 5) for n in range(count)]
    names = [f"city-{n}" for n in range(8)]
    tracemalloc.start()
    try:
        window = DuplicateWindow(100, 2 * count)
        for n, id in enumerate(ids):
            window.add((id, names[(n * 7919 + n // 13) % 8]), 0)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert len(window) == count
    assert held / count < 20


@REPEATABLE
@given(st.lists(st.tuples(st.integers(1, 6), st.integers(0, 60)), max_size=60))
def test_nothing_is_ever_taken_twice(arrivals: list[tuple[int, int]]) -> None:
    window = DuplicateWindow(100, 1_000)
    taken: dict[int, int] = {}
    now = 0
    for number, pause in arrivals:
        now += pause
        if window.is_replay(key(number)):
            # Only an old event is rejected: one as young was admitted a window ago.
            assert any(n >= number and at <= now - 100 for n, at in taken.items())
        elif window.add(key(number), now):
            assert number not in taken
            taken[number] = now


def tell(forest: Forest, receiver: int, sender: int, part: Part) -> None:
    heard = Received(forest.contacts[sender].peer, Bundle((part,)))
    forest.do(receiver, forest.core(receiver).handle(heard, forest.clock(receiver)))


def test_a_replay_is_ignored_within_the_window_and_refused_after_it() -> None:
    forest = Forest(6, ScoutSettings())
    forest.subscribed(5, "surf")
    old = forest.published(3, "surf", wants_all=True)
    event = next(s.part.event for s in forest.said if isinstance(s.part, Notify))
    forest.run(10 * MINUTE)
    replays: list[tuple[int, Part]] = [
        (0, Raise(event, "surf", 0, 1, False, False, 0)),
        (5, Notify(event, "surf", 1, False, b"")),
    ]
    for receiver, replay in replays:
        tell(forest, receiver, 2, replay)
    forest.run(5 * SECOND)
    refused = [forest.rejected(number)["replay"] for number in (0, 5)]
    assert refused == [0, 0]

    later = []
    for _ in range(4):  # A long time without events would not count as a whole.
        forest.run(15 * MINUTE)
        later.append(forest.published(4, "surf", wants_all=True))
    forest.run(5 * SECOND)
    for receiver, replay in replays:
        tell(forest, receiver, 2, replay)
    forest.run(MINUTE)
    refused = [forest.rejected(number)["replay"] for number in (0, 5)]
    assert refused == [1, 1]
    assert forest.received(5) == [old, *later]
