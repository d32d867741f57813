"""One copy of an event to a node that wants it in several trees."""

from itertools import product

import pytest

from smartpubsub.kademlia.keys import key_of
from smartpubsub.kademlia.settings import MINUTE, SECOND
from smartpubsub.protocols.publication import EventId
from smartpubsub.protocols.scoutsubs.messages import Bundle, Elsewhere, Notify, Offer, Want
from smartpubsub.protocols.scoutsubs.settings import ScoutSettings
from smartpubsub.seam import Send
from smartpubsub.sim.kernel.network import DROP
from tests.protocols.scoutsubs.forest import MS, Forest, variant

VARIANTS = [
    pytest.param(variant(is_reliable=reliable, redirects=redirects), id=f"{redirects}-{reliable}")
    for redirects, reliable in product((False, True), repeat=2)
]
EARLIER, LATER = sorted(["surf", "bali"], key=lambda name: key_of(name.encode()))
BOTH = f"{EARLIER}/{LATER}"
NODES = 20


def someone(forest: Forest) -> int:
    """A node that is no rendezvous, nor the publisher."""
    known = {root(forest, EARLIER), root(forest, LATER), publisher(forest)}
    return next(n for n in reversed(forest.numbers) if n not in known)


def publisher(forest: Forest) -> int:
    roots = (root(forest, EARLIER), root(forest, LATER))
    return next(n for n in forest.numbers if n not in roots)


def root(forest: Forest, attribute: str) -> int:
    key = key_of(attribute.encode())
    return min(forest.numbers, key=lambda n: forest.contacts[n].key ^ key)


def two_trees(settings: ScoutSettings | None = None) -> tuple[Forest, int, int, int]:
    """A forest in which a node subscribes in two trees, the node, and its subscriptions."""
    forest = Forest(NODES, settings)
    node = someone(forest)
    first, second = forest.subscribed(node, EARLIER), forest.subscribed(node, LATER)
    forest.run(SECOND)
    return forest, node, first, second


def copies(forest: Forest, node: int, id: EventId) -> int:
    return sum(
        said.receiver == node and isinstance(said.part, Notify) and said.part.event.id == id
        for said in forest.said
    )


def got(forest: Forest, node: int, subscription: int) -> list[EventId]:
    return [d.event.id for d in forest.deliveries(node) if subscription in d.subscriptions]


@pytest.mark.parametrize("settings", VARIANTS)
def test_an_event_that_matches_in_two_trees_comes_once_and_is_delivered_to_both(
    settings: ScoutSettings,
) -> None:
    forest, node, first, second = two_trees(settings)

    id = forest.publish(publisher(forest), BOTH)
    forest.run(SECOND)

    assert copies(forest, node, id) == 1
    assert got(forest, node, first) == got(forest, node, second) == [id]
    assert forest.count(Offer)[node] == 1
    assert not forest.count(Want)


def test_an_event_that_matches_only_in_the_later_tree_is_not_offered_but_sent() -> None:
    forest = Forest(NODES)
    node = someone(forest)
    forest.subscribed(node, f"{EARLIER}/price[0,10]")
    later = forest.subscribed(node, LATER)
    forest.run(SECOND)

    id = forest.publish(publisher(forest), f"{BOTH}/price=20")
    forest.run(SECOND)

    assert got(forest, node, later) == [id]
    assert not forest.count(Offer)


@pytest.mark.parametrize("settings", VARIANTS)
def test_an_event_that_does_not_come_by_the_other_tree_is_asked_for(
    settings: ScoutSettings,
) -> None:
    forest, node, _, second = two_trees(settings)
    blocked = (root(forest, EARLIER), node)
    forest.world.network.rules.append(lambda _, *link: DROP if link == blocked else None)

    id = forest.publish(publisher(forest), BOTH)
    forest.run(2 * SECOND)

    assert got(forest, node, second) == [id]


def test_later_events_do_not_overtake_an_offered_one() -> None:
    forest, node, _, second = two_trees()
    slow = (root(forest, EARLIER), node)
    forest.world.network.rules.append(lambda _, *link: 200 * MS if link == slow else None)

    ids = [forest.publish(publisher(forest), text) for text in (BOTH, LATER, BOTH, LATER)]
    forest.run(100 * MS)
    assert got(forest, node, second) == []
    forest.run(SECOND)

    assert got(forest, node, second) == ids


def test_nothing_is_held_up_for_long_by_an_offered_event_that_is_missing() -> None:
    forest, node, _, second = two_trees(variant(is_reliable=False, redirects=False))
    forest.world.network.rules.append(
        lambda _, *link: DROP if link == (root(forest, EARLIER), node) else None
    )
    forest.world.network.rules.append(
        lambda _, *link: DROP if link == (node, root(forest, LATER)) else None
    )

    forest.publish(publisher(forest), BOTH)
    after = forest.publish(publisher(forest), LATER)
    forest.run(3 * SECOND)

    assert got(forest, node, second) == [after]


def test_after_an_unsubscribe_in_the_other_tree_events_are_sent_again() -> None:
    forest, node, first, second = two_trees()
    forest.unsubscribed(node, first)

    at_once = forest.publish(publisher(forest), BOTH)
    forest.run(SECOND)
    offers = forest.count(Offer)[node]
    later = forest.publish(publisher(forest), BOTH)
    forest.run(SECOND)

    assert got(forest, node, second) == [at_once, later]
    assert forest.count(Offer)[node] == offers


def test_a_node_that_is_no_child_does_not_get_an_event_that_it_requests() -> None:
    forest, node, _, _ = two_trees()
    id = forest.published(publisher(forest), BOTH)
    forest.run(SECOND)
    rendezvous = root(forest, LATER)
    known = (node, publisher(forest), rendezvous, root(forest, EARLIER))
    stranger = next(n for n in forest.numbers if n not in known)

    asked = Bundle((Want(id, LATER),))
    forest.do(stranger, [Send(forest.contacts[rendezvous].peer, asked)])
    forest.run(SECOND)

    assert copies(forest, stranger, id) == 0


def test_parents_are_told_again_after_a_crash() -> None:
    forest, node, first, second = two_trees()
    forest.crash(root(forest, LATER))
    forest.run(3 * MINUTE)

    id = forest.published(publisher(forest), BOTH)
    forest.run(MINUTE)

    assert got(forest, node, first) == got(forest, node, second) == [id]
    assert copies(forest, node, id) == 1


def test_a_node_in_one_tree_says_nothing_of_others() -> None:
    forest = Forest(NODES)
    forest.subscribed(someone(forest), BOTH)
    forest.run(MINUTE)

    assert not forest.count(Elsewhere)


def test_events_that_keep_arriving_do_not_delay_the_request_for_a_missing_one() -> None:
    forest, node, _, second = two_trees(variant(is_reliable=False, redirects=False))
    rules, slow = forest.world.network.rules, (root(forest, EARLIER), node)
    rules.append(lambda _, *link: DROP if link == slow else None)
    missing = forest.publish(publisher(forest), BOTH)
    forest.run(200 * MS)
    rules.pop()
    rules.append(lambda _, *link: 60 * MS if link == slow else None)  # Offers come first.

    for _ in range(30):
        forest.publish(publisher(forest), BOTH)
        forest.run(100 * MS)

    assert got(forest, node, second)[:1] == [missing]
