"""The nodes of a world, and how they join."""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from random import Random
from typing import Protocol

from smartpubsub.errors import SmartPubSubError
from smartpubsub.kademlia.id_work import has_work
from smartpubsub.kademlia.keys import KEY_BITS, Contact, key_of
from smartpubsub.kademlia.settings import MINUTE
from smartpubsub.seam import Core, Effect, Peer
from smartpubsub.sim.kernel.streams import stream
from smartpubsub.sim.kernel.world import Host, World

# An Ed25519 key as libp2p writes it into a peer id: a multihash that is the key itself.
_PEER_ID_HEAD = bytes.fromhex("002408011220")

JOIN_US_MAX = 10 * MINUTE

Progress = Callable[[str], None]


def quietly(_: str) -> None:
    """Show no progress."""


def peer_id(seed: int, number: int) -> bytes:
    """The peer id of a simulated node, of the form and length of a real one."""
    return _PEER_ID_HEAD + hashlib.sha256(b"peer/%d/%d" % (seed, number)).digest()


def worked_number(peer_of: Callable[[int, int], Peer], seed: int, number: int, bits: int) -> int:
    """The number from which a node makes a peer id with a proof of work of so many bits."""
    tries = (number + (attempt << 32) for attempt in count())
    return next(tried for tried in tries if has_work(peer_of(seed, tried), bits))


def address(number: int) -> bytes:
    """The multiaddress of a simulated node: /ip4/10.x.x.x/tcp/4001."""
    return b"\x04" + (0x0A000000 + number).to_bytes(4, "big") + b"\x06\x0f\xa1"


def contact_of(seed: int, number: int) -> Contact:
    """The contact of a simulated node."""
    return Contact.of(peer_id(seed, number), (address(number),))


class Joining(Core, Protocol):
    """A core that can join an overlay."""

    def join(self, bootstrap: Sequence[Contact], now: int) -> list[Effect]:
        """Join through bootstrap peers."""
        ...


class Population:
    """The nodes of a world, by number."""

    def __init__(self, world: World, seed: int, peers: Sequence[Peer] = ()) -> None:
        self.world = world
        self.seed = seed
        self._peers = peers
        """The peer ids of the first nodes; those of further nodes are made from the seed."""
        self.joined: dict[int, None] = {}
        """The nodes that have joined."""

    def add(self, make_core: Callable[[Contact, int], Joining], incarnation: int = 0) -> Host:
        """Add a node; its core is made from its contact and its incarnation."""
        contact = self.contact(len(self.world.hosts))
        return self.world.add(
            contact.peer, lambda inc: make_core(contact, inc), contact.addresses, incarnation
        )

    def contact(self, number: int) -> Contact:
        """The contact of a node."""
        if number < len(self._peers):
            return Contact.of(self._peers[number], (address(number),))
        return contact_of(self.seed, number)

    def closest_live(self, name: bytes) -> Host:
        """The live node that is closest to a name."""
        key = key_of(name)
        live = (host for host in self.world.hosts if host.is_up)
        return min(live, key=lambda host: key_of(host.peer) ^ key)

    def join_all(self, progress: Progress = quietly, nodes: int | None = None) -> None:
        """Have all nodes join, several at a time, each through a node that has joined.

        With `nodes`, only so many of the first nodes join.
        """
        rng = stream(self.seed, "bootstrap")
        nodes = len(self.world.hosts) if nodes is None else nodes
        self.join(0, [])
        wave_end = 1
        while wave_end < nodes:
            # Each wave doubles the network: a node joins only through a node of an earlier wave.
            wave = range(wave_end, min(nodes, 2 * wave_end))
            for number in wave:
                self.join(number, [self.contact(rng.randrange(wave_end))])
            wave_end = wave[-1] + 1
            self._run_until_joined(wave_end)
            progress(f"{len(self.joined):,} of {nodes:,} nodes have joined")

    def join(self, number: int, bootstrap: list[Contact]) -> None:
        """Have a node join through others."""
        host = self.world.hosts[number]
        core: Joining = host.core  # type: ignore[assignment]
        self.world.carry_out(host, core.join(bootstrap, host.clock(self.world.now)))

    def _run_until_joined(self, count: int) -> None:
        deadline = self.world.now + JOIN_US_MAX
        if not self.world.run_while(lambda: len(self.joined) < count, deadline):
            raise SmartPubSubError(
                f"only {len(self.joined)} of {count} nodes have joined after"
                f" {JOIN_US_MAX // MINUTE} minutes; is the network too bad?"
            )


def settled_tables(contacts: Sequence[Contact], k: int, rng: Random) -> Iterator[list[Contact]]:
    """The contacts of each node in a settled overlay: some k of each bucket's range."""
    ordered = sorted(contacts, key=lambda contact: contact.key)
    keys = [contact.key for contact in ordered]
    for own in contacts:
        known: list[Contact] = []
        for bit in range(KEY_BITS):
            # The keys of the bucket share the bits above this bit with the node's key.
            first = ((own.key >> bit) ^ 1) << bit
            start, end = bisect_left(keys, first), bisect_left(keys, first + (1 << bit))
            known += ordered[start:end] if end - start <= k else rng.sample(ordered[start:end], k)
        yield known
