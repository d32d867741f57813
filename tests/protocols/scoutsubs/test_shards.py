"""A hot attribute is split over several keys, which only the load shows."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given

from smartpubsub.kademlia.settings import MINUTE, SECOND
from smartpubsub.protocols.publication import EventId
from smartpubsub.protocols.scoutsubs.messages import Announced, Raise, Record
from smartpubsub.protocols.scoutsubs.replay import Past
from smartpubsub.protocols.scoutsubs.settings import ScoutSettings
from smartpubsub.protocols.scoutsubs.shard_names import (
    SHARDS,
    base_name,
    is_split,
    shard_for,
    shard_names,
    tree_name,
)
from smartpubsub.protocols.scoutsubs.shards import PERMIT_US
from tests.predicates.strategies import names
from tests.protocols.scoutsubs.forest import MS, Forest

NODES = 24
HOT = ScoutSettings(hot_copies_per_s=20)
SUBSCRIBERS = range(12, NODES)
PUBLISHERS = range(3, 11)
FURTHER_SHARDS = shard_names("surf")[1:]


def everywhere(forest: Forest, number: int) -> list[str]:
    """In which trees of the attribute a node has filters of its own."""
    trees = [forest.scouts(number).tree(name) for name in shard_names("surf")]
    return [tree.attribute for tree in trees if tree is not None and tree.own]


def heated(forest: Forest, seconds: int = 4) -> dict[int, list[EventId]]:
    """Publish twenty events a second, and wait until all are acknowledged; whose they are."""
    sent: dict[int, list[EventId]] = {publisher: [] for publisher in PUBLISHERS}
    for n in range(20 * seconds):
        publisher = PUBLISHERS[n % len(PUBLISHERS)]
        sent[publisher].append(forest.publish(publisher, "surf"))
        forest.run(50 * MS)
    ids = [id for some in sent.values() for id in some]
    forest.run_until(lambda: all(map(forest.is_published, ids)))
    forest.run(SECOND)
    return sent


def hot_forest(settings: ScoutSettings = HOT, count: int = NODES) -> Forest:
    """A network with subscribers and an attribute that has become hot."""
    forest = Forest(count, settings)
    for number in SUBSCRIBERS:
        forest.subscribed(number, "surf")
    check(forest, heated(forest))
    assert is_split(forest.tree(forest.roots()[0]).epoch)
    return forest


def check(forest: Forest, sent: dict[int, list[EventId]]) -> None:
    """Each subscriber has each event once, and those of each publisher in their order."""
    wanted = [id for some in sent.values() for id in some]
    for number in SUBSCRIBERS:
        received = [id for id in forest.received(number) if id in wanted]
        assert Counter(received) == Counter(wanted)
        for some in sent.values():
            assert [id for id in received if id in some] == some


def admitted_by(forest: Forest) -> Counter[str]:
    """How many events were admitted by way of each tree, as replicas were told."""
    records = {
        (s.part.event.id, s.part.attribute) for s in forest.said if isinstance(s.part, Record)
    }
    return Counter(name for _, name in records)


# --- names ---


@given(names())
def test_every_attribute_has_names_of_its_own(attribute: str) -> None:
    base = tree_name(attribute)
    assert base_name(base) == base
    found = shard_names(base)
    assert found[0] == base
    assert len(set(found)) == SHARDS
    assert {base_name(name) for name in found} == {base}


@given(names())
def test_no_attribute_is_taken_for_a_shard_of_another(attribute: str) -> None:
    for branch in range(SHARDS):
        lookalike = f"{attribute}/{branch}"
        assert tree_name(lookalike) not in shard_names(tree_name(attribute))


# --- splitting ---


def test_a_hot_attribute_is_split_and_the_events_are_shared_out() -> None:
    forest = hot_forest()

    for number in SUBSCRIBERS:
        assert everywhere(forest, number) == list(shard_names("surf"))
    before = admitted_by(forest)
    check(forest, heated(forest))
    later = admitted_by(forest) - before
    by_key = Counter(shard_for("surf", forest.contacts[n].peer) for n in PUBLISHERS)
    per_publisher = 80 // len(PUBLISHERS)
    assert later == Counter({name: per_publisher * count for name, count in by_key.items()})


def test_publishers_send_straight_to_a_shard_and_not_by_way_of_the_attributes_rendezvous() -> None:
    forest = hot_forest()
    forest.said.clear()
    sent = heated(forest)

    (root,) = forest.roots()
    to_root = [s.part for s in forest.said if s.receiver == root and isinstance(s.part, Raise)]
    own = [n for n in PUBLISHERS if shard_for("surf", forest.contacts[n].peer) == "surf"]
    assert {part.event.id for part in to_root if part.attribute == "surf"} == {
        id for publisher in own for id in sent[publisher]
    }


def test_an_attribute_without_load_stays_whole() -> None:
    forest = Forest(NODES, HOT)
    forest.subscribed(12, "surf")
    for _ in range(20):
        forest.publish(3, "surf")
        forest.run(SECOND)
    assert forest.tree(forest.roots()[0]).epoch == 1
    assert everywhere(forest, 12) == ["surf"]


def test_the_load_of_one_publisher_does_not_split_an_attribute() -> None:
    forest = Forest(NODES, HOT)
    for number in SUBSCRIBERS:
        forest.subscribed(number, "surf")
    for _ in range(60):
        forest.publish(3, "surf")
        forest.run(50 * MS)
    assert {forest.tree(n).epoch for n in SUBSCRIBERS} == {1}


@pytest.mark.parametrize(
    "settings", [replace(HOT, is_reliable=False), replace(HOT, hot_copies_per_s=0)]
)
def test_unreliable_variants_and_those_that_do_not_want_it_split_nothing(
    settings: ScoutSettings,
) -> None:
    forest = Forest(NODES, settings)
    for number in SUBSCRIBERS:
        forest.subscribed(number, "surf")
    check(forest, heated(forest))
    assert {forest.tree(n).epoch for n in SUBSCRIBERS} == {1}


def test_no_event_goes_to_a_shard_before_all_subscribers_are_there() -> None:
    forest = Forest(NODES, HOT)
    for number in SUBSCRIBERS:
        forest.subscribed(number, "surf")
    last = SUBSCRIBERS[-1]
    scouts = forest.scouts(last)
    hear = scouts._filters.on_announced
    scouts._on_part[Announced] = lambda peer, part: hear(peer, part._replace(epoch=1))
    check(forest, heated(forest))

    assert everywhere(forest, last) == ["surf"]
    assert set(admitted_by(forest)) == {"surf"}


# --- who comes and goes ---


def test_a_later_subscription_is_in_force_in_all_shards() -> None:
    forest = hot_forest()
    forest.subscribed(11, "surf")
    assert everywhere(forest, 11) == list(shard_names("surf"))

    sent = heated(forest, 1)
    check(forest, sent)
    assert sorted(forest.received(11)) == sorted(id for some in sent.values() for id in some)


def test_an_unsubscribe_takes_effect_in_all_shards() -> None:
    forest = hot_forest()
    (number,) = forest.tree(12).own
    forest.unsubscribed(12, number)
    received = forest.received(12)

    heated(forest, 1)
    assert forest.received(12) == received
    assert everywhere(forest, 12) == []


def test_an_attribute_that_has_cooled_down_is_whole_again() -> None:
    forest = hot_forest(replace(HOT, renew_us=MINUTE))
    forest.run(6 * MINUTE)
    assert {forest.tree(n).epoch for n in SUBSCRIBERS} == {3}
    assert all(everywhere(forest, n) == ["surf"] for n in SUBSCRIBERS)

    forest.said.clear()
    check(forest, heated(forest, 1))
    assert "surf" in admitted_by(forest)
    check(forest, heated(forest))
    assert {forest.tree(n).epoch for n in SUBSCRIBERS} == {4}


def test_a_shard_without_permission_sends_events_to_the_attributes_rendezvous() -> None:
    forest = hot_forest()
    forest.run(PERMIT_US + SECOND)
    (publisher, *_) = [
        n for n in PUBLISHERS if shard_for("surf", forest.contacts[n].peer) != "surf"
    ]
    name = shard_for("surf", forest.contacts[publisher].peer)
    forest.said.clear()
    forest.published(publisher, "surf")

    ways = [s.part for s in forest.said if isinstance(s.part, Raise)]
    assert next(part.attribute for part in ways if not part.is_permitted) == name
    assert any(part.attribute == "surf" for part in ways)
    assert any(part.is_permitted and part.attribute == name for part in ways)


# --- failures ---


@pytest.mark.parametrize("name", shard_names("surf"))
def test_when_a_rendezvous_fails_nothing_is_lost(name: str) -> None:
    """The attribute's own, or that of a shard; who subscribes after that is in all shards."""
    forest = hot_forest()
    (root,) = forest.roots(name)
    for publisher in PUBLISHERS:
        forest.publish(publisher, "surf")
    forest.run(15 * MS)
    forest.crash(root)
    forest.run(MINUTE)
    newcomer = next(n for n in (11, 0, 1) if n != root)
    forest.subscribed(newcomer, "surf")

    assert everywhere(forest, newcomer) == list(shard_names("surf"))
    sent = {n: [forest.publish(n, "surf")] for n in PUBLISHERS if n != root}
    forest.run(MINUTE)
    for number in (*SUBSCRIBERS, newcomer):
        if number != root:
            expected = Counter(forest.received(SUBSCRIBERS[0] if root != 12 else 13))
            assert set(expected.values()) == {1}
            assert {id for (id,) in sent.values()} <= set(forest.received(number))


