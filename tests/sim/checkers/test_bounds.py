"""Memory beyond its bound is found, and a refusal that comes too late."""

from smartpubsub.kademlia.settings import SECOND
from smartpubsub.protocols.baselines.floodsub import Floodsub, FloodsubSettings
from smartpubsub.sim.judging.checkers import Facts
from smartpubsub.sim.judging.checkers.bounds import check_bounds, check_refusals
from tests.sim.checkers.broken import Fickle, Hoarding
from tests.sim.checkers.world import Protocol, SmallWorld, broken_in


def many_events(protocol: Protocol) -> Facts:
    world = SmallWorld(protocol, FloodsubSettings(seen_count_max=5))
    world.subscribe(1, "surf")
    for _ in range(8):
        world.publish(0, "surf")
        world.run(SECOND)
        world.inspect()
    return world.facts()


def test_bounds() -> None:
    assert broken_in(many_events, Floodsub) == []
    assert broken_in(many_events, Hoarding) == [8]
    assert broken_in(many_events, Fickle) == [8]


def test_violations_say_what_is_wrong() -> None:
    violations = check_bounds(many_events(Hoarding)).violations

    assert len(violations) == 6
    assert violations[0].what == "node 0 keeps 6 seen events, 5 at most"

    facts = many_events(Fickle)
    refused = check_refusals(facts).violations

    assert len(refused) == 8
    assert str(next(iter(facts.journal.events))) in refused[0].what
