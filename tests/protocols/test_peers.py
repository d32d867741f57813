"""Peers are the nodes in the routing table and the nodes that greet."""

from random import Random

from smartpubsub.kademlia.core import Kademlia
from smartpubsub.kademlia.settings import MINUTE, Settings
from smartpubsub.protocols.baselines.messages import Rpc
from smartpubsub.protocols.baselines.peers import Peers, PeerSettings
from smartpubsub.seam import Effect, Send
from tests.protocols.network import contact

A, B, C = (contact(number).peer for number in (1, 2, 3))


def peers_with_table(*numbers: int, count_max: int = 10) -> tuple[Peers, Kademlia]:
    kademlia = Kademlia(contact(0), Settings(failures_max=1), Random(1))
    for number in numbers:
        kademlia.table.heard_from(contact(number), now=0)
    return Peers(PeerSettings(peer_count_max=count_max), kademlia), kademlia


def greetings(*peers: bytes) -> list[Effect]:
    return [Send(peer, Rpc(subscribe=True)) for peer in peers]


def test_nodes_in_the_routing_table_are_greeted_and_are_peers() -> None:
    peers, _ = peers_with_table(1, 2)

    assert peers.greet(now=0) == greetings(A, B)
    assert list(peers) == [A, B]
    assert peers.is_outbound(A)


def test_a_greeting_is_repeated_because_it_may_have_been_lost() -> None:
    peers, _ = peers_with_table(1)
    peers.greet(now=0)

    assert peers.greet(now=5 * MINUTE - 1) == []
    assert peers.greet(now=5 * MINUTE) == greetings(A)


def test_a_peer_that_has_just_greeted_is_not_greeted() -> None:
    peers, _ = peers_with_table(1, 2)
    assert peers.heard_from(A, now=0)

    assert peers.greet(now=0) == greetings(B)
    assert not peers.is_outbound(A)
    assert peers.greet(now=5 * MINUTE) == greetings(A, B)


def test_a_peer_that_left_the_routing_table_is_forgotten_unless_it_greets() -> None:
    peers, kademlia = peers_with_table(1, 2)
    peers.greet(now=0)
    peers.heard_from(B, now=MINUTE)
    for number in (1, 2):
        kademlia.table.failed(contact(number), failures_max=1)

    peers.greet(now=2 * MINUTE)
    assert list(peers) == [B]
    peers.greet(now=16 * MINUTE - 1)
    assert list(peers) == [B]
    peers.greet(now=16 * MINUTE)
    assert list(peers) == []


def test_the_number_of_peers_is_limited_and_known_peers_stay() -> None:
    peers, _ = peers_with_table(1, 2, 3, count_max=2)
    assert peers.heard_from(C, now=0)

    assert peers.greet(now=0) == greetings(A)
    assert not peers.heard_from(B, now=0)
    assert peers.heard_from(C, now=1)
    assert list(peers) == [C, A]
