"""A peer that leaves is out of the table at once, and nothing waits for its answers."""

from smartpubsub.kademlia.messages import Kind, Message
from smartpubsub.kademlia.queries import Found
from smartpubsub.seam import Ask, Deliver, Departed
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
