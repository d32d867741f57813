"""A node tells whom it has convicted and whom it blames, in every way that it tells of itself."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from smartpubsub import Node
from smartpubsub.cli.node.info import distrusted_text
from smartpubsub.kademlia.blame import DROPPED
from smartpubsub.node.api.listing import Distrusted
from smartpubsub.node.identity import peer_text
from smartpubsub.protocols.scoutsubs.protocol import ScoutSubs
from tests.gateway.serving import served
from tests.node.hosts import LOOPBACK, run

LIAR = b"\x00\x24\x08\x01\x12\x20" + b"l" * 32
DROPPER = b"\x00\x24\x08\x01\x12\x20" + b"d" * 32


def test_convicted_and_blamed_peers_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ScoutSubs, "convicted", lambda _: {LIAR: "two things"})

    async def main() -> None:
        async with served(tmp_path) as (node, _, http):
            blame, now = node._engine.core.kademlia.blame, node._engine.host.clock.now()
            blame.put(DROPPER, DROPPED, now)
            liar, dropper = node.distrusted()
            assert liar == Distrusted(peer_text(LIAR), "two things", 0.0, {})
            assert dropper[:2] == (peer_text(DROPPER), None)
            assert dropper.blame == pytest.approx(1, abs=0.01)
            assert dropper.reasons == {DROPPED: 1}

            answer = await http.get("/v1/distrusted")
            assert answer.status_code == httpx.codes.OK
            assert [each["who"] for each in answer.json()] == [liar.who, dropper.who]
            metrics = (await node.metrics()).decode()
            assert "smartpubsub_convicted_peers 1.0" in metrics
            assert "smartpubsub_blamed_peers 1.0" in metrics
            assert distrusted_text(liar._asdict()).endswith("convicted: has signed two things")
            assert distrusted_text(dropper._asdict()).endswith("blame 1.0: dropped (1)")

    run(main)


def test_blame_outlives_a_node_that_ends(tmp_path: Path) -> None:
    async def main() -> None:
        async with Node(data=tmp_path, listen=[LOOPBACK]) as node:
            now = node._engine.host.clock.now()
            node._engine.core.kademlia.blame.put(DROPPER, DROPPED, now)
        async with Node(data=tmp_path, listen=[LOOPBACK]) as node:
            (dropper,) = node.distrusted()
            assert dropper.who == peer_text(DROPPER)

    run(main)
