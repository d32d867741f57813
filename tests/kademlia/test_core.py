"""One core: who gets into its table, and what becomes of what it asks."""

from smartpubsub.kademlia.messages import Kind, Message, Record
from smartpubsub.kademlia.queries import Found, Got, Joined
from smartpubsub.kademlia.settings import SECOND, Settings
from smartpubsub.seam import (
    Answered,
    Ask,
    CancelTimer,
    Disconnected,
    SetTimer,
    TimerFired,
)
from tests.kademlia.alone import (
    CID,
    PING,
    SETTINGS,
    answer,
    answers,
    asked,
    core_that_knows,
    silence,
)
from tests.kademlia.wired import contact, items

# --- who gets into the table ---


def test_a_peer_that_asks_is_pinged_and_gets_in_only_when_it_answers() -> None:
    core = core_that_knows()

    effects = asked(core, 1, PING)
    (ping,) = items(effects, Ask)
    assert (ping.peer, ping.message) == (contact(1).peer, PING)
    assert contact(1) not in core.table

    answer(core, ping)
    assert core.closest_local(b"any", 2) == [contact(1)]


def test_a_peer_that_is_being_pinged_is_not_pinged_again() -> None:
    core = core_that_knows()
    asked(core, 1, PING)

    assert items(asked(core, 1, PING), Ask) == []


def test_a_peer_in_the_table_is_not_pinged_when_it_asks() -> None:
    assert items(asked(core_that_knows(1), 1, PING), Ask) == []


def test_a_suspected_peer_is_pinged_when_it_asks() -> None:
    core = core_that_knows(1)
    core.table.failed(contact(1), SETTINGS.failures_max)
    assert core.closest_local(b"any", 1) == []

    (ping,) = items(asked(core, 1, PING), Ask)
    answer(core, ping)

    assert core.closest_local(b"any", 1) == [contact(1)]


def test_suspected_peers_are_pinged_at_each_refresh_until_they_answer_or_are_out() -> None:
    core = core_that_knows(1)
    core.table.failed(contact(1), SETTINGS.failures_max)

    (ping,) = items(core.handle(TimerFired(("kad", "refresh")), 0), Ask)
    assert ping.message == PING
    silence(core, ping, SETTINGS.timeout_us)

    assert contact(1) not in core.table


def test_peers_not_heard_from_for_long_are_pinged_at_a_refresh() -> None:
    core = core_that_knows(1, 2)
    core.table.heard_from(contact(2), SETTINGS.check_us)

    asks = items(core.handle(TimerFired(("kad", "refresh")), SETTINGS.check_us), Ask)

    assert [ask.peer for ask in asks if ask.message == PING] == [contact(1).peer]


def in_one_bucket(count: int) -> list[int]:
    table = core_that_knows().table
    numbers = [n for n in range(1, 100) if table.index(contact(n).key) == 256]
    return numbers[:count]


def test_where_there_is_no_room_the_oldest_is_asked_whether_it_is_still_there() -> None:
    old, other, new = in_one_bucket(3)
    core = core_that_knows(old, other)

    assert items(asked(core, new, PING, SETTINGS.check_us - 1), Ask) == []
    (ping,) = items(asked(core, new, PING, SETTINGS.check_us), Ask)

    assert ping.peer == contact(old).peer


def test_whoever_waits_is_pinged_when_a_place_comes_free_and_then_the_next() -> None:
    old, other, third, fourth = in_one_bucket(4)
    core = core_that_knows(old, other, settings=Settings(k=2, alpha=2, failures_max=1))
    for number in (third, fourth):
        effects = asked(core, number, PING, SETTINGS.check_us)
        if number == third:
            (check,) = items(effects, Ask)

    (ping,) = items(silence(core, check, SETTINGS.check_us + SETTINGS.timeout_us), Ask)
    assert ping.peer == contact(fourth).peer
    (ping,) = items(silence(core, ping, SETTINGS.check_us + 2 * SETTINGS.timeout_us), Ask)
    assert ping.peer == contact(third).peer


def test_whoever_asks_is_not_told_of_itself() -> None:
    (told,) = answers(asked(core_that_knows(1, 2), 1, Message(Kind.FIND_NODE, contact(1).peer)))

    assert told == Message(Kind.FIND_NODE, contact(1).peer, closer=(contact(2),))


# --- answers, late and false ---


def test_a_node_that_is_told_of_itself_does_not_ask_itself() -> None:
    core = core_that_knows(1)
    _, effects = core.find_closest(b"name", 0)
    (ask,) = items(effects, Ask)

    effects = answer(core, ask, Message(Kind.FIND_NODE, b"name", closer=(core.own,)))

    assert items(effects, Ask) == []
    (found,) = items(effects, Found)
    assert len(found.closest) == 2


