"""A history is whole, or names what is missing."""

from collections.abc import Callable

import pytest

from smartpubsub.protocols.blocks import Cid
from smartpubsub.protocols.pulsarcast.events import TopicEvent
from smartpubsub.protocols.pulsarcast.fetcher import Backfill
from smartpubsub.protocols.pulsarcast.history import Wanted
from smartpubsub.protocols.pulsarcast.log import Log
from smartpubsub.protocols.pulsarcast.results import HistoryRead
from smartpubsub.protocols.pulsarcast.settings import PulsarSettings, Retention
from smartpubsub.protocols.pulsarcast.topics import Topic, rules_ordered_by
from smartpubsub.sim.kernel.network import DROP
from tests.protocols.pulsarcast.village import Village

COUNT = 40

Lose = Callable[[Village, Topic, list[int], list[TopicEvent]], None]


def village_with_history(settings: PulsarSettings | None = None) -> tuple[Village, Topic]:
    """Two nodes that publish in turn, so that there are forks, and some keepers."""
    village = Village(20, settings)
    topic = village.create(0)
    village.subscribe_all([0, 1], topic)
    for number in range(COUNT):
        village.publish(number % 2, topic, b"%02d" % number)
        if number % 3:
            village.run(0.1)
    village.run(40)
    return village, topic


def keepers_of(village: Village, topic: Topic) -> list[int]:
    """The keepers, the closest first."""
    return village.keepers(0, topic)


def stranger_to(village: Village, topic: Topic) -> int:
    return next(n for n in range(19, 0, -1) if n not in village.members(topic))


def read(village: Village, node: int, topic: Topic, wanted: Wanted | None = None) -> HistoryRead:
    number, effects = village.core(node).read(topic.cid, wanted or Wanted(), village.world.now)
    village.world.carry_out(village.host(node), effects)
    village.run(60)
    told = [t for n, t in village.told if n == node and isinstance(t, HistoryRead)]
    return next(t for t in told if t.number == number)


def payloads(read: HistoryRead) -> list[bytes]:
    return sorted(bytes(e.draft.payload) for e in read.events if not e.draft.is_announcement)


def all_payloads() -> list[bytes]:
    return [b"%02d" % number for number in range(COUNT)]


def without(log: Log, lost: list[Cid]) -> Log:
    """A log with the same events except some."""
    found = Log()
    found.settle()
    for event in log.after(None):
        if event.cid not in lost:
            found.add(event)
    return found


@pytest.fixture
def lose(monkeypatch: pytest.MonkeyPatch) -> Lose:
    """Have some nodes lose some events, and not fetch them again."""

    def lose(village: Village, topic: Topic, nodes: list[int], lost: list[TopicEvent]) -> None:
        monkeypatch.setattr(Backfill, "begin", lambda *_: None)
        for node in nodes:
            replica = village.replica(node, topic)
            replica.log = without(replica.log, [event.cid for event in lost])

    return lose


