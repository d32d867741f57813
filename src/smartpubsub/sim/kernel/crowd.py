"""Many nodes in one world, and how they come to know each other."""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Protocol

from smartpubsub.errors import SmartPubSubError
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
    """Progress that nobody wants to see."""


def peer_id(seed: int, number: int) -> bytes:
    """The peer id of a simulated node, of the form and length of a real one."""
    return _PEER_ID_HEAD + hashlib.sha256(b"peer/%d/%d" % (seed, number)).digest()


def address(number: int) -> bytes:
    """The multiaddress of a simulated node: /ip4/10.x.x.x/tcp/4001."""
    return b"\x04" + (0x0A000000 + number).to_bytes(4, "big") + b"\x06\x0f\xa1"


def contact_of(seed: int, number: int) -> Contact:
    """How others know a node."""
    return Contact.of(peer_id(seed, number), (address(number),))


class Joining(Core, Protocol):
    """A core that can join an overlay."""

    def join(self, bootstrap: Sequence[Contact], now: int) -> list[Effect]:
        """Find a place by way of peers that are said to exist."""
        ...


class Crowd:
    """The nodes of a world, under numbers."""

    def __init__(self, world: World, seed: int, peers: Sequence[Peer] = ()) -> None:
        self.world = world
        self.seed = seed
        self._peers = peers
        """Who the first nodes are; further ones are those that the seed makes up."""
        self.joined: dict[int, None] = {}
        """Who has told that it has joined."""

    def add(self, make_core: Callable[[Contact, int], Joining], incarnation: int = 0) -> Host:
        """One more node, whose core is made of its contact and its incarnation."""
        contact = self.contact(len(self.world.hosts))
        return self.world.add(
            contact.peer, lambda inc: make_core(contact, inc), contact.addresses, incarnation
        )

    def contact(self, number: int) -> Contact:
        """How others know a node."""
        if number < len(self._peers):
            return Contact.of(self._peers[number], (address(number),))
        return contact_of(self.seed, number)

    def closest_live(self, name: bytes) -> Host:
        """Who really lies closest to a name, of those that are up."""
        key = key_of(name)
        live = (host for host in self.world.hosts if host.is_up)
        return min(live, key=lambda host: key_of(host.peer) ^ key)

    def join_all(self, progress: Progress = quietly) -> None:
        """Have all nodes join, each by way of one that has, several at a time."""
        rng = stream(self.seed, "bootstrap")
        count = len(self.world.hosts)
        self.join(0, [])
        wave_end = 1
        while wave_end < count:
            # Each wave doubles the network: nobody joins through somebody who is not in it.
            wave = range(wave_end, min(count, 2 * wave_end))
            for number in wave:
                self.join(number, [self.contact(rng.randrange(wave_end))])
            wave_end = wave[-1] + 1
            self._run_until_joined(wave_end)
            progress(f"{len(self.joined):,} of {count:,} nodes have joined")

    def join(self, number: int, bootstrap: list[Contact]) -> None:
        """Have a node join by way of others."""
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
    """Whom each node would know in an overlay that has settled: some k of each bucket's range."""
    ordered = sorted(contacts, key=lambda contact: contact.key)
    keys = [contact.key for contact in ordered]
    for own in contacts:
        known: list[Contact] = []
        for bit in range(KEY_BITS):
            # The bucket's keys share what is above the bit with the node's, and not the bit.
            first = ((own.key >> bit) ^ 1) << bit
            start, end = bisect_left(keys, first), bisect_left(keys, first + (1 << bit))
            known += ordered[start:end] if end - start <= k else rng.sample(ordered[start:end], k)
        yield known
