"""A replica that answers probes, and no requests to keep something, is replaced."""

import pytest

from smartpubsub.kademlia.settings import MINUTE, SECOND
from smartpubsub.protocols.scoutsubs.messages import CopyTree, Record
from smartpubsub.protocols.scoutsubs.settings import ScoutSettings
from smartpubsub.sim.kernel.network import NetworkOptions
from tests.protocols.scoutsubs.forest import MS, Forest, chain

REPLACED_US = 20 * SECOND
"""How long it may take until a silent replica is replaced."""


def silence(forest: Forest, number: int, *kinds: type) -> None:
    """Have a node drop all messages of some kinds without an answer."""
    for kind in kinds:
        forest.scouts(number)._on_contact_part[kind] = lambda *_: None


def left_out(forest: Forest) -> int:
    """How often nodes have left out a replica."""
    return sum(forest.rejected(number)["silent replica"] for number in forest.numbers)


def test_a_replica_that_answers_only_probes_holds_no_subscription_up() -> None:
    forest = Forest(10)
    silence(forest, 1, CopyTree, Record)
    number = forest.subscribe(7, "surf")
    forest.run_until(lambda: forest.is_in_force(7, number), REPLACED_US)

    assert forest.keepers(0) == [2, 3]
    assert all(forest.copy(keeper, 0) == forest.children(0) for keeper in (2, 3))
    before = forest.world.now
    forest.subscribed(8, "surf/x")
    assert forest.world.now - before < SECOND


@pytest.mark.parametrize("kinds", [(CopyTree, Record), (Record,)])
def test_a_replica_that_answers_only_probes_holds_no_event_up(kinds: tuple[type, ...]) -> None:
    forest = Forest(10)
    forest.subscribed(7, "surf")
    forest.cut_off(7, MINUTE)  # So that the events stay open.
    silence(forest, 1, *kinds)
    first = forest.publish(5, "surf")
    forest.run_until(lambda: forest.is_published(first), REPLACED_US)
    assert forest.holders(first) == [0, 2, 3]

    before = forest.world.now
    second = forest.published(5, "surf")
    assert forest.world.now - before < SECOND
    assert forest.holders(second) == [0, 2, 3]
    forest.run(2 * MINUTE)
    assert forest.receivers(first) == forest.receivers(second) == [7]
    assert forest.holders(first) == forest.holders(second) == []


def test_a_relay_replaces_a_silent_replica_too() -> None:
    forest, relay = chain(8), 3
    own, known = forest.contacts[relay].key, (2, 4, 5, 6, 7)
    closest, *others = sorted(known, key=lambda number: forest.contacts[number].key ^ own)
    silence(forest, closest, CopyTree)
    number = forest.subscribe(7, "surf")
    forest.run_until(lambda: forest.is_in_force(7, number), REPLACED_US)

    assert forest.keepers(relay) == sorted(others[:2])
    assert all(forest.copy(n, relay) == forest.children(relay) for n in others[:2])


def test_where_all_others_are_silent_a_node_keeps_everything_alone() -> None:
    forest = Forest(4)
    for other in (1, 2, 3):
        silence(forest, other, CopyTree, Record)
    number = forest.subscribe(0, "surf")
    forest.run_until(lambda: forest.is_in_force(0, number), 2 * REPLACED_US)
    id = forest.publish(0, "surf")
    forest.run_until(lambda: forest.is_published(id), 2 * REPLACED_US)

    assert forest.receivers(id) == [0]


def test_a_replica_that_was_silent_is_chosen_again_after_a_renewal() -> None:
    settings = ScoutSettings(renew_us=4 * MINUTE)
    forest = Forest(10, settings)
    kept = dict(forest.scouts(1)._on_contact_part)
    silence(forest, 1, CopyTree, Record)
    forest.subscribed(7, "surf")
    assert forest.keepers(0) == [2, 3]
    forest.scouts(1)._on_contact_part.update(kept)
    forest.run(settings.renew_us + MINUTE)

    assert forest.keepers(0) == [1, 2]


@pytest.mark.parametrize("loss", [0.1, 0.3, 0.5])
@pytest.mark.parametrize("seed", range(3))
def test_no_honest_replica_is_left_out_where_messages_are_lost(loss: float, seed: int) -> None:
    forest = Forest(10, seed=seed)
    forest.lose(loss)
    for step in range(30):
        forest.subscribe(3 + step % 7, f"surf/price[{step},{step + 5}]")
        forest.publish(3 + step % 5, f"surf/price={step}")
        forest.run(2 * SECOND)

    assert left_out(forest) == 0


@pytest.mark.parametrize("seed", range(3))
def test_no_honest_replica_is_left_out_because_it_is_slow(seed: int) -> None:
    network = NetworkOptions(
        latency_us=10 * MS, jitter_us=3 * SECOND, bandwidth_bytes_per_s=3_000, reordering=True
    )
    forest = Forest(10, seed=seed, network=network)
    for step in range(30):
        forest.subscribe(3 + step % 7, f"surf/price[{step},{step + 5}]")
        forest.publish(3 + step % 5, f"surf/price={step}")
        forest.run(SECOND)
    forest.run(2 * MINUTE)

    assert left_out(forest) == 0


def test_no_replica_is_left_out_that_is_paused() -> None:
    forest = Forest(10)
    forest.subscribed(7, "surf")
    for _ in range(3):
        forest.world.pause(forest.host(1), forest.world.now + 2 * SECOND)
        forest.publish(5, "surf")
        forest.subscribe(8, "surf/x")
        forest.run(10 * SECOND)

    assert left_out(forest) == 0
    assert forest.keepers(0) == [1, 2]
