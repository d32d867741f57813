"""A peer that hangs: its process is stopped, its connections are open, and it does not answer."""

import signal
from pathlib import Path

import trio
from libp2p.peer.id import ID

from smartpubsub import Node
from smartpubsub.kademlia.keys import key_of
from tests.cli.running import RunningNode, commands
from tests.node.hosts import eventually, holds, run
from tests.node.test_node import node_in

SOON_S = 60
"""Whatever else the machine does. The simulator measures the detection timeout of 5 s exactly."""


def attribute_of(rendezvous: str, *others: str) -> str:
    """An attribute whose key is closer to one node than to the others."""

    def distance(peer: str, name: str) -> int:
        return key_of(ID.from_string(peer).to_bytes()) ^ key_of(name.encode())

    names = (f"attribute-{number}" for number in range(1_000))
    return next(
        name
        for name in names
        if all(distance(rendezvous, name) < distance(other, name) for other in others)
    )


def test_events_are_acknowledged_while_their_rendezvous_hangs(tmp_path: Path) -> None:
    async def publish(node: Node, other: Node, hanging: RunningNode) -> None:
        await eventually(lambda: holds(node.peers(), lambda peers: len(peers) == 2))
        await eventually(lambda: holds(other.peers(), lambda peers: len(peers) == 2))
        name = attribute_of(hanging.peer_id, node.peer_id, other.peer_id)
        async with other.subscribe(name) as events:
            await node.publish(name, b"before")
            hanging.running.process.send_signal(signal.SIGSTOP)
            for payload in (b"first", b"second"):
                with trio.fail_after(SOON_S):
                    receipt = await node.publish(name, payload)
                assert receipt.replicas == 2
            with trio.fail_after(SOON_S):
                got = [(await anext(aiter(events))).payload for _ in range(3)]
            assert sorted(got) == [b"before", b"first", b"second"]

    async def main() -> None:
        async with node_in(tmp_path / "a") as node, node_in(tmp_path / "b", node) as other:
            with commands() as running:
                arguments = ("--bootstrap", node.addresses[0])
                folder = tmp_path / "c"
                hanging = await trio.to_thread.run_sync(running.node, folder, *arguments)
                await publish(node, other, hanging)

    run(main)
