"""Within the duplicate window copies of an event are ignored, and after it they are rejected."""

from hypothesis import given, settings
from hypothesis import strategies as st

from smartpubsub.kademlia.settings import MINUTE, SECOND
from smartpubsub.protocols.publication import EventId
from smartpubsub.protocols.scoutsubs.duplicates import DuplicateWindow
from smartpubsub.protocols.scoutsubs.messages import Bundle, Notify, Part, Raise
from smartpubsub.protocols.scoutsubs.settings import ScoutSettings
from smartpubsub.seam import Received
from tests.protocols.scoutsubs.forest import Forest

REPEATABLE = settings(deadline=None, database=None, derandomize=True)


def key(number: int, incarnation: int = 1, publisher: bytes = b"p") -> tuple[EventId, str]:
    return EventId(publisher, incarnation, number), "surf"


def test_remembered_events_are_duplicates_and_forgotten_ones_are_replays() -> None:
    window = DuplicateWindow(100, 10)
    assert window.add(key(5), 0)
    assert not window.add(key(5), 50)
    assert not window.is_replay(key(4))  # It may come late.
    assert window.add(key(6), 100)

    assert key(5) not in window
    assert window.is_replay(key(5))
    assert window.is_replay(key(4))
    assert window.is_replay(key(99, incarnation=0))
    assert not window.is_replay(key(6))
    assert not window.is_replay(key(7))
    assert not window.is_replay(key(1, incarnation=2))
    assert not window.is_replay(key(5, publisher=b"q"))


def test_an_evicted_event_does_not_make_late_events_replays() -> None:
    window = DuplicateWindow(100, 1)
    for number in (5, 6, 7):
        window.add(key(number), number)

    assert len(window) == 1
    assert not window.is_replay(key(4))


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
        later.append(forest.published(3, "surf", wants_all=True))
    forest.run(5 * SECOND)
    for receiver, replay in replays:
        tell(forest, receiver, 2, replay)
    forest.run(MINUTE)
    refused = [forest.rejected(number)["replay"] for number in (0, 5)]
    assert refused == [1, 1]
    assert forest.received(5) == [old, *later]
