"""Addresses with names, announced addresses, and peers that cannot be reached."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from multiaddr import Multiaddr

from smartpubsub import Node
from smartpubsub.node.transport.connections import resolved
from smartpubsub.node.transport.streams import UnreachableError
from tests.node.hosts import LOOPBACK, run

PEER = "12D3KooW9pNAk8aiBuGVQtWRdbkLmo5qVL3e2h5UxbN2Nz9ttwiw"


def test_names_are_looked_up_by_the_system() -> None:
    async def main() -> None:
        assert await resolved(Multiaddr("/dns4/localhost/tcp/4001")) == [
            Multiaddr("/ip4/127.0.0.1/tcp/4001")
        ]
        plain = Multiaddr("/ip4/192.0.2.1/tcp/4001")
        assert await resolved(plain) == [plain]
        with pytest.raises(UnreachableError, match=r"nowhere\.invalid"):
            await resolved(Multiaddr("/dns4/nowhere.invalid/tcp/4001"))

    run(main)


def test_a_node_is_reached_by_the_name_that_it_announces(tmp_path: Path) -> None:
    async def main() -> None:
        async with Node(data=tmp_path / "a", listen=[LOOPBACK]) as probe:
            port = probe.addresses[0].split("/")[4]
        named = f"/dns4/localhost/tcp/{port}"
        listen = [f"/ip4/127.0.0.1/tcp/{port}"]
        async with Node(data=tmp_path / "a", listen=listen, announce=[named]) as a:
            assert a.addresses == [f"{named}/p2p/{a.peer_id}"]
            async with Node(data=tmp_path / "b", listen=[LOOPBACK], bootstrap=a.addresses) as b:
                assert await b.peers() == a.addresses

    run(main)


def test_why_a_bootstrap_cannot_be_reached_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        bootstrap = [f"/ip4/127.0.0.1/tcp/1/p2p/{PEER}", f"/dns4/nowhere.invalid/tcp/1/p2p/{PEER}"]
        async with Node(data=tmp_path, listen=[LOOPBACK], bootstrap=bootstrap):
            pass

    with caplog.at_level(logging.WARNING):
        run(main)
    told = [record.fields for record in caplog.records if hasattr(record, "fields")]
    reasons = {fields["address"]: fields["reason"] for fields in told if "reason" in fields}
    assert reasons[f"/ip4/127.0.0.1/tcp/1/p2p/{PEER}"].endswith("Connection refused")
    assert reasons[f"/dns4/nowhere.invalid/tcp/1/p2p/{PEER}"].startswith("nowhere.invalid: ")
