"""What FastDelivery declares to a live node and to the simulator."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from smartpubsub.kademlia.keys import Contact
from smartpubsub.protocols.baselines.messages import RpcLimits
from smartpubsub.protocols.codecs import Codec, WireLimits
from smartpubsub.protocols.fastdelivery import messages
from smartpubsub.protocols.fastdelivery.messages import (
    PART_KINDS,
    Answer,
    Packet,
    Question,
    wire_bytes,
)
from smartpubsub.protocols.fastdelivery.protocol import FastDelivery
from smartpubsub.protocols.fastdelivery.settings import FastSettings
from smartpubsub.protocols.fastdelivery.shapes import shape_of
from smartpubsub.protocols.publication import EventId
from smartpubsub.protocols.runtime.messages import MessageLimits
from smartpubsub.protocols.spec import (
    RESILIENCES,
    EventLoad,
    ProtocolOptions,
    ProtocolSpec,
    a_fifth_if_audited,
)

STORAGE_SHARE = 32
"""Members of groups may have the storage divided by this."""
FASTDELIVERY = "/smartpubsub/fastdelivery/4.0.0"


def fast_settings(options: ProtocolOptions) -> FastSettings:
    """The settings of a core."""
    settings = FastSettings(
        region=options.region,
        capacity=options.capacity,
        backups=options.backups,
        has_reviews=options.resilience != RESILIENCES[0],
        renew_us=options.renew_us,
        group_count_max=options.limits.get("group_count_max", FastSettings.group_count_max),
    )
    if "stored_bytes_max" in options.limits:
        share = options.limits["stored_bytes_max"] // STORAGE_SHARE
        settings = replace(settings, member_bytes_max=share)
    return replace(settings, **options.overrides)


def fastdelivery_codec(limits: WireLimits | None = None) -> Codec:
    """The codec of packets."""
    limits = limits or WireLimits()
    taken = MessageLimits(events=RpcLimits(attributes_max=limits.attribute_count_max))
    return Codec(
        message=Packet,
        protocol=FASTDELIVERY,
        encode=messages.encode,
        decode=lambda data: messages.decode(data, taken),
        message_bytes_max=taken.message_bytes_max,
        contacts=lambda packet: _contacts_in(packet.part),
        kinds=lambda packet: {PART_KINDS[type(packet.part)]: 1},
        event_kinds=frozenset({PART_KINDS[messages.GroupNotify], PART_KINDS[messages.Relay]}),
        event_ids=_event_ids,
        wire_bytes=wire_bytes,
    )


def _event_ids(packet: Packet) -> list[EventId]:
    match packet.part:
        case (
            messages.GroupNotify(event=event, is_resend=False)
            | messages.Relay(event=event, is_resend=False)
        ):
            return [event.id]
    return []


def _contacts_in(part: Question | Answer) -> Iterator[Contact]:
    match part:
        case messages.Invite(notice) | messages.Advertise(notice=notice):
            yield notice.contact
        case messages.Listed(notices, _, closer):
            yield from (notice.contact for notice in notices)
            yield from closer
        case messages.Join(request=request) | messages.Search(watch=messages.Request() as request):
            yield request.contact
        case messages.Watchers(watched, _, closer):
            yield from (entry.request.contact for entry in watched)
            yield from closer
        case messages.CopyDirectory(_, posted, watched):
            yield from (entry.notice.contact for entry in posted)
            yield from (entry.request.contact for entry in watched)
        case messages.Delegate(charges=charges):
            yield from (charge.contact for charge in charges)
        case messages.Measure(landmarks):
            yield from landmarks


def _hottest_link_bytes(load: EventLoad) -> float:
    """The bytes that a publisher sends if it serves every node itself and relays as a helper."""
    return (load.nodes / load.publishers + load.capacity_max) * load.event_bytes


FASTDELIVERY_SPEC = ProtocolSpec(
    name="fastdelivery",
    settings=fast_settings,
    make=FastDelivery,
    codecs=lambda limits: [fastdelivery_codec(limits)],
    is_reliable=lambda _: True,
    liar_count_max=a_fifth_if_audited,
    promises_order=True,
    shares_signatures=True,
    stays_in_region=True,
    groups=lambda core: core,
    resident=FastDelivery,
    # Every node that may want an event of a shape finds the group of that shape.
    group_for=shape_of,
    hottest_link_bytes=_hottest_link_bytes,
)
