"""The peers of a node that speaks libp2p's pubsub: the nodes that it sends events to.

These are the nodes in its routing table, and the nodes that have it in theirs and greet it. A
greeting is the subscription that libp2p's peers send when they connect. A node repeats greetings,
because they may be lost and because peers may forget them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from smartpubsub.kademlia.core import Kademlia
from smartpubsub.kademlia.settings import MINUTE
from smartpubsub.protocols.baselines.messages import Rpc
from smartpubsub.seam import Effect, Peer, Send

_GREETING = Rpc(subscribe=True)
_NEVER = -(1 << 62)


@dataclass(frozen=True, kw_only=True)
class PeerSettings:
    """Constants for peers; times in microseconds."""

    greet_us: int = MINUTE
    """How often the node greets new peers in its routing table."""
    renew_us: int = 5 * MINUTE
    """How long a greeting, in either direction, makes another unnecessary."""
    keep_us: int = 15 * MINUTE
    """How long a peer outside the routing table is kept after its greeting."""
    peer_count_max: int = 1_000


@dataclass(slots=True)
class _KnownPeer:
    greeted_at: int = _NEVER
    """When this node last greeted it."""
    heard_at: int = _NEVER
    """When it last greeted this node."""


class Peers:
    """The peers that a node sends events to, in the order in which they became known."""

    def __init__(self, settings: PeerSettings, kademlia: Kademlia) -> None:
        self._settings = settings
        self._kademlia = kademlia
        self._peers: dict[Peer, _KnownPeer] = {}

    def __len__(self) -> int:
        return len(self._peers)

    def __contains__(self, peer: Peer) -> bool:
        return peer in self._peers

    def __iter__(self) -> Iterator[Peer]:
        return iter(self._peers)

    def is_outbound(self, peer: Peer) -> bool:
        """Whether this node has greeted the peer, and not only the peer this node."""
        known = self._peers.get(peer)
        return known is not None and known.greeted_at != _NEVER

    def heard_from(self, peer: Peer, now: int) -> bool:
        """Note a peer's greeting; False if there is no room for the peer."""
        known = self._known(peer)
        if known is not None:
            known.heard_at = now
        return known is not None

    def forget(self, peer: Peer) -> None:
        """Remove a peer that is gone or has unsubscribed."""
        self._peers.pop(peer, None)

    def greet(self, now: int) -> list[Effect]:
        """Greet peers in the routing table that are due; forget lost peers outside it."""
        in_table = {contact.peer: None for contact in self._kademlia.table.contacts()}
        self._forget_unheard(in_table, now - self._settings.keep_us)
        due = now - self._settings.renew_us
        effects: list[Effect] = []
        for peer in in_table:
            known = self._known(peer)
            if known is not None and max(known.greeted_at, known.heard_at) <= due:
                known.greeted_at = now
                effects.append(Send(peer, _GREETING))
        return effects

    def _forget_unheard(self, in_table: Mapping[Peer, None], since: int) -> None:
        self._peers = {
            peer: known
            for peer, known in self._peers.items()
            if peer in in_table or known.heard_at > since
        }

    def _known(self, peer: Peer) -> _KnownPeer | None:
        """Return the record of a peer, a new one if need be; None if there is no room."""
        known = self._peers.get(peer)
        if known is None and len(self._peers) < self._settings.peer_count_max:
            known = self._peers[peer] = _KnownPeer()
        return known
