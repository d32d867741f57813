"""Each attribute has one rendezvous, the live node closest to its key, and all agree on it."""

import hashlib
from collections import Counter

import pytest

from smartpubsub.kademlia.keys import key_of
from smartpubsub.kademlia.settings import MINUTE, SECOND
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.publication import EventId, Publication
from smartpubsub.protocols.pubsub import Published
from smartpubsub.protocols.runtime.rules import refusal_of
from smartpubsub.protocols.scoutsubs.flight import Flight
from smartpubsub.protocols.scoutsubs.membership import Role
from smartpubsub.protocols.scoutsubs.messages import NO_PEER, Admitted, Confirm, Pull, Raise, Record
from smartpubsub.protocols.scoutsubs.protocol import ScoutSubs
from smartpubsub.protocols.scoutsubs.settings import Mapping, ScoutSettings
from smartpubsub.sim.kernel.population import settled_tables
from smartpubsub.sim.kernel.streams import stream
from tests.protocols.scoutsubs.forest import Forest, Knows, contacts_around

TOPICS = ("surf", "ski", "price", "wind", "portugal")


def settled(count: int, k: int, seed: int = 1) -> Knows:
    """Whom nodes know when their tables have filled as far as k allows."""
    contacts = contacts_around("surf", count, seed)
    numbers = {contact.peer: n for n, contact in enumerate(contacts)}
    tables = list(settled_tables(contacts, k, stream(seed, "tables")))
    return lambda number: [numbers[contact.peer] for contact in tables[number]]


def truly_closest(forest: Forest, attribute: str) -> int:
    key = key_of(attribute.encode())
    return min(forest.numbers, key=lambda number: forest.contacts[number].key ^ key)


@pytest.mark.parametrize("k", [20, 2])
def test_of_250_nodes_exactly_the_closest_is_rendezvous(k: int) -> None:
    forest = Forest(250, k=k, knows=settled(250, k))
    rng = stream(1, "subscribers")
    for number in forest.numbers:
        forest.subscribe(number, rng.choice(TOPICS))
    forest.run(20 * SECOND)

    assert all(forest.is_in_force(number, 1) for number in forest.numbers)
    for topic in TOPICS:
        assert forest.roots(topic) == [truly_closest(forest, topic)]


def a_few_at_random(count: int) -> Knows:
    """As it is before tables have filled."""
    return lambda number: stream(number, "known").sample(range(count), 12)


def test_a_node_that_knows_no_closer_peer_does_a_lookup_before_it_becomes_the_rendezvous() -> None:
    forest = Forest(250, knows=a_few_at_random(250))
    unaware = [
        number for number in forest.numbers[1:] if forest.scouts(number).next_hop("surf") is None
    ]
    assert len(unaware) > 3

    for number in unaware:
        forest.subscribe(number, "surf")
    forest.run(20 * SECOND)

    assert forest.roots() == [0]
    assert all(forest.tree(number).role is Role.CHILD for number in unaware)


def test_with_thin_tables_all_subscribers_get_all_events() -> None:
    forest = Forest(250, k=2, knows=settled(250, 2))
    rng = stream(1, "subscribers")
    wanting = sorted(rng.sample(forest.numbers, 60))
    for number in wanting:
        forest.subscribe(number, "surf")
    forest.run(20 * SECOND)

    ids = [forest.publish(rng.choice(forest.numbers), "surf") for _ in range(20)]
    forest.run(20 * SECOND)

    for id in ids:
        assert forest.receivers(id) == wanting


def test_an_event_before_any_subscription_makes_no_second_rendezvous() -> None:
    forest = Forest(100, k=2, knows=settled(100, 2))
    for number in forest.numbers:
        forest.publish(number, "surf")
    forest.run(20 * SECOND)

    assert forest.roots() == [0]


@pytest.mark.parametrize("attribute", ["surf", "são paulo", "price", "x"])
def test_the_key_of_an_attribute_is_the_sha_256_of_its_name(attribute: str) -> None:
    digest = hashlib.sha256(attribute.encode()).digest()
    assert key_of(attribute.encode()) == int.from_bytes(digest, "big")


@pytest.mark.parametrize("mapping", list(Mapping))
@pytest.mark.parametrize(
    ("wanted", "event"),
    [
        ("surf", "surf"),
        ("surf", "surf=3"),
        ("surf[1,9]", "surf=3"),
        ("surf[1,9]", "surf[2,4]"),
        ("surf[,9]", "surf=3/ski"),
        ("s%C3%A3o%20paulo/surf[1,9]", "s%C3%A3o%20paulo/surf=3"),
        ("a/b/c[0,1]", "c=1/d/b/a"),
    ],
)
def test_subscriber_and_publisher_agree_on_the_rendezvous_of_topics_and_ranges(
    mapping: Mapping, wanted: str, event: str
) -> None:
    forest = Forest(40, ScoutSettings(mapping=mapping), k=3, knows=settled(40, 3))
    forest.subscribed(33, wanted)

    id = forest.publish(27, event)
    forest.run(SECOND)

    assert forest.receivers(id) == [33]


