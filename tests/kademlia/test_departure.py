"""A peer that leaves or is suspected: nothing waits for its answers, and it leaves the table."""

from smartpubsub.kademlia.core import Kademlia
from smartpubsub.kademlia.messages import Kind, Message
from smartpubsub.kademlia.queries import Found, Lost
from smartpubsub.seam import Ask, Deliver, Departed, Effect, SetTimer, TimerFired
from tests.kademlia.alone import PING, SETTINGS, answer, asked, core_that_knows
from tests.kademlia.wired import contact, items


def test_a_departed_peer_leaves_the_table_at_its_first_failure() -> None:
    core = core_that_knows(1, 2)
    core.handle(Departed(contact(1).peer), 0)

    assert core.closest_local(b"any", 2) == [contact(2)]


def test_a_lookup_that_waits_for_a_departed_peer_ends_without_it() -> None:
    core = core_that_knows(1)
    _, effects = core.find_closest(b"any", 0)
    assert [ask.peer for ask in items(effects, Ask)] == [contact(1).peer]

    (found,) = items(core.handle(Departed(contact(1).peer), 5), Deliver)

    assert isinstance(found.item, Found)
    assert found.item.closest == (core.own,)


def test_a_departed_peer_that_others_name_is_not_asked_for_a_while() -> None:
    core = core_that_knows(2)
    core.handle(Departed(contact(1).peer), 0)
    _, effects = core.find_closest(b"any", 1)
    (ask,) = items(effects, Ask)

    effects = answer(core, ask, Message(Kind.FIND_NODE, closer=(contact(1),)), now=2)
    assert items(effects, Ask) == []
    assert len(items(effects, Deliver)) == 1

    _, effects = core.find_closest(b"any", SETTINGS.timeout_us)
    (ask,) = items(effects, Ask)
    effects = answer(
        core, ask, Message(Kind.FIND_NODE, closer=(contact(1),)), now=SETTINGS.timeout_us
    )
    assert [ask.peer for ask in items(effects, Ask)] == [contact(1).peer]


def test_a_peer_that_is_back_is_asked_again() -> None:
    core = core_that_knows()
    core.handle(Departed(contact(1).peer), 0)
    (ping,) = items(asked(core, 1, PING, now=1), Ask)
    answer(core, ping, now=2)

    _, effects = core.find_closest(b"any", 3)
    assert [ask.peer for ask in items(effects, Ask)] == [contact(1).peer]


def test_a_late_answer_of_a_departed_peer_does_not_bring_it_back() -> None:
    core = core_that_knows(1)
    _, effects = core.find_closest(b"any", 0)
    (ask,) = items(effects, Ask)
    core.handle(Departed(contact(1).peer), 5)

    assert answer(core, ask, now=6) == []
    assert core.closest_local(b"any", 1) == []


def core_that_has_heard_from(*numbers: int) -> Kademlia:
    """A core that knows how long a round trip takes."""
    core = core_that_knows(*numbers)
    for ask in items(core.find_closest(b"some", 0)[1], Ask):
        answer(core, ask, Message(Kind.FIND_NODE), now=80)
    return core


def silence(core: Kademlia, number: int, start: int) -> list[object]:
    """Let all timers of a request pass; return what was delivered."""
    delivered: list[object] = []
    now = start
    for _ in range(10):
        now += SETTINGS.verify_again_us
        effects = core.handle(TimerFired(("kad", number)), now)
        delivered += [effect.item for effect in items(effects, Deliver)]
    return delivered


def suspected(core: Kademlia, number: int, now: int) -> list[Effect]:
    (timer,) = core.suspect(contact(number).peer, now)
    assert isinstance(timer, SetTimer)
    return core.handle(TimerFired(timer.timer), now)


def test_a_lookup_goes_on_at_once_without_a_suspected_peer() -> None:
    core = core_that_knows(1, 2)
    _, effects = core.find_closest(b"any", 0)
    asks = {ask.peer: ask for ask in items(effects, Ask)}
    answer(core, asks[contact(2).peer], Message(Kind.FIND_NODE), now=1)

    (found,) = items(suspected(core, 1, 2), Deliver)

    assert isinstance(found.item, Found)
    assert contact(1) not in found.item.closest
    assert core.closest_local(b"any", 2) == [contact(2)]


def test_a_suspected_peer_that_answers_no_ping_is_lost_after_the_time_to_verify_it() -> None:
    core = core_that_has_heard_from(1)
    (ping,) = items(suspected(core, 1, 0), Ask)

    assert silence(core, ping.number, 0) == [Lost(contact(1).peer)]
    assert contact(1) not in core.table


def test_a_peer_that_is_suspected_again_and_again_is_lost_as_soon() -> None:
    core = core_that_has_heard_from(1)
    (ping,) = items(suspected(core, 1, 0), Ask)
    delivered: list[object] = []
    for now in range(0, SETTINGS.verify_us + 1, SETTINGS.verify_again_us):
        effects = [*suspected(core, 1, now), *core.handle(TimerFired(("kad", ping.number)), now)]
        delivered += [effect.item for effect in items(effects, Deliver)]
    assert delivered == [Lost(contact(1).peer)]


def test_a_suspected_peer_that_answers_is_trusted_again() -> None:
    core = core_that_has_heard_from(1)
    (ping,) = items(suspected(core, 1, 0), Ask)
    answer(core, ping, now=1)

    assert core.closest_local(b"any", 1) == [contact(1)]
    assert silence(core, ping.number, 1) == []


def test_a_peer_that_is_verified_stays_in_use_until_it_is_lost() -> None:
    core = core_that_has_heard_from(1)
    (timer,) = core.verify(contact(1).peer, 0)
    assert isinstance(timer, SetTimer)
    (ping,) = items(core.handle(TimerFired(timer.timer), 0), Ask)

    assert core.closest_local(b"any", 1) == [contact(1)]
    assert silence(core, ping.number, 0) == [Lost(contact(1).peer)]


def test_lookups_do_not_wait_long_for_a_peer_that_was_gone_minutes_ago() -> None:
    core = core_that_knows(2)
    core.handle(Departed(contact(1).peer), 0)
    now = SETTINGS.timeout_us
    _, effects = core.find_closest(b"any", now)
    (ask,) = items(effects, Ask)
    effects = answer(core, ask, Message(Kind.FIND_NODE, closer=(contact(1),)), now=now)
    (doubtful,) = items(effects, Ask)

    delivered: list[object] = []
    for _ in range(2):
        now += SETTINGS.verify_again_us
        effects = core.handle(TimerFired(("kad", doubtful.number)), now)
        delivered += items(effects, Deliver)
    assert len(delivered) == 1
    assert now - SETTINGS.timeout_us <= SETTINGS.slow_us


def test_a_lookup_waits_for_a_silent_peer_until_that_has_answered_no_ping() -> None:
    core = core_that_has_heard_from(1)
    _, effects = core.find_closest(b"any", 0)
    (ask,) = items(effects, Ask)
    again, ping = items(core.handle(TimerFired(("kad", ask.number)), SETTINGS.slow_us), Ask)
    assert again == ask

    found, lost = silence(core, ping.number, SETTINGS.slow_us)
    assert isinstance(found, Found)
    assert lost == Lost(contact(1).peer)
