"""Unsubscribes that do not take effect are found, and filters that are not renewed."""

from smartpubsub.kademlia.settings import MINUTE, SECOND
from smartpubsub.protocols.baselines.floodsub import Floodsub
from smartpubsub.sim.judging.checkers import Facts
from smartpubsub.sim.judging.checkers.unsubscribes import check_lapses, check_unsubscribes
from smartpubsub.sim.judging.journal import Span
from tests.sim.checkers.broken import Deaf, Mute, NeverExpiring, Renewing, Tardy
from tests.sim.checkers.world import Protocol, SmallWorld, broken_in


def some_unsubscribe(protocol: Protocol) -> Facts:
    world = SmallWorld(protocol)
    number = world.subscribe(1, "surf")
    world.subscribe(1, "surf/price[10,20]")
    world.publish(0, "surf")
    world.run(SECOND)
    world.unsubscribe(1, number)
    world.run(SECOND)
    world.publish(0, "surf/price=15")
    world.run(3 * MINUTE)
    return world.facts()


def test_unsubscribes() -> None:
    assert broken_in(some_unsubscribe, Floodsub) == []
    assert broken_in(some_unsubscribe, Deaf) == [7]
    assert broken_in(some_unsubscribe, Mute) == [7]
    assert broken_in(some_unsubscribe, Tardy) == [7]


def test_violations_say_what_is_wrong() -> None:
    words = [
        check_unsubscribes(some_unsubscribe(protocol)).violations[0].what
        for protocol in (Deaf, Mute, Tardy)
    ]

    assert "after the unsubscribe of its subscription 1" in words[0]
    assert "was never told" in words[1]
    assert "was told too late" in words[2]


def mute_unsubscribe(
    *, crashes: bool = False, is_cut_off: bool = False, paused: int | None = None, us: int
) -> Facts:
    world = SmallWorld(Mute)
    number = world.subscribe(1, "surf")
    world.unsubscribe(1, number)
    if is_cut_off:
        world.split(1, us=MINUTE)
    if paused is not None:
        world.pause(paused, us=MINUTE)
    if crashes:
        world.run(SECOND)
        world.crash(1)
    world.run(us)
    return world.facts()


def test_an_acknowledgement_is_due_when_the_bound_has_passed_and_the_node_was_up() -> None:
    assert check_unsubscribes(mute_unsubscribe(us=MINUTE)).violations == []
    assert len(check_unsubscribes(mute_unsubscribe(us=MINUTE + SECOND)).violations) == 1
    assert check_unsubscribes(mute_unsubscribe(us=5 * MINUTE, crashes=True)).violations == []


def test_a_split_puts_the_acknowledgement_off() -> None:
    assert check_unsubscribes(mute_unsubscribe(us=2 * MINUTE, is_cut_off=True)).violations == []
    assert len(check_unsubscribes(mute_unsubscribe(us=3 * MINUTE, is_cut_off=True)).violations) == 1


def test_a_pause_of_the_node_itself_puts_the_acknowledgement_off() -> None:
    assert check_unsubscribes(mute_unsubscribe(us=2 * MINUTE, paused=1)).violations == []
    assert len(check_unsubscribes(mute_unsubscribe(us=3 * MINUTE, paused=1)).violations) == 1
    assert len(check_unsubscribes(mute_unsubscribe(us=2 * MINUTE, paused=2)).violations) == 1


def a_node_leaves(protocol: Protocol) -> Facts:
    world = SmallWorld(protocol)
    world.crash(3)
    for _ in range(6):
        world.run(MINUTE)
        world.inspect()
    return world.facts()


def test_lapses() -> None:
    assert broken_in(a_node_leaves, Renewing) == []
    assert broken_in(a_node_leaves, NeverExpiring) == [7]


def test_lapses_are_reported_once_for_each_node_that_serves() -> None:
    facts = a_node_leaves(NeverExpiring)

    violations = check_lapses(facts).violations

    assert [violation.node for violation in violations] == [0, 1, 2, 4, 5]
    down_us = facts.journal.downs[3][0].start_us
    assert violations[0].what == (
        f"node 0 keeps filters for node 3, which has been down since {down_us / 1000} ms"
    )
    assert violations[0].at_us == down_us + 5 * MINUTE


def test_unsubscribes_are_excused_by_reason() -> None:
    assert check_unsubscribes(mute_unsubscribe(us=MINUTE)).excused == {"run_ended": 1}
    crashed = check_unsubscribes(mute_unsubscribe(us=5 * MINUTE, crashes=True))
    assert (crashed.judged, crashed.excused) == (0, {"crash": 1})
    assert check_unsubscribes(some_unsubscribe(Floodsub)).judged == 1


def test_lapses_of_nodes_that_went_down_lately_are_excused() -> None:
    judgement = check_lapses(a_node_leaves(Renewing))

    # For two refreshes of two minutes each, and a little longer, five nodes may serve the sixth.
    assert judgement.excused == {"down_recently": 20}
    assert judgement.judged > 100


def test_a_node_that_was_down_itself_has_two_refreshes_from_its_start_on() -> None:
    facts = a_node_leaves(NeverExpiring)
    (down,) = facts.journal.downs[3]
    facts.journal.downs[0] = [Span(down.start_us, down.start_us + MINUTE)]  # It has storage.

    judgement = check_lapses(facts)

    at_us = {violation.node: violation.at_us - down.start_us for violation in judgement.violations}
    assert at_us == {0: 6 * MINUTE, **dict.fromkeys((1, 2, 4, 5), 5 * MINUTE)}
    assert judgement.excused["restart"] == 1