def test_equal_predicates_of_all_nodes_are_kept_in_one_tree() -> None:
    forest = Forest(40)
    for number in forest.numbers:
        forest.subscribe(number, "surf/price[10,20]/portugal")
    forest.run(5 * SECOND)

    attributes = {name for number in forest.numbers for name in forest.scouts(number).view().trees}
    assert len(attributes) == 1


def test_by_the_other_mapping_a_subscription_is_kept_where_it_is_closest_to_the_subscriber() -> (
    None
):
    forest = Forest(20, ScoutSettings(mapping=Mapping.NEAREST))
    forest.run(SECOND)
    wanted = Predicate.parse("surf/price[10,20]/portugal")
    for number in forest.numbers:
        forest.subscribe(number, str(wanted))
        own = forest.contacts[number].key
        nearest = min(wanted.attributes, key=lambda name: key_of(name.encode()) ^ own)
        assert forest.tree(number, nearest).own


# --- a new rendezvous ---


def newcomer(settings: ScoutSettings | None = None) -> Forest:
    """A forest whose closest node is not there yet, with subscribers."""
    forest = Forest(12, settings, absent=[0])
    for number in (3, 5, 8, 11):
        forest.subscribed(number, "surf")
    assert forest.roots() == [1]
    return forest


def test_a_newcomer_closer_to_the_key_becomes_the_rendezvous() -> None:
    forest = newcomer()
    forest.join(0, by_way_of=7)
    forest.run(MINUTE)

    assert forest.roots() == [0]
    assert forest.parent(1) == 0

    id = forest.publish(9, "surf")
    forest.run(SECOND)
    assert forest.receivers(id) == [3, 5, 8, 11]


@pytest.mark.parametrize("backups", [0, 2])
def test_nothing_is_lost_before_during_or_after_the_rendezvous_changes(backups: int) -> None:
    forest = newcomer(ScoutSettings(backups=backups))
    ids: list[EventId] = []

    def publish_now_and_then() -> None:
        ids.append(forest.publish(2 + len(ids) % 9, "surf"))
        if len(ids) < 300:
            forest.world.at(forest.world.now + 200_000, publish_now_and_then)

    publish_now_and_then()
    forest.run(2 * SECOND)
    forest.join(0, by_way_of=7)
    forest.run(80 * SECOND)

    assert forest.roots() == [0]
    assert len(ids) == 300
    for id in ids:
        assert forest.receivers(id) == [3, 5, 8, 11]


def test_a_subscription_that_is_made_while_the_rendezvous_changes_is_in_force() -> None:
    forest = newcomer()
    forest.join(0, by_way_of=7)
    for step in range(20):
        number = forest.subscribed(4, f"surf/price[{step},{step}]")
        id = forest.publish(9, f"surf/price={step}")
        forest.run(3 * SECOND)
        assert 4 in forest.receivers(id)
        forest.unsubscribe(4, number)

    assert forest.roots() == [0]


def test_a_rendezvous_that_hands_over_does_not_keep_events_from_the_new_ones_children() -> None:
    """It does not know yet that the new one has everything and serves others already."""
    forest = newcomer()
    forest.join(0, by_way_of=7)
    forest.run_until(lambda: forest.roots() == [0])
    forest.subscribed(6, "surf")
    assert (forest.parent(6), forest.parent(1)) == (0, 0)

    def hand_over(scouts: ScoutSubs) -> None:
        """As if the acknowledgement that the new rendezvous has everything had been lost."""
        scouts._filters.tables["surf"].is_handing_over = True

    forest.poke(1, hand_over)

    id = forest.published(1, "surf")
    forest.run(10 * SECOND)
    assert forest.receivers(id) == [3, 5, 6, 8, 11]


def test_a_node_that_leaves_a_tree_forgets_what_it_has_asked_its_neighbours() -> None:
    forest = Forest(5)
    membership = forest.scouts(0)._membership
    forest.poke(0, lambda _: membership.join("surf"))
    forest.run_until(lambda: membership.role("surf") is Role.SYNCING)

    membership.leave("surf")

    assert not any(membership.has_asked("surf", forest.host(n).peer) for n in range(1, 5))


