"""Delivery once, in order and to all subscribers, as the four variants promise."""

from itertools import product

import pytest

from smartpubsub.kademlia.settings import MINUTE, SECOND
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.publication import EventId, Publication
from smartpubsub.protocols.pubsub import Confirmed, Published
from smartpubsub.protocols.scoutsubs.messages import (
    Announce,
    Bundle,
    ChildCopy,
    Completed,
    Confirm,
    Notify,
    Raise,
)
from smartpubsub.protocols.scoutsubs.settings import ScoutSettings, settings_for
from smartpubsub.seam import Received
from smartpubsub.sim.kernel.network import NetworkOptions
from smartpubsub.sim.kernel.signing import StandInSigning
from smartpubsub.sim.kernel.streams import stream
from tests.protocols.scoutsubs.forest import HOP_US, MS, Forest, chain, variant

VARIANTS = [
    pytest.param(variant(is_reliable=reliable, redirects=redirects), id=f"{redirects}-{reliable}")
    for redirects, reliable in product((False, True), repeat=2)
]
BAD = NetworkOptions(
    latency_us=HOP_US, jitter_us=40 * MS, loss=0.05, duplication=0.3, reordering=True
)


def test_variants_have_names() -> None:
    base, redirect = settings_for("base-unreliable", 1), settings_for("redirect-reliable", 3)
    assert (base.redirects, base.is_reliable, base.backups) == (False, False, 1)
    assert (redirect.redirects, redirect.is_reliable, redirect.backups) == (True, True, 3)
    assert redirect == ScoutSettings(backups=3)


# --- variants ---


@pytest.mark.parametrize("settings", VARIANTS)
@pytest.mark.parametrize("jitter_us", [0, 30 * MS])
def test_without_faults_every_variant_delivers_everything_once(
    settings: ScoutSettings, jitter_us: int
) -> None:
    network = NetworkOptions(latency_us=HOP_US, jitter_us=jitter_us)
    forest = Forest(60, settings, k=3, network=network)
    rng = stream(3, "wishes")
    wishes = {}
    for number in rng.sample(forest.numbers, 25):
        lo = rng.randrange(50)
        wishes[number] = Predicate.parse(f"surf/price[{lo},{lo + 20}]")
        forest.subscribe(number, str(wishes[number]))
    forest.run(5 * SECOND)

    for _ in range(40):
        event = Predicate.parse(f"surf/price={rng.randrange(70)}/day={rng.randrange(7)}")
        id = forest.publish(rng.choice(forest.numbers), str(event))
        forest.run(SECOND)
        assert forest.receivers(id) == sorted(n for n in wishes if wishes[n].matches(event))


@pytest.mark.parametrize("settings", VARIANTS)
def test_relays_pass_an_event_down_on_its_way_up_only_in_unreliable_variants(
    settings: ScoutSettings,
) -> None:
    forest = chain(6, settings)
    forest.subscribed(5, "surf")
    forest.publish(2, "surf")
    forest.run(SECOND)

    (delivery,) = forest.deliveries(5)
    steps_up, steps_down = 2, 1 if settings.redirects else 5
    at_2 = 1 if settings.redirects else 3
    assert delivery.hops == (steps_up + steps_down if settings.is_reliable else at_2)


