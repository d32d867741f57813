"""Cases that reviews of the code have found; each would have cost an event or a node."""

from dataclasses import replace

import pytest

from smartpubsub.kademlia.settings import MINUTE, SECOND
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.publication import EventId, Publication
from smartpubsub.protocols.scoutsubs.fragments import bundles_of
from smartpubsub.protocols.scoutsubs.messages import Admitted, Bundle, Part, Record, wire_bytes
from smartpubsub.protocols.scoutsubs.settings import ScoutSettings
from smartpubsub.seam import Received
from smartpubsub.sim.kernel.network import DROP
from tests.protocols.scoutsubs.forest import (
    MS,
    Forest,
    next_closer_only,
    variant,
)


def test_a_long_chain_of_events_that_wait_for_a_lost_one_goes_on_when_it_comes() -> None:
    forest = Forest(4)
    forest.subscribed(2, "surf")
    forest.published(3, "surf/n=0")
    forest.run(3 * SECOND)
    is_lost = [True]
    forest.world.network.rules.append(
        lambda _now, sender, _receiver: DROP if is_lost[0] and sender == 3 else None
    )
    forest.publish(3, "surf/n=1")
    forest.run(6 * MS)
    is_lost[0] = False
    for number in range(2, 450):
        forest.publish(3, f"surf/n={number}")
        forest.run(MS)
    forest.run(10 * SECOND)

    assert len(forest.received(2)) == 450


def test_a_node_that_reaches_no_peer_when_it_starts_works_alone_until_it_does() -> None:
    forest = Forest(6, knows=None)
    forest.subscribed(5, "surf")
    forest.run(30 * SECOND)
    forest.crash(4)
    forest.cut_off(4, MINUTE)
    forest.restart(4)
    forest.run(40 * SECOND)

    subscription = forest.subscribe(4, "surf/n[1,2]")
    event = forest.publish(4, "surf/n=1")
    forest.run(5 * SECOND)
    assert forest.is_in_force(4, subscription)
    assert forest.is_published(event)
    assert forest.receivers(event) == [4]

    forest.run(5 * MINUTE)
    assert sorted(forest.receivers(event)) == [4, 5]


@pytest.mark.parametrize("seconds", [1, 10, 40, 300])
@pytest.mark.parametrize("node", [1, 9])
def test_events_of_an_isolated_node_arrive_when_it_is_back(seconds: int, node: int) -> None:
    """It acknowledges them alone when it has found all its peers down."""
    forest = Forest(10)
    forest.subscribed(3, "surf")
    forest.run(30 * SECOND)
    forest.cut_off(node, seconds * SECOND)
    event = forest.publish(node, "surf/n=1")
    forest.run(seconds * SECOND)
    assert forest.is_published(event) == (seconds >= 10)

    forest.run(10 * MINUTE)
    assert forest.is_published(event)
    assert forest.receivers(event) == [3]


def test_a_record_of_a_forged_event_is_refused() -> None:
    forest = Forest(6)
    forest.subscribed(1, "surf")
    forest.run(30 * SECOND)
    id = EventId(forest.contacts[5].peer, 0, 1)
    forged = Publication.of(id, Predicate.parse("surf/n=666"), b"", b"x" * 64)
    bundle = Bundle((Record(forged, "surf", 1, False, 0),))
    forest.do(1, forest.core(1).handle(Received(forest.contacts[4].peer, bundle), forest.clock(1)))
    forest.crash(0)
    forest.run(2 * MINUTE)
    assert forest.deliveries(1) == []

    event = forest.publish(5, "surf/n=1")
    forest.run(2 * MINUTE)
    assert forest.receivers(event) == [1]


def test_a_replica_that_dies_before_it_has_recorded_is_replaced() -> None:
    forest = Forest(10)
    forest.subscribed(9, "surf")
    forest.run(30 * SECOND)
    forest.crash(9, 1)
    event = forest.publish(8, "surf/n=1")
    forest.run_until(lambda: forest.is_published(event))
    forest.run(5 * MINUTE)

    assert len(forest.holders(event)) == ScoutSettings().backups + 1


def test_a_peer_that_falls_silent_does_not_have_everything_acknowledged_again() -> None:
    forest = Forest(10)
    forest.subscribed(9, "surf")
    forest.run(30 * SECOND)
    forest.crash(9)
    for number in range(50):
        forest.publish(8, f"surf/n={number}")
        forest.run(20 * MS)
    forest.run(30 * SECOND)
    before = forest.count(Admitted)[8]
    forest.crash(7)
    forest.poke(0, lambda scouts: scouts._detector.probe(forest.contacts[7].peer))
    forest.run(MINUTE)

    assert forest.count(Admitted)[8] == before


def test_relays_forget_events_of_children_that_are_gone() -> None:
    settings = replace(ScoutSettings(redirects=False), renew_us=MINUTE)
    forest = Forest(5, settings, knows=next_closer_only(5), is_fixed=True)
    forest.subscribed(3, "surf")
    forest.crash(3)
    for number in range(20):
        forest.publish(0, f"surf/n={number}")
        forest.run(SECOND)
    forest.run(20 * MINUTE)

    assert [forest.held(n, "events in flight") for n in (0, 1, 2)] == [0, 0, 0]


def test_lost_acknowledgements_do_not_stop_a_publisher_of_unreliable_events() -> None:
    settings = replace(variant(is_reliable=False, redirects=False), record_count_max=20)
    forest = Forest(4, settings)
    forest.lose(0.3)
    for number in range(60):
        forest.publish(3, f"surf/n={number}")
        forest.run(10 * SECOND)

    assert forest.refusals() == []


def test_many_large_events_go_in_several_bundles() -> None:
    queued: list[Part] = []
    payload = bytes(300_000)
    for number in range(20):
        event = Publication.of(
            EventId(b"publisher", 0, number + 1),
            Predicate.parse(f"surf/n={number}"),
            payload,
            b"",
        )
        queued.append(Record(event, "surf", 1, False, 0))
    largest = max(map(wire_bytes, bundles_of(queued, ScoutSettings().piece_bytes_max)))

    assert 300_000 < largest < 2_000_000
