"""Two nodes of which one leaves: the other one goes on at once."""

from pathlib import Path

import pytest
import trio

from smartpubsub import Node
from smartpubsub.kademlia.messages import Kind, Message
from smartpubsub.node.errors import ChoiceError, NotPromisedError, TooFewReplicasError
from smartpubsub.protocols import departure
from smartpubsub.protocols.codecs import NODE
from smartpubsub.protocols.departure import Goodbye
from smartpubsub.protocols.scoutsubs import messages as scout_messages
from smartpubsub.protocols.scoutsubs.messages import Bundle, Probe
from smartpubsub.protocols.scoutsubs.spec import SCOUTSUBS
from tests.hostile.attacker import attackers, nodes
from tests.node.hosts import LOOPBACK, eventually, holds, run
from tests.node.test_node import node_in

QUICKLY_S = 60
"""Less than a publisher waits. The simulator measures how much faster it is."""


def test_the_survivor_acknowledges_as_the_only_replica(tmp_path: Path) -> None:
    async def main() -> None:
        async with node_in(tmp_path / "a") as survivor:
            async with node_in(tmp_path / "b", survivor) as leaver:
                await eventually(lambda: holds(survivor.peers(), lambda peers: len(peers) == 1))
                both = await leaver.publish("surf/price=1")
                assert (both.replicas, both.replicas_wanted) == (2, 3)
            # A node that leaves waits until its peers have read its goodbye.
            assert survivor._engine.host.counts.received_kinds["goodbye"] == 1
            with trio.fail_after(QUICKLY_S):
                for price in range(2, 6):
                    alone = await survivor.publish(f"surf/price={price}")
                    assert alone.replicas == 1

    run(main)


def test_a_node_that_starts_without_its_peers_publishes(tmp_path: Path) -> None:
    async def main() -> None:
        async with node_in(tmp_path / "a") as node, node_in(tmp_path / "b", node):
            await eventually(lambda: holds(node.peers(), lambda peers: len(peers) == 1))
        async with node_in(tmp_path / "a") as again, again.subscribe("surf") as events:
            with trio.fail_after(QUICKLY_S):
                receipt = await again.publish("surf", b"hello")
                assert (await anext(aiter(events))).id == receipt.id

    run(main)


def test_too_few_replicas_are_an_error_with_the_id_of_the_event(tmp_path: Path) -> None:
    async def main() -> None:
        async with node_in(tmp_path / "a") as node, node.subscribe("surf") as events:
            with pytest.raises(TooFewReplicasError, match="only 1 of the 2 replicas") as caught:
                await node.publish("surf", replicas_min=2)
            assert (await anext(aiter(events))).id == caught.value.id
            await _refuses(node, 4, "between 0 and 3")
            with pytest.raises(ChoiceError, match="needs wait"):
                await node.publish("surf", replicas_min=1, wait="nothing")

    run(main)


def test_a_protocol_without_replicas_refuses_to_count_them(tmp_path: Path) -> None:
    async def main() -> None:
        async with Node(data=tmp_path, listen=[LOOPBACK], protocol="gossipsub") as node:
            with pytest.raises(NotPromisedError, match="gossipsub keeps no replicas"):
                await node.publish("surf", replicas_min=1)

    run(main)


async def _refuses(node: Node, replicas_min: int, complaint: str) -> None:
    with pytest.raises(ChoiceError, match=complaint):
        await node.publish("surf", replicas_min=replicas_min)


def test_what_a_peer_has_sent_before_its_goodbye_is_handled_before(tmp_path: Path) -> None:
    async def main() -> None:
        async with nodes(tmp_path) as (node,), attackers(node) as (leaver,):
            received = node._engine.host.counts.received_kinds
            table = node._engine.core.kademlia.table
            await leaver.ask(node, Message(Kind.PING))
            await eventually(lambda: leaver.contact in table)
            leaver.script = lambda *_: []  # No answer shows that it is there.
            slow = await leaver.open(node, SCOUTSUBS)
            await leaver.write(node, NODE, departure.encode(Goodbye(1)))
            await eventually(lambda: received["goodbye"] == 1)
            await slow.write(scout_messages.encode(Bundle((Probe(7),))))
            await eventually(lambda: received["scoutsubs/probe"] == 1)
            assert leaver.contact in table  # It still speaks.
            await eventually(lambda: leaver.contact not in table)

    run(main)


def test_an_event_gets_the_missing_replicas_when_nodes_are_there(tmp_path: Path) -> None:
    async def main() -> None:
        async with node_in(tmp_path / "a") as node, node.subscribe("surf") as events:
            with pytest.raises(TooFewReplicasError, match="only 1 of the 3 replicas") as caught:
                await node.publish("surf", b"hi", replicas_min=3)
            id = caught.value.id
            async with node_in(tmp_path / "b", node) as other, node_in(tmp_path / "c", node):
                await eventually(lambda: holds(node.peers(), lambda peers: len(peers) == 2))
                await eventually(lambda: holds(other.peers(), lambda peers: len(peers) == 2))
                again = await node.publish("surf", b"hi", id=id, replicas_min=3)
                assert (again.id, again.replicas, again.verify()) == (id, 3, True)
                last = await node.publish("surf", b"last")
                # The application gets the event once.
                assert [(await anext(aiter(events))).id for _ in range(2)] == [id, last.id]

    run(main)
