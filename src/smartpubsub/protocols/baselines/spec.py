"""What the baselines Floodsub and GossipSub declare to a live node and to the simulator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from smartpubsub.protocols.baselines import messages
from smartpubsub.protocols.baselines.floodsub import Floodsub, FloodsubSettings
from smartpubsub.protocols.baselines.gossip_settings import GossipSettings
from smartpubsub.protocols.baselines.gossipsub import GossipSub
from smartpubsub.protocols.baselines.messages import Rpc, RpcLimits
from smartpubsub.protocols.codecs import Codec, WireLimits
from smartpubsub.protocols.publication import EventId
from smartpubsub.protocols.spec import EventLoad, ProtocolSpec

FLOODSUB = "/floodsub/1.0.0"
GOSSIPSUB = "/meshsub/1.1.0"
EVENT_ID_BYTES = 48
"""The length of an event's id in gossip, for estimates."""


def rpc_codec(protocol: str, limits: WireLimits | None = None) -> Codec:
    """The codec of libp2p's pubsub, for Floodsub or for GossipSub."""
    limits = limits or WireLimits()
    taken = RpcLimits(attributes_max=limits.attribute_count_max)
    return Codec(
        message=Rpc,
        protocol=protocol,
        encode=messages.encode,
        decode=lambda data: messages.decode(data, taken),
        message_bytes_max=taken.message_bytes_max,
        kinds=_kinds_in,
        event_kinds=frozenset({"pubsub/publish"}),
        event_ids=_event_ids,
        wire_bytes=messages.wire_bytes,
    )


def _kinds_in(message: Rpc) -> Mapping[str, int]:
    control = message.control
    kinds = {"pubsub/rpc": 1, "pubsub/publish": len(message.publish)}
    if control is not None:
        kinds |= {"pubsub/ihave": len(control.ihave), "pubsub/iwant": len(control.iwant)}
        kinds |= {"pubsub/graft": control.graft, "pubsub/prune": control.prune_s is not None}
    return {kind: count for kind, count in kinds.items() if count}


def _event_ids(message: Rpc) -> list[EventId]:
    return [copy.event.id for copy in message.publish]


def _gossip_bytes(load: EventLoad) -> float:
    """The bytes that a node sends in a full mesh, in gossip, and to all peers for own events."""
    settings, degree = GossipSettings(), load.peer_count_max
    ids = max(settings.d_lazy, settings.gossip_factor * degree) * settings.history_gossip
    own = degree / load.publishers if settings.flood_publish else 0
    return (settings.d_high + own) * load.event_bytes + ids * EVENT_ID_BYTES


FLOODSUB_SPEC = ProtocolSpec(
    name="floodsub",
    settings=lambda options: replace(FloodsubSettings(), **options.overrides),
    make=lambda settings, kademlia, signing, _rng: Floodsub(settings, kademlia, signing),
    codecs=lambda limits: [rpc_codec(FLOODSUB, limits)],
    event_cost=30.0,
)

GOSSIPSUB_SPEC = ProtocolSpec(
    name="gossipsub",
    settings=lambda options: replace(GossipSettings(), **options.overrides),
    make=GossipSub,
    codecs=lambda limits: [rpc_codec(GOSSIPSUB, limits)],
    hottest_link_bytes=_gossip_bytes,
    event_cost=8.0,
)