def test_a_subscriber_that_restarts_is_in_all_shards_from_the_start() -> None:
    forest = hot_forest()
    forest.crash(14)
    forest.run(SECOND)
    sent = {n: forest.publish(n, "surf") for n in PUBLISHERS}
    forest.run(SECOND)
    forest.restart(14)
    known = [contact for contact in forest.contacts if contact != forest.contacts[14]]
    forest.do(14, forest.core(14).settle(known, forest.clock(14)))
    forest.run(2 * MINUTE)

    assert everywhere(forest, 14) == list(shard_names("surf"))
    assert set(sent.values()) <= set(forest.received(14))


def test_a_closer_rendezvous_learns_that_the_attribute_is_split() -> None:
    forest = Forest(NODES, HOT, absent=(0,))
    for number in SUBSCRIBERS:
        forest.subscribed(number, "surf")
    check(forest, heated(forest))
    forest.join(0, by_way_of=5)
    forest.run_until(lambda: forest.roots() == [0], 5 * MINUTE)

    assert is_split(forest.tree(0).epoch)
    forest.subscribed(11, "surf")
    assert everywhere(forest, 11) == list(shard_names("surf"))
    check(forest, heated(forest))


def test_history_is_put_together_from_all_shards() -> None:
    forest = Forest(NODES, replace(HOT, history_us_max=60 * MINUTE))
    forest.run(SECOND)
    for number in SUBSCRIBERS:
        forest.subscribed(number, "surf")
    sent = heated(forest)
    assert len(admitted_by(forest)) > 1
    number = forest.subscribe(11, "surf")
    forest.do(11, forest.scouts(11).recall(number, Past(), forest.clock(11)))
    forest.run(10 * SECOND)

    assert Counter(forest.received(11)) == Counter(id for some in sent.values() for id in some)