def test_an_event_that_is_confirmed_by_its_own_retransmission_is_not_awaited() -> None:
    """As if the rendezvous stood in for the child, and no node below the child wants the event."""
    forest = Forest(3, ScoutSettings(backups=1))
    forest.subscribed(2, "surf")
    forest.cut(0, 2, MINUTE)
    id = forest.published(1, "surf", wants_all=True)
    scouts = forest.scouts(0)

    def retransmit(_: Flight) -> None:
        confirm = Confirm(id, "surf", NO_PEER)
        scouts._dissemination.on_confirm(forest.contacts[2].peer, confirm)

    vars(scouts._dissemination)["retransmit"] = retransmit
    forest.run(MINUTE)
    assert forest.is_confirmed(id)
    scouts.check()


def _replicas(forest: Forest, publisher: int, event: Publication) -> int:
    """Publish an event, and return how many nodes hold it when it is acknowledged."""
    earlier = len(forest.items(publisher))
    now = forest.clock(publisher)
    forest.do(publisher, forest.scouts(publisher).publish(event, now, wants_all=False))

    def published() -> list[Published]:
        return [i for i in forest.items(publisher)[earlier:] if isinstance(i, Published)]

    forest.run_until(lambda: bool(published()), 5 * SECOND)
    return len({held.peer for held in published()[0].held})


@pytest.mark.parametrize("newcomers", [(0, 1), (3, 4)], ids=["closer", "farther"])
def test_an_event_that_is_published_again_gets_the_replicas_of_now(
    newcomers: tuple[int, int],
) -> None:
    forest = Forest(5, absent=(0, 1, 3, 4))
    event = forest.core(2).new_event(Predicate.parse("surf"), b"", forest.clock(2))
    assert _replicas(forest, 2, event) == 1

    for number in newcomers:
        forest.join(number, by_way_of=2)
    forest.run(SECOND)

    assert _replicas(forest, 2, event) == 3
    assert _replicas(forest, 2, event) == 3
    forest.run(MINUTE)
    assert all(not forest.scouts(number)._dissemination.flight_count for number in newcomers)


def test_an_event_in_flight_that_is_published_again_gets_the_replicas_of_now() -> None:
    forest = Forest(5, absent=(3, 4))
    forest.subscribed(1, "surf")
    forest.crash(1, 2)
    event = forest.core(0).new_event(Predicate.parse("surf"), b"", forest.clock(0))
    forest.do(0, forest.scouts(0).publish(event, forest.clock(0), wants_all=False))
    forest.run_until(lambda: forest.is_published(event.id))
    assert forest.scouts(0)._dissemination.flight_count == 1

    for number in (3, 4):
        forest.join(number, by_way_of=0)
    forest.run(SECOND)

    assert _replicas(forest, 0, event) == 3
    assert forest.scouts(0)._dissemination.flight_count == 1


def test_a_retransmission_of_an_acknowledged_event_is_only_answered() -> None:
    forest = Forest(3)
    event = forest.event(1, 1, "surf")
    forest.receive(1, 0, Raise(event, "surf", 0, 1, False, False, 0))
    forest.run(MINUTE)
    before = Counter(type(said.part) for said in forest.said)

    forest.receive(1, 0, Raise(event, "surf", 0, 1, True, False, 5_000))
    forest.run(SECOND)

    new = Counter(type(said.part) for said in forest.said) - before
    assert new[Record] == 0
    assert new[Admitted] == 1


def test_a_node_without_peers_verifies_any_number_of_roots_without_a_recursion() -> None:
    forest = Forest(1)
    forest.run(SECOND)
    names = [f"topic{number}" for number in range(300)]

    def verify(scouts: ScoutSubs) -> None:
        membership = scouts._membership
        for name in names:
            membership.join(name)
        membership._unverified.update(dict.fromkeys(names))
        membership.verify_root(names[0])
        assert not membership._unverified
        assert not membership._looked_up

    forest.poke(0, verify)


def test_a_neighbour_that_does_not_tell_what_it_knows_is_not_taken_for_down() -> None:
    """Node 2 knows that node 0 is closer than node 1, so it does not answer node 1."""
    known = {0: [2], 1: [2], 2: [0, 1]}
    forest = Forest(3, ScoutSettings(backups=0), knows=lambda number: known[number], is_fixed=True)
    forest.subscribe(1, "surf")

    forest.run_until(lambda: forest.roots() == [1])

    assert forest.rejected(2)[refusal_of(Pull)] > 0
    assert forest.scouts(1).view().suspected == ()


def test_a_silent_neighbour_is_taken_for_down() -> None:
    forest = Forest(3, ScoutSettings(backups=0), knows=lambda _: [0, 1, 2], is_fixed=True)
    forest.crash(1, 2)
    forest.subscribe(0, "surf")

    forest.run_until(lambda: forest.roots() == [0])

    assert forest.contacts[1].peer in forest.scouts(0).view().suspected
