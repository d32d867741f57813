"""A host and a peer of js-libp2p on real connections: each understands what the other says."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
import trio

from smartpubsub.kademlia.core import Kademlia
from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.queries import Found, Got, Joined, Put
from smartpubsub.kademlia.settings import MINUTE, Settings
from smartpubsub.node.identity import Identity, peer_text
from smartpubsub.node.network_key import NetworkKey
from smartpubsub.node.transport.contacts import contact_at, text_of
from smartpubsub.node.transport.host import Host
from smartpubsub.node.transport.private_network import PrivateTcp
from smartpubsub.protocols.codecs import KADEMLIA, kademlia_codec
from tests.interop.javascript import Script, require_packages, running
from tests.node.hosts import LOOPBACK, Memory, eventually, run

PEER = (Path(__file__).parent / "peer.mjs").read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def _packages() -> None:
    require_packages()


class Ours:
    """Kademlia on a host, where values may stand under `/test/`."""

    def __init__(self, key: NetworkKey | None) -> None:
        self.core: Kademlia
        self.told: list[object] = []
        self.host = Host(
            Identity.new(),
            self._make_core,
            [kademlia_codec(Settings())],
            Memory(),
            on_deliver=self.told.append,
            make_tcp=partial(PrivateTcp, key) if key else None,
        )

    def _make_core(self, own: Contact) -> Kademlia:
        self.core = Kademlia(own, Settings(), Random(1), {b"test": lambda _, __: True})
        return self.core

    @property
    def id(self) -> str:
        return peer_text(self.host.own.peer)

    @property
    def address(self) -> str:
        return text_of(self.host.own.peer, self.host.own.addresses[0])

    async def hear(self, kind: type) -> Any:
        """What it is told next of a kind."""
        await eventually(lambda: any(isinstance(item, kind) for item in self.told))
        return self.told.pop([isinstance(item, kind) for item in self.told].index(True))

    async def join(self, address: str) -> None:
        contact = contact_at(address)
        await self.host.do(lambda now: self.core.join([contact], now))
        assert (await self.hear(Joined)).known == 1


@asynccontextmanager
async def both(
    key: Path | None = None,
) -> AsyncIterator[tuple[Ours, Script, dict[str, str]]]:
    """Ours, theirs, and who and where theirs is."""
    ours = Ours(NetworkKey.read(key) if key else None)
    variables = {"NETWORK_KEY": key.read_text()} if key else {}
    async with (
        trio.open_nursery() as nursery,
        running("--input-type=module", "--eval", PEER, **variables) as theirs,
    ):
        await nursery.start(ours.host.run, [LOOPBACK])
        yield ours, theirs, await theirs.said()
        await theirs.finish()
        assert await theirs.ended() == 0
        nursery.cancel_scope.cancel()


def test_js_dials_and_identifies_a_node() -> None:
    async def main() -> None:
        async with both() as (ours, theirs, they):
            assert await theirs.ask("dial", ours.address) == ours.id
            said = await theirs.ask("identify", ours.id)
            assert said["agentVersion"].startswith("smartpubsub/")
            assert KADEMLIA in said["protocols"]
            assert f"{said['addresses'][0]}/p2p/{ours.id}" == ours.address
            assert said["observed"].startswith("/ip4/127.0.0.1/tcp/")
            assert await theirs.ask("ping", ours.address) >= 0
            peer, (address,) = (
                contact_at(they["address"]).peer,
                contact_at(they["address"]).addresses,
            )
            assert peer in ours.host.connections
            await eventually(lambda: address in ours.host.book.of(peer))

    run(main)


def test_a_node_dials_js_and_finds_its_place_there() -> None:
    async def main() -> None:
        async with both() as (ours, theirs, they):
            await ours.join(they["address"])
            assert await theirs.ask("peers") == [ours.id]
            assert (await theirs.ask("identify", ours.id))["protocols"]
            await ours.host.call(lambda now: ours.core.find_closest(b"surf", now))
            found = {peer_text(contact.peer) for contact in (await ours.hear(Found)).closest}
            assert found == {ours.id, they["id"]}

    run(main)


def test_a_private_network_has_nodes_of_both(tmp_path: Path) -> None:
    NetworkKey.new().write(tmp_path / "swarm.key")

    async def main() -> None:
        async with both(tmp_path / "swarm.key") as (ours, theirs, they):
            assert await theirs.ask("dial", ours.address) == ours.id
        async with both(tmp_path / "swarm.key") as (ours, theirs, they):
            await ours.join(they["address"])
            assert await theirs.ask("peers") == [ours.id]

    run(main)


def test_kademlia_is_understood_both_ways() -> None:
    async def main() -> None:
        async with both() as (ours, theirs, they):
            await ours.join(they["address"])
            await theirs.ask("identify", ours.id)
            assert await theirs.ask("closest", "surf") == [ours.id]
            assert [f"{a}/p2p/{ours.id}" for a in await theirs.ask("find", ours.id)] == [
                ours.address
            ]

            assert await theirs.ask("put", "/test/js", "from js") == [ours.id]
            now = ours.host.clock.now()
            assert ours.core.values.get(b"/test/js", now) == b"from js"
            assert ours.core.values.put(b"/test/ours", b"only here", now, now + MINUTE)
            assert await theirs.ask("get", "/test/ours") == [[ours.id, "only here"]]

            await ours.host.call(lambda now: ours.core.put(b"/test/py", b"from py", now))
            assert (await ours.hear(Put)).copies == 2
            assert [they["id"], "from py"] in await theirs.ask("get", "/test/py")
            ours.core.values.expire(now + Settings().expire_us + MINUTE)
            await ours.host.call(lambda now: ours.core.get(b"/test/py", now))
            assert (await ours.hear(Got)).value == b"from py"

    run(main)
