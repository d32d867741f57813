"""The protocols that can be run, and how a node with each of them is made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from smartpubsub.kademlia.core import Kademlia
from smartpubsub.protocols.baselines import rpc
from smartpubsub.protocols.baselines.floodsub import Floodsub, FloodsubSettings
from smartpubsub.protocols.baselines.gossip_settings import GossipSettings
from smartpubsub.protocols.baselines.gossipsub import GossipSub
from smartpubsub.protocols.fastdelivery import parts as fast
from smartpubsub.protocols.fastdelivery.core import FastDelivery
from smartpubsub.protocols.fastdelivery.settings import FastSettings
from smartpubsub.protocols.fastdelivery.shapes import shape_of
from smartpubsub.protocols.fastdelivery.sizes import wire_bytes as fastdelivery_bytes
from smartpubsub.protocols.publication import EventId, Signing
from smartpubsub.protocols.pubsub import PubSub
from smartpubsub.protocols.pulsarcast.core import Pulsarcast
from smartpubsub.protocols.pulsarcast.events import read_event
from smartpubsub.protocols.pulsarcast.parts import Parcel, Spread
from smartpubsub.protocols.pulsarcast.refusals import RefusalError
from smartpubsub.protocols.pulsarcast.settings import PulsarSettings
from smartpubsub.protocols.pulsarcast.wire import wire_bytes as pulsarcast_bytes
from smartpubsub.protocols.scoutsubs import settings as scout
from smartpubsub.protocols.scoutsubs.parts import Bundle, Notify
from smartpubsub.protocols.scoutsubs.protocol import ScoutSubs
from smartpubsub.protocols.scoutsubs.sizes import wire_bytes as scoutsubs_bytes
from smartpubsub.seam import Peer
from smartpubsub.sim.experiments.topics import with_topics
from smartpubsub.sim.kernel.places import capacity_of, region_of
from smartpubsub.sim.kernel.world import Sizes
from smartpubsub.workloads.actions import Workload
from smartpubsub.workloads.groups import with_groups

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
    regions: int = 0
    """Over how many regions nodes are spread, which nodes know."""
    fast: Mapping[str, Any] = field(default_factory=dict)
    """Settings of FastDelivery, by their names; others are as simulated nodes have them."""
    pulsar: Mapping[str, Any] = field(default_factory=dict)
    """Settings of Pulsarcast, by their names, that differ from the usual ones."""

    @property
    def pulsar_settings(self) -> PulsarSettings:
        """The settings of Pulsarcast: as many keep a topic as survive so many failures."""
        return replace(PulsarSettings(keepers=self.backups + 1), **self.pulsar)

    @property
    def scout_settings(self) -> scout.ScoutSettings:
        """The settings of ScoutSubs that all of this amounts to."""
        settings = scout.settings_for(self.variant, self.backups)
        return replace(settings, mapping=self.mapping, **self.overrides)

    def fast_settings(self, peer: Peer) -> FastSettings:
        """The settings of FastDelivery that a node has."""
        settings = FastSettings(
            region=f"region-{1 + region_of(peer, self.regions)}",
            capacity=capacity_of(peer),
            backups=self.backups,
        )
        return replace(settings, **self.fast)


def _as_it_is(workload: Workload) -> Workload:
    return workload


@dataclass(frozen=True, kw_only=True)
class Stack:
    """A protocol, and what an onlooker has to know of it."""

    make: Callable[[Kademlia, Signing, Random, StackOptions], PubSub]
    sizes: Sizes
    """How long each of its messages is on the wire."""
    copies: Mapping[type, Callable[[Any], Iterable[EventId]]]
    """The events that a message brings down to whoever wants them, resends left out."""
    has_variants: bool = False
    promises_order: bool = False
    """Whether it promises a publisher's order to a subscription."""
    is_always_reliable: bool = False
    has_topics: bool = False
    """Whether subscriptions and events name topics, which have to be made first."""
    stays_in_region: bool = False
    """Whether after its first hop an event is in the region of whoever it is for."""
    prepared: Callable[[Workload], Workload] = _as_it_is
    """What a workload is for it, with all that has to be there before."""

    def is_reliable(self, options: StackOptions) -> bool:
        """Whether it promises that nothing is lost."""
        is_reliable_variant = self.has_variants and options.variant.endswith("-reliable")
        return self.is_always_reliable or is_reliable_variant


def _rpc_copies(message: rpc.Rpc) -> list[EventId]:
    return [copy.event.id for copy in message.publish]


def _bundle_copies(message: Bundle) -> list[EventId]:
    return [p.event.id for p in message.parts if type(p) is Notify and not p.is_resend]


def _packet_copies(message: fast.Packet) -> list[EventId]:
    part = message.part
    is_copy = isinstance(part, fast.Notify | fast.Relay) and not part.is_resend
    return [part.event.id] if is_copy else []  # type: ignore[union-attr]


def _parcel_copies(message: Parcel) -> list[EventId]:
    copies = []
    for part in message.parts:
        if type(part) is Spread:
            try:
                copies.append(read_event(part.block).id)
            except RefusalError:
                continue  # It is no event.
    return copies


STACKS: dict[str, Stack] = {
    "scoutsubs": Stack(
        make=lambda kademlia, signing, rng, options: ScoutSubs(
            options.scout_settings, kademlia, signing, rng
        ),
        sizes={Bundle: scoutsubs_bytes},
        copies={Bundle: _bundle_copies},
        has_variants=True,
        promises_order=True,
    ),
    "fastdelivery": Stack(
        make=lambda kademlia, signing, rng, options: FastDelivery(
            options.fast_settings(kademlia.own.peer), kademlia, signing, rng
        ),
        sizes={fast.Packet: fastdelivery_bytes},
        copies={fast.Packet: _packet_copies},
        promises_order=True,
        is_always_reliable=True,
        stays_in_region=True,
        # Events of a shape are found by all who may want them, whatever else is published.
        prepared=lambda workload: with_groups(workload, shape_of),
    ),
    "pulsarcast": Stack(
        make=lambda kademlia, signing, rng, options: Pulsarcast(
            options.pulsar_settings, kademlia, signing, rng
        ),
        sizes={Parcel: pulsarcast_bytes},
        copies={Parcel: _parcel_copies},
        is_always_reliable=True,
        has_topics=True,
        prepared=with_topics,
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
