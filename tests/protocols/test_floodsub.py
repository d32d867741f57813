"""A flood reaches every node, over every link once."""

import pytest

from smartpubsub.kademlia.settings import HOUR, MINUTE, SECOND
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.baselines.floodsub import Floodsub, FloodsubSettings
from smartpubsub.protocols.baselines.messages import Copy, Rpc
from smartpubsub.protocols.publication import EventId, Publication
from smartpubsub.seam import Disconnected
from smartpubsub.sim.kernel.signing import StandInSigning
from tests.protocols.network import Nodes, contact, flooding


@pytest.fixture
def nodes() -> Nodes:
    nodes = Nodes(40, flooding(), k=4)
    nodes.join_all()
    return nodes


def floodsub(nodes: Nodes, number: int) -> Floodsub:
    pubsub = nodes.core(number).pubsub
    assert isinstance(pubsub, Floodsub)
    return pubsub


def test_only_interested_nodes_deliver_an_event_and_do_so_once(nodes: Nodes) -> None:
    for number in (3, 17, 30):
        nodes.subscribe(number, "surf/price[10,20]")
    nodes.subscribe(5, "surf/price[20,30]")

    id = nodes.publish(0, "surf/price=15")
    nodes.run(SECOND)

    assert nodes.receivers(id) == [3, 17, 30]


def test_a_node_gets_its_own_event_without_the_network(nodes: Nodes) -> None:
    number = nodes.subscribe(0, "surf")
    nodes.publish(0, "surf")

    ((node, delivery),) = nodes.deliveries
    assert (node, delivery.subscriptions, delivery.hops) == (0, (number,), 0)


def test_peers_know_each_other(nodes: Nodes) -> None:
    for number in nodes.numbers:
        for peer in floodsub(nodes, number).peers:
            (other,) = (n for n in nodes.numbers if contact(n).peer == peer)
            assert contact(number).peer in floodsub(nodes, other).peers


def test_an_event_goes_over_every_link_but_not_back(nodes: Nodes) -> None:
    """The publisher sends to all its peers, and all others to all theirs but one.

    That one is who they had the event from. Those next to the publisher had it from itself, since
    here all links are equally long, so that it never comes back to the publisher.
    """
    nodes.received.clear()
    nodes.publish(7, "surf")
    nodes.run(SECOND)

    degrees = [len(floodsub(nodes, number).peers) for number in nodes.numbers]
    assert max(degrees) < len(nodes.numbers) - 1
    assert nodes.received["event"] == sum(degrees) - (len(nodes.numbers) - 1)


def test_hops_count_links(nodes: Nodes) -> None:
    for number in nodes.numbers:
        nodes.subscribe(number, "surf")
    nodes.publish(0, "surf")
    nodes.run(SECOND)

    neighbours = floodsub(nodes, 0).peers
    hops = {number: delivery.hops for number, delivery in nodes.deliveries}
    assert len(hops) == len(nodes.numbers)
    for number in nodes.numbers[1:]:
        assert (hops[number] == 1) == (contact(number).peer in neighbours)


def test_an_event_that_another_peer_signed_is_not_forwarded(nodes: Nodes) -> None:
    nodes.subscribe(1, "surf")
    id = EventId(contact(2).peer, 0, 99)
    surf = Predicate.parse("surf")
    forged = Publication.of(id, surf, b"", StandInSigning(contact(0).peer).sign(id, surf, b""))
    nodes.received.clear()

    nodes.send(0, 1, Rpc(publish=(Copy(forged, 1),)))
    nodes.run(SECOND)

    assert nodes.deliveries == []
    assert nodes.received["event"] == 1
    assert floodsub(nodes, 1).refused == 1


def test_peers_that_disconnect_or_unsubscribe_get_no_more_events(nodes: Nodes) -> None:
    first, second, *_ = floodsub(nodes, 0).peers
    core = nodes.core(0)

    nodes.do(0, core.handle(Disconnected(first), nodes.clock(0)))
    (number,) = (n for n in nodes.numbers if contact(n).peer == second)
    nodes.send(number, 0, Rpc(subscribe=False))
    nodes.run(SECOND)

    assert first not in floodsub(nodes, 0).peers
    assert second not in floodsub(nodes, 0).peers


def test_the_number_of_peers_is_limited() -> None:
    nodes = Nodes(12, flooding(FloodsubSettings(peer_count_max=3)))
    nodes.join_all()

    assert {len(floodsub(nodes, number).peers) for number in nodes.numbers} == {3}
    assert sum(floodsub(nodes, number).refused for number in nodes.numbers) > 0
    for number in nodes.numbers:
        assert all(b.held <= b.held_max for b in floodsub(nodes, number).inspect().bounds)


def test_crashed_peers_are_forgotten_and_return_after_a_restart(nodes: Nodes) -> None:
    dead = contact(9).peer
    nodes.world.crash(nodes.host(9))
    nodes.run(HOUR)
    assert not any(dead in floodsub(nodes, n).peers for n in nodes.numbers if n != 9)

    nodes.world.restart(nodes.host(9))
    nodes.run(2 * MINUTE)
    nodes.subscribe(9, "surf")
    id = nodes.publish(0, "surf")
    nodes.run(SECOND)
    assert nodes.receivers(id) == [9]