def test_unreliable_variants_confirm_nothing_and_send_nothing_again() -> None:
    forest = Forest(10, variant(is_reliable=False, redirects=True))
    forest.subscribed(7, "surf")
    forest.cut(0, 7, SECOND // 2)
    id = forest.publish(5, "surf")
    forest.run(MINUTE)

    assert forest.is_published(id)
    assert forest.receivers(id) == []
    assert forest.count(Confirm) == {}
    assert forest.count(Raise) == {0: 1}


def test_only_a_reliable_variant_survives_loss() -> None:
    shares = {}
    for reliable in (False, True):
        forest = chain(6, variant(is_reliable=reliable, redirects=False))
        forest.subscribed(5, "surf")
        forest.lose(0.2)
        ids = [forest.publish(0, "surf") for _ in range(30)]
        forest.run(3 * MINUTE)
        shares[reliable] = sum(forest.receivers(id) == [5] for id in ids) / len(ids)
    assert shares[False] < shares[True] == 1.0


# --- bad networks ---


@pytest.mark.parametrize("redirects", [False, True])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_with_a_fifth_of_all_messages_lost_all_subscribers_get_all_events(
    seed: int, redirects: bool
) -> None:
    forest = Forest(25, ScoutSettings(redirects=redirects), k=3, seed=seed)
    wanting = [4, 7, 11, 12, 19, 20, 24]
    for number in wanting:
        forest.subscribed(number, "surf")
    forest.lose(0.2)
    ids = []
    for step in range(30):
        ids.append(forest.publish(step % 25, "surf"))
        forest.run(SECOND // 4)
    forest.run(5 * MINUTE)

    for id in ids:
        assert forest.is_published(id)
        assert forest.receivers(id) == wanting


def test_subscriptions_get_through_a_network_that_loses_a_fifth_of_all_messages() -> None:
    forest = chain(8)
    forest.lose(0.2)
    for number in (7, 5, 3):
        forest.subscribed(number, "surf")
    id = forest.published(0, "surf")
    forest.run(MINUTE)

    assert forest.receivers(id) == [3, 5, 7]


@pytest.mark.parametrize("settings", VARIANTS)
@pytest.mark.parametrize("seed", [1, 2])
def test_nothing_comes_twice_though_the_network_duplicates_and_reorders(
    settings: ScoutSettings, seed: int
) -> None:
    forest = Forest(25, settings, k=3, network=BAD, seed=seed)
    for number in range(0, 25, 2):
        forest.subscribe(number, "surf")
    forest.run(20 * SECOND)
    ids = []
    for step in range(60):
        ids.append(forest.publish(step % 25, "surf/price=15"))
        forest.run(50 * MS)
    forest.run(3 * MINUTE)

    for id in ids:
        receivers = forest.receivers(id)
        assert len(receivers) == len(set(receivers))
        if settings.is_reliable:
            assert receivers == list(range(0, 25, 2))


def test_an_event_goes_over_each_link_of_a_tree_once() -> None:
    """No node sends it back where it came from, nor twice."""
    forest = chain(6, variant(is_reliable=True, redirects=False))
    for number in (2, 3, 5):
        forest.subscribed(number, "surf")
    forest.said.clear()
    forest.published(4, "surf")
    forest.run(SECOND)

    assert forest.count(Notify) == {1: 1, 2: 1, 3: 1, 4: 1, 5: 1}
    assert forest.count(Confirm) == {0: 1, 1: 1, 2: 1, 3: 1, 4: 1}


def test_two_nodes_that_take_each_other_for_a_child_do_not_send_an_event_to_and_fro() -> None:
    """As it can be for a while when places change, and each has taken the other over."""
    forest = Forest(6)
    for number in (0, 1, 5):
        forest.subscribed(number, "surf")
    zero = ChildCopy(forest.contacts[0], 0, 1, (Predicate.parse("surf"),), None, ())
    forest.poke(1, lambda scouts: scouts._filters.restore("surf", zero))
    forest.cut_off(5, MINUTE)
    forest.said.clear()
    id = forest.publish(3, "surf")
    forest.run(MINUTE)

    assert sum(forest.count(Notify).values()) < 30
    forest.run(3 * MINUTE)
    assert forest.receivers(id) == [0, 1, 5]
    assert forest.holders(id) == []


def test_confirmations_that_come_twice_do_not_count_twice() -> None:
    """One of two children confirms, and again: the other's is still waited for."""
    forest = Forest(6, variant(is_reliable=True, redirects=False))
    for number in (4, 5):
        forest.subscribed(number, "surf")
    forest.cut_off(5, 20 * SECOND)
    id = forest.publish(3, "surf", wants_all=True)
    forest.run(SECOND)
    confirm = next(s.part for s in forest.said if isinstance(s.part, Confirm))
    for _ in range(5):
        forest.receive(4, 0, confirm)
    forest.run(SECOND)

    assert not forest.is_confirmed(id)
    assert 0 in forest.holders(id)
    forest.run(2 * MINUTE)
    assert forest.receivers(id) == [4, 5]
    assert forest.is_confirmed(id)


def test_an_event_that_another_node_has_signed_is_rejected() -> None:
    forest = Forest(6)
    forest.subscribed(5, "surf")
    id = EventId(forest.contacts[2].peer, 0, 99)
    surf = Predicate.parse("surf")
    signature = StandInSigning(forest.contacts[3].peer).sign(id, surf, b"")
    forged = Publication.of(id, surf, b"", signature)
    forest.receive(3, 0, Raise(forged, "surf", 0, 1, False, False, 0))
    forest.receive(3, 5, Notify(forged, "surf", 1, False, b""))
    forest.run(SECOND)

    assert forest.receivers(id) == []
    assert forest.rejected(0) == forest.rejected(5) == {"signature": 1}


def test_a_node_that_has_not_joined_does_not_answer() -> None:
    """It knows no peers, and would take itself for every rendezvous."""
    forest = Forest(4, absent=[0])
    forest.subscribed(3, "surf")
    said = Bundle(tuple(s.part for s in forest.said if isinstance(s.part, Announce)))
    assert said.parts
    forest.restart(0)
    scouts = forest.scouts(0)

    assert scouts.handle(Received(forest.contacts[3].peer, said, ()), 0) == []
    assert scouts.view().trees == ()


# --- order ---


@pytest.mark.parametrize("jitter_us", [0, 5 * MS, 100 * MS])
@pytest.mark.parametrize("settings", VARIANTS)
def test_events_of_one_publisher_come_in_its_order(settings: ScoutSettings, jitter_us: int) -> None:
    network = NetworkOptions(latency_us=HOP_US, jitter_us=jitter_us)
    forest = Forest(30, settings, k=3, network=network)
    wanting = (5, 11, 17, 23, 29)
    for number in wanting:
        forest.subscribe(number, "surf")
    forest.run(5 * SECOND)
    ids: dict[int, list[EventId]] = {8: [], 14: []}
    for _ in range(60):
        for publisher, published in ids.items():
            published.append(forest.publish(publisher, "surf/price=15"))
        forest.run(7 * MS)
    forest.run(10 * SECOND)

    for number in wanting:
        for publisher, published in ids.items():
            peer = forest.contacts[publisher].peer
            assert [id for id in forest.received(number) if id.publisher == peer] == published


def test_an_event_does_not_overtake_the_one_before_it_on_a_shorter_way() -> None:
    """A publisher learns who the rendezvous is while an event is on its slow way there."""
    forest = chain(6)
    forest.subscribed(1, "surf")
    first = forest.publish(5, "surf")
    forest.run(3 * HOP_US)
    held_up = [(3, 2), (2, 1)]
    forest.world.network.rules.append(lambda _, *link: 3 * SECOND if link in held_up else None)
    second = forest.publish(5, "surf")
    forest.run_until(lambda: forest.is_published(first))
    third = forest.publish(5, "surf")
    forest.run(MINUTE)

    assert forest.received(1) == [first, second, third]


def test_a_missing_event_delays_its_successors_only_for_a_while() -> None:
    """The copy of the first event to one rendezvous gets lost, and the publisher crashes."""
    forest = Forest(8)
    forest.subscribed(7, "surf")
    forest.run(SECOND)
    forest.cut(5, 0, 20 * MS)
    forest.publish(5, "surf")
    forest.run(30 * MS)
    second = forest.publish(5, "surf")
    forest.run(3 * HOP_US)
    assert forest.received(7) == []

    forest.crash(5)
    forest.run(forest.settings.hold_us_max + 5 * HOP_US)
    assert forest.received(7) == [second]


def test_an_event_that_was_late_comes_after_all_and_once() -> None:
    forest = Forest(8)
    forest.subscribed(7, "surf")
    forest.run(SECOND)
    forest.cut(5, 0, 20 * MS)
    first = forest.publish(5, "surf")
    forest.run(30 * MS)
    second = forest.publish(5, "surf")
    forest.run(30 * SECOND)

    assert sorted(forest.received(7)) == [first, second]


# --- receipts ---


def test_published_comes_before_all_have_an_event_and_confirmed_only_after() -> None:
    forest = chain(6)
    for number in (2, 5):
        forest.subscribed(number, "surf")
    forest.cut_off(5, 20 * SECOND)
    id = forest.published(3, "surf", wants_all=True)
    forest.run(15 * SECOND)
    assert forest.receivers(id) == [2]
    assert not forest.is_confirmed(id)

    forest.run(2 * MINUTE)
    assert forest.receivers(id) == [2, 5]
    order = [type(item) for item in forest.items(3) if isinstance(item, Published | Confirmed)]
    assert order == [Published, Confirmed]


def test_confirmed_comes_when_the_last_of_several_rendezvous_is_done() -> None:
    forest = Forest(20, k=3)
    forest.subscribed(11, "surf")
    forest.subscribed(12, "ski")
    forest.cut_off(12, 10 * SECOND)
    id = forest.publish(8, "surf/ski", wants_all=True)
    forest.run(5 * SECOND)
    assert forest.receivers(id) == [11]
    assert not forest.is_confirmed(id)

    forest.run(MINUTE)
    assert forest.receivers(id) == [11, 12]
    assert forest.is_confirmed(id)


def test_an_event_without_subscribers_is_confirmed_at_once() -> None:
    forest = Forest(6)
    id = forest.published(3, "surf", wants_all=True)
    forest.run(SECOND)
    assert forest.is_confirmed(id)


def test_a_publisher_that_does_not_ask_gets_no_receipt() -> None:
    forest = Forest(6)
    forest.subscribed(5, "surf")
    id = forest.published(3, "surf")
    forest.run(SECOND)
    assert not forest.is_confirmed(id)
    assert forest.count(Completed) == {}


def test_confirmed_comes_though_the_rendezvous_crashes_in_the_middle() -> None:
    forest = Forest(8)
    for number in (5, 6):
        forest.subscribed(number, "surf")
    forest.cut_off(6, 10 * SECOND)
    id = forest.published(7, "surf", wants_all=True)
    forest.crash(0)
    forest.run(2 * MINUTE)

    assert forest.receivers(id) == [5, 6]
    assert forest.is_confirmed(id)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_confirmed_comes_though_messages_get_lost(seed: int) -> None:
    forest = Forest(8, seed=seed)
    for number in (5, 6):
        forest.subscribed(number, "surf")
    forest.lose(0.2)
    ids = [forest.publish(7, "surf", wants_all=True) for _ in range(20)]
    forest.run(5 * MINUTE)

    assert [id for id in ids if not forest.is_confirmed(id)] == []