@pytest.mark.parametrize("wanted", [Wanted(), Wanted(last=COUNT - 5), Wanted(since_us=1)])
def test_a_reader_gets_from_others_what_its_first_keeper_lacks(wanted: Wanted, lose: Lose) -> None:
    village, topic = village_with_history()
    events = village.log(0, topic).after(None)
    for keeper in keepers_of(village, topic)[:2]:
        lose(village, topic, [keeper], events[: COUNT // 2])

    told = read(village, stranger_to(village, topic), topic, wanted)
    assert payloads(told) == all_payloads()[-wanted.last :]
    assert (told.missing, told.let_go, told.silent) == ((), (), 0)


def test_closest_nodes_that_do_not_know_the_topic_make_no_gap() -> None:
    village, topic = village_with_history()
    for keeper in keepers_of(village, topic)[:2]:
        village.core(keeper).store.drop(village.replica(keeper, topic))

    assert payloads(read(village, stranger_to(village, topic), topic)) == all_payloads()


def test_a_topic_without_live_members_is_not_found_rather_than_empty() -> None:
    village, topic = village_with_history()
    village.crash(*village.members(topic))
    village.run(30)

    reader = next(n for n in range(20) if village.host(n).is_up)
    told = read(village, reader, topic)
    assert (told.topic, told.events) == (None, ())
    assert not any(village.log(node, topic).has_all for node in village.members(topic))


def test_keepers_that_have_lost_different_events_make_history_whole_together(lose: Lose) -> None:
    village, topic = village_with_history()
    events = village.log(0, topic).after(None)
    others = [node for node in village.members(topic) if node not in keepers_of(village, topic)]
    lose(village, topic, others, events)
    for number, keeper in enumerate(keepers_of(village, topic)):
        lose(village, topic, [keeper], events[number::3])

    assert payloads(read(village, stranger_to(village, topic), topic)) == all_payloads()


@pytest.mark.parametrize("is_read_by_a_keeper", [False, True])
def test_events_that_no_node_has_are_named(is_read_by_a_keeper: bool, lose: Lose) -> None:
    village, topic = village_with_history()
    events = [e for e in village.log(0, topic).after(None) if not e.draft.is_announcement]
    lost = [events[7], events[20]]
    lose(village, topic, village.members(topic), lost)

    keeper = keepers_of(village, topic)[0]
    told = read(village, keeper if is_read_by_a_keeper else stranger_to(village, topic), topic)
    gone = {bytes(event.draft.payload) for event in lost}
    assert payloads(told) == [payload for payload in all_payloads() if payload not in gone]
    assert set(told.missing) == {event.cid for event in lost}
    assert told.let_go == ()
    later = read(village, stranger_to(village, topic), topic, Wanted(since=events[25].cid))
    assert (later.missing, later.is_since_known) == ((), True)


@pytest.mark.parametrize("is_after_restart", [False, True])
def test_pruned_events_are_told_apart_from_missing_ones(is_after_restart: bool) -> None:
    settings = PulsarSettings(retention=Retention(event_count_max=COUNT // 2))
    village, topic = village_with_history(settings)
    if is_after_restart:
        nodes = [node for node in village.members(topic) if node]
        village.crash(*nodes)
        village.restart(*nodes)
        village.run(30)

    told = read(village, stranger_to(village, topic), topic)
    assert len(told.events) == COUNT // 2
    assert told.let_go
    assert told.missing == ()
    assert read(village, stranger_to(village, topic), topic, Wanted(last=5)).let_go == ()


def test_keepers_that_do_not_answer_are_counted() -> None:
    village, topic = village_with_history()
    reader = stranger_to(village, topic)
    read(village, reader, topic)
    cut_off = keepers_of(village, topic)[:2]
    village.world.network.rules.append(
        lambda _, a, b: DROP if (a in cut_off) != (b in cut_off) else None
    )

    told = read(village, reader, topic)
    assert payloads(told) == all_payloads()
    assert told.silent == 2


def test_a_keeper_with_damaged_storage_fetches_everything_again() -> None:
    village, topic = village_with_history()
    keeper = next(node for node in keepers_of(village, topic) if node not in (0, 1))
    storage = village.host(keeper).storage
    for key in [key for key in storage if key.startswith(b"pulsarcast/event/")][:10]:
        del storage[key]
    village.crash(keeper)
    village.restart(keeper)
    village.run(120)

    assert village.log(keeper, topic).has_all
    assert len(village.log(keeper, topic)) == len(village.log(0, topic))


def test_replacing_keepers_one_after_the_other_leaves_history_whole() -> None:
    village, topic = village_with_history(PulsarSettings(proof_us=10_000_000))
    for _ in range(5):
        closest = next(node for node in keepers_of(village, topic) if node not in (0, 1))
        village.crash(closest)
        village.run(90)
    village.crash(1)
    village.run(90)

    told = read(village, stranger_to(village, topic), topic)
    assert payloads(told) == all_payloads()
    assert (told.missing, told.let_go) == ((), ())


def test_events_missing_before_a_crash_are_fetched_after_it() -> None:
    village = Village(6)
    topic = village.create(0, rules=rules_ordered_by(village.host(0).peer))
    village.subscribe_all(range(6), topic)
    village.publish(0, topic, b"0")
    village.run(1)
    village.world.network.rules.append(lambda _, a, b: DROP if 3 in (a, b) else None)
    village.publish(0, topic, b"1")
    village.run(0.2)
    village.world.network.rules.clear()
    village.publish(0, topic, b"2")
    while len(village.log(3, topic).events) < 2:
        village.run(0.01)
    assert village.log(3, topic).missing
    village.crash(3)
    village.restart(3)
    village.run(30)

    assert village.payloads(3) == [b"0", b"1", b"2"]
