"""Peers whose ids lack the proof of work are in no table, and in no result of a lookup."""

from itertools import count

import pytest

from smartpubsub.kademlia.id_work import has_work
from smartpubsub.kademlia.messages import Kind, Message
from smartpubsub.kademlia.queries import Found
from smartpubsub.kademlia.settings import Settings
from smartpubsub.seam import Ask, Deliver
from tests.kademlia.alone import PING, answer, asked
from tests.kademlia.wired import contact, items, new_core

BITS = 3
SETTINGS = Settings(id_work_bits=BITS)
WORKED = [number for number in range(1, 200) if has_work(contact(number).peer, BITS)]
IDLE = [number for number in range(1, 200) if number not in WORKED]


def test_every_bit_halves_the_ids_that_have_the_work() -> None:
    peers = [b"%d" % number for number in range(4_096)]
    shares = [sum(has_work(peer, bits) for peer in peers) / len(peers) for bits in range(5)]
    assert shares == pytest.approx([1, 1 / 2, 1 / 4, 1 / 8, 1 / 16], rel=0.2)
    assert all(has_work(peer, 2) for peer in peers if has_work(peer, 3))


@pytest.mark.parametrize("has_it", [True, False])
def test_a_peer_that_asks_is_considered_only_with_the_work(has_it: bool) -> None:
    core, number = new_core(0, SETTINGS), (WORKED if has_it else IDLE)[0]
    pings = items(asked(core, number, PING), Ask)
    for ping in pings:
        answer(core, ping)

    assert len(pings) == has_it
    assert (contact(number) in core.table) == has_it


def test_a_lookup_leaves_out_peers_without_the_work() -> None:
    core = new_core(0, SETTINGS)
    core.table.heard_from(contact(WORKED[0]), 0)
    named = [contact(number) for number in (*IDLE[:5], *WORKED[1:4])]
    _, effects = core.find_closest(b"name", 0)
    pending, found = items(effects, Ask), []
    for _ in count():
        if not pending:
            break
        effects = answer(core, pending.pop(), Message(Kind.FIND_NODE, b"name", closer=tuple(named)))
        pending += items(effects, Ask)
        found += [one.item for one in items(effects, Deliver) if isinstance(one.item, Found)]

    (result,) = found
    assert {one.peer for one in result.closest} - {core.own.peer} == {
        contact(number).peer for number in WORKED[:4]
    }


def test_a_node_joins_through_a_peer_without_the_work_and_does_not_keep_it() -> None:
    core = new_core(0, SETTINGS)
    (first,) = items(core.join([contact(IDLE[0])], 0), Ask)
    named = (contact(IDLE[1]), contact(WORKED[0]))
    (second,) = items(answer(core, first, Message(Kind.FIND_NODE, b"", closer=named)), Ask)

    assert second.peer == contact(WORKED[0]).peer
    assert len(core.table) == 0
