"""The peers of a protocol that speaks libp2p's pubsub: whom a node sends events to.

They are those in its routing table, and those in whose table it is, which say so: they greet. A
greeting says what libp2p's peers say when they connect, that all events are wanted. It is repeated
now and then, because it may get lost and because whoever was greeted may have forgotten.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from smartpubsub.kademlia.core import Kademlia
from smartpubsub.kademlia.settings import MINUTE
from smartpubsub.protocols.baselines.rpc import Rpc
from smartpubsub.seam import Effect, Peer, Send

_GREETING = Rpc(subscribe=True)
_NEVER = -(1 << 62)


@dataclass(frozen=True, kw_only=True)
class PeerSettings:
    """Times are in microseconds."""

    greet_us: int = MINUTE
    """How often the routing table is looked through for peers to be greeted."""
    renew_us: int = 5 * MINUTE
    """How long a greeting, theirs or ours, makes another unnecessary."""
    keep_us: int = 15 * MINUTE
    """How long a peer that is not in the table is kept after it has greeted."""
    peer_count_max: int = 1_000


@dataclass(slots=True)
class _Peer:
    greeted_at: int = _NEVER
    """When this node greeted it."""
    heard_at: int = _NEVER
    """When it greeted this node."""


class Peers:
    """Those to whom a node sends events, in the order in which they became known."""

    def __init__(self, settings: PeerSettings, kademlia: Kademlia) -> None:
        self._settings = settings
        self._kademlia = kademlia
        self._peers: dict[Peer, _Peer] = {}

    def __len__(self) -> int:
        return len(self._peers)

    def __contains__(self, peer: Peer) -> bool:
        return peer in self._peers

    def __iter__(self) -> Iterator[Peer]:
        return iter(self._peers)

    def is_outbound(self, peer: Peer) -> bool:
        """Whether it was this node that chose the peer, and not the other way round."""
        known = self._peers.get(peer)
        return known is not None and known.greeted_at != _NEVER

    def heard_from(self, peer: Peer, now: int) -> bool:
        """A peer wants to be sent events; False if there is no room for it."""
        known = self._known(peer)
        if known is not None:
            known.heard_at = now
        return known is not None

    def forget(self, peer: Peer) -> None:
        """A peer does not want to be sent events any more, or is gone."""
        self._peers.pop(peer, None)

    def greet(self, now: int) -> list[Effect]:
        """Greet whoever in the table has to be, and forget whoever went out of sight."""
        in_table = {contact.peer: None for contact in self._kademlia.table.contacts()}
        self._forget_unseen(in_table, now - self._settings.keep_us)
        due = now - self._settings.renew_us
        effects: list[Effect] = []
        for peer in in_table:
            known = self._known(peer)
            if known is not None and max(known.greeted_at, known.heard_at) <= due:
                known.greeted_at = now
                effects.append(Send(peer, _GREETING))
        return effects

    def _forget_unseen(self, in_table: Mapping[Peer, None], since: int) -> None:
        self._peers = {
            peer: known
            for peer, known in self._peers.items()
            if peer in in_table or known.heard_at > since
        }

    def _known(self, peer: Peer) -> _Peer | None:
        """What is known of a peer that may be new; None if there is no room for a new one."""
        known = self._peers.get(peer)
        if known is None and len(self._peers) < self._settings.peer_count_max:
            known = self._peers[peer] = _Peer()
        return known
