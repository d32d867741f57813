"""The protocols that can be run, and how a node with each of them is made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from smartpubsub.kademlia.core import Kademlia
from smartpubsub.protocols import rpc
from smartpubsub.protocols.floodsub import Floodsub, FloodsubSettings
from smartpubsub.protocols.gossip_settings import GossipSettings
from smartpubsub.protocols.gossipsub import GossipSub
from smartpubsub.protocols.publication import EventId, Signing
from smartpubsub.protocols.pubsub import PubSub
from smartpubsub.protocols.scoutsubs import settings as scout
from smartpubsub.protocols.scoutsubs.core import ScoutSubs
from smartpubsub.protocols.scoutsubs.parts import Bundle, Notify
from smartpubsub.protocols.scoutsubs.sizes import wire_bytes as scoutsubs_bytes
from smartpubsub.sim.world import Sizes

VARIANTS = ("base-unreliable", "base-reliable", "redirect-unreliable", "redirect-reliable")
"""Of ScoutSubs; the last is the default."""


@dataclass(frozen=True, kw_only=True)
class StackOptions:
    """What of a run concerns the protocol."""

    variant: str = VARIANTS[-1]
    backups: int = 2
    mapping: scout.Mapping = scout.Mapping.SHARED
    """Which of a predicate's attributes ScoutSubs keeps a subscription under."""
    overrides: Mapping[str, Any] = field(default_factory=dict)
    """Other settings of ScoutSubs, by their names, that differ from the usual ones."""

    @property
    def scout_settings(self) -> scout.ScoutSettings:
        """The settings of ScoutSubs that all of this amounts to."""
        settings = scout.settings_for(self.variant, self.backups)
        return replace(settings, mapping=self.mapping, **self.overrides)


@dataclass(frozen=True, kw_only=True)
class Stack:
    """A protocol, and what an onlooker has to know of it."""

    make: Callable[[Kademlia, Signing, Random, StackOptions], PubSub]
    sizes: Sizes
    """How long each of its messages is on the wire."""
    copies: Mapping[type, Callable[[Any], Iterable[EventId]]]
    """The events that a message brings down to whoever wants them, resends left out."""
    has_variants: bool = False

    def is_reliable(self, options: StackOptions) -> bool:
        """Whether it promises that nothing is lost."""
        return self.has_variants and options.variant.endswith("-reliable")

    @property
    def promises_order(self) -> bool:
        """Whether it promises a publisher's order to a subscription."""
        return self.has_variants


def _rpc_copies(message: rpc.Rpc) -> list[EventId]:
    return [copy.event.id for copy in message.publish]


def _bundle_copies(message: Bundle) -> list[EventId]:
    return [p.event.id for p in message.parts if type(p) is Notify and not p.is_resend]


STACKS: dict[str, Stack] = {
    "scoutsubs": Stack(
        make=lambda kademlia, signing, rng, options: ScoutSubs(
            options.scout_settings, kademlia, signing, rng
        ),
        sizes={Bundle: scoutsubs_bytes},
        copies={Bundle: _bundle_copies},
        has_variants=True,
    ),
    "floodsub": Stack(
        make=lambda kademlia, signing, _rng, _options: Floodsub(
            FloodsubSettings(), kademlia, signing
        ),
        sizes={rpc.Rpc: rpc.wire_bytes},
        copies={rpc.Rpc: _rpc_copies},
    ),
    "gossipsub": Stack(
        make=lambda kademlia, signing, rng, _options: GossipSub(
            GossipSettings(), kademlia, signing, rng
        ),
        sizes={rpc.Rpc: rpc.wire_bytes},
        copies={rpc.Rpc: _rpc_copies},
    ),
}
"""By the names that users know them by."""
