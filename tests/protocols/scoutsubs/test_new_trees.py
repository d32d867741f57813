"""Events with ever new attributes begin a bounded number of trees, and none of them is lost."""

from smartpubsub.kademlia.settings import SECOND
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.publication import EventId, Publication
from smartpubsub.protocols.scoutsubs.messages import Raise
from smartpubsub.protocols.scoutsubs.new_trees import RATE, WAITING_MAX
from smartpubsub.protocols.scoutsubs.settings import ScoutSettings
from tests.protocols.scoutsubs.forest import Forest
from tests.protocols.scoutsubs.test_quotas import attributes_at

PUBLISHER = 5
BURST = RATE.burst + 1


def raised(forest: Forest, names: list[str]) -> list[Raise]:
    """Events of one publisher with these attributes, one for each."""
    peer = forest.contacts[PUBLISHER].peer
    ids = [EventId(peer, 1, number) for number in range(1, len(names) + 1)]
    events = [
        Publication.of(id, Predicate.parse(name), b"", b"", 1)
        for id, name in zip(ids, names, strict=True)
    ]
    return [
        Raise(event, name, 0, 1, False, False, 0) for event, name in zip(events, names, strict=True)
    ]


def joined(settings: ScoutSettings | None = None) -> Forest:
    forest = Forest(6, settings)
    forest.run(SECOND)
    return forest


def trees(forest: Forest) -> int:
    return len(forest.scouts(0).view().trees)


def test_events_of_a_peer_begin_trees_at_a_limited_rate() -> None:
    forest = joined()
    names = attributes_at(forest, 0, BURST + 2 * RATE.per_second)
    forest.receive(PUBLISHER, 0, *raised(forest, names))
    assert trees(forest) == BURST
    forest.scouts(0).check()
    forest.run(SECOND)
    assert BURST < trees(forest) <= BURST + RATE.per_second
    forest.run(3 * SECOND)
    assert trees(forest) == len(names)
    assert not len(forest.scouts(0)._forwarding)
    forest.scouts(0).check()


def test_events_of_others_do_not_wait() -> None:
    forest = joined()
    names = attributes_at(forest, 0, BURST + 2)
    forest.receive(PUBLISHER, 0, *raised(forest, names[:-1]))
    assert names[-2] not in forest.scouts(0)._membership.trees
    forest.receive(4, 0, *raised(forest, names[-1:]))
    assert names[-1] in forest.scouts(0)._membership.trees


def test_a_bounded_number_of_trees_waits() -> None:
    forest = joined()
    names = attributes_at(forest, 0, BURST + WAITING_MAX + 10)
    forest.receive(PUBLISHER, 0, *raised(forest, names))
    assert forest.rejected(0)["new trees"] == 10
    assert len(forest.scouts(0)._forwarding) <= BURST + WAITING_MAX
    forest.scouts(0).check()


def test_no_event_waits_for_a_tree_that_there_is_no_room_for() -> None:
    forest = joined(ScoutSettings(tree_count_max=8))
    names = attributes_at(forest, 0, BURST + 20)
    forest.receive(PUBLISHER, 0, *raised(forest, names))
    forest.run(2 * SECOND)
    assert trees(forest) == 8
    assert not len(forest.scouts(0)._forwarding)
    forest.scouts(0).check()