def test_an_answer_from_somebody_else_is_ignored_and_the_ask_stays_open() -> None:
    core = core_that_knows(1)
    _, effects = core.find_closest(b"name", 0)
    (ask,) = items(effects, Ask)

    assert core.handle(Answered(contact(2).peer, PING, ask.number), 0) == []
    assert contact(2) not in core.table
    assert items(silence(core, ask, SECOND), SetTimer)
    assert items(answer(core, ask), Found)


def test_answers_that_nobody_waits_for_are_ignored() -> None:
    core = core_that_knows(1)
    assert core.handle(Answered(contact(1).peer, PING, 5), 0) == []

    _, effects = core.find_closest(b"name", 0)
    (ask,) = items(effects, Ask)
    answer(core, ask)
    assert answer(core, ask) == []


def test_a_timer_of_an_ask_that_is_over_is_ignored() -> None:
    core = core_that_knows(1)
    _, effects = core.find_closest(b"name", 0)
    (ask,) = items(effects, Ask)
    assert items(answer(core, ask), CancelTimer) == [CancelTimer(("kad", ask.number))]

    assert silence(core, ask, SECOND) == []


def test_a_lookup_goes_on_when_a_peer_is_slow_and_gives_it_up_at_the_timeout() -> None:
    core = core_that_knows(1, 2, settings=Settings(k=2, alpha=1))
    _, effects = core.find_closest(b"name", 0)
    (first,) = items(effects, Ask)
    assert items(effects, SetTimer) == [SetTimer(("kad", first.number), SECOND)]

    effects = silence(core, first, SECOND)
    again, ping, second = items(effects, Ask)
    assert again == first
    assert (ping.peer, ping.message) == (first.peer, Message(Kind.PING))
    assert SetTimer(("kad", first.number), SECOND + SETTINGS.again_us) in effects
    assert len(core.table.suspects()) == 0

    assert items(answer(core, second), Found) == []
    (found,) = items(silence(core, first, SETTINGS.timeout_us), Found)
    assert {c.peer for c in found.closest} == {core.own.peer, second.peer}
    assert [c.peer for c in core.table.suspects()] == [first.peer]


def test_a_request_is_repeated_at_once_if_the_peer_answers_a_ping_instead() -> None:
    core = core_that_knows(1, settings=Settings(k=2, alpha=1))
    _, effects = core.find_closest(b"name", 0)
    (ask,) = items(effects, Ask)
    again, ping = items(silence(core, ask, SECOND), Ask)

    effects = answer(core, ping, now=SECOND + 5_000)

    assert again in effects
    assert SetTimer(("kad", ask.number), SECOND + 5_000 + SETTINGS.slow_us) in effects
    assert items(answer(core, ask), Found)


def test_a_late_answer_after_the_timeout_says_only_that_the_peer_is_there() -> None:
    core = core_that_knows(1)
    _, effects = core.find_closest(b"name", 0)
    (ask,) = items(effects, Ask)
    silence(core, ask, SECOND)
    silence(core, ask, SETTINGS.timeout_us)
    assert core.closest_local(b"name", 1) == []

    assert answer(core, ask) == []
    assert [contact.peer for contact in core.closest_local(b"name", 1)] == [ask.peer]
    assert answer(core, ask) == []


def test_a_peer_asked_for_what_is_no_longer_wanted_still_has_its_time() -> None:
    core = core_that_knows(1, 2)
    _, effects = core.get(CID, 0)
    one, other = items(effects, Ask)
    assert items(answer(core, one, Message(Kind.GET_VALUE, CID, Record(CID, b"value"))), Got)

    effects = silence(core, other, SECOND)

    assert effects == [other, SetTimer(("kad", other.number), SECOND + SETTINGS.again_us)]
    assert core.table.suspects() == []


# --- putting and getting ---


# --- joining ---


def test_whoever_joins_waits_for_nobody_who_cannot_be_reached() -> None:
    core = core_that_knows()
    first, second = items(core.join([contact(1), contact(2)], 0), Ask)

    effects = core.handle(Disconnected(first.peer), 0)
    assert items(effects, Joined) == []
    assert items(core.handle(Disconnected(second.peer), 0), Joined) == [Joined(known=0)]


def test_who_cannot_be_reached_for_a_moment_may_still_be_the_closest() -> None:
    core = core_that_knows(1)
    _, effects = core.find_closest(b"surf", 0)
    (question,) = items(effects, Ask)

    assert items(core.handle(Disconnected(question.peer), 0), Found) == []
    (found,) = items(answer(core, question), Found)
    assert contact(1) in found.closest
