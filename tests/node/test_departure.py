"""Two nodes of which one leaves: the other one goes on at once."""

from pathlib import Path

import pytest
import trio

from smartpubsub import Node
from smartpubsub.node.errors import ChoiceError, TooFewReplicasError
from tests.node.hosts import eventually, holds, run
from tests.node.test_node import node_in

QUICKLY_S = 10
"""Far less than the time in which unanswered probes find a node down on a busy machine."""


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


async def _refuses(node: Node, replicas_min: int, complaint: str) -> None:
    with pytest.raises(ChoiceError, match=complaint):
        await node.publish("surf", replicas_min=replicas_min)
