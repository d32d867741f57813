"""What Pulsarcast declares to a live node and to the simulator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from smartpubsub.kademlia.settings import SECOND
from smartpubsub.protocols.codecs import Codec, WireLimits
from smartpubsub.protocols.publication import EventId
from smartpubsub.protocols.pulsarcast import messages
from smartpubsub.protocols.pulsarcast.events import read_event
from smartpubsub.protocols.pulsarcast.fields import RefusalError
from smartpubsub.protocols.pulsarcast.messages import PARCEL_LIMITS, PART_KINDS, Parcel, Spread
from smartpubsub.protocols.pulsarcast.protocol import Pulsarcast
from smartpubsub.protocols.pulsarcast.settings import PulsarSettings, Retention
from smartpubsub.protocols.pulsarcast.topics import TOPIC_BYTES_MAX
from smartpubsub.protocols.spec import (
    RESILIENCES,
    EventLoad,
    ProtocolOptions,
    ProtocolSpec,
    a_fifth_if_audited,
)

PULSARCAST = "/smartpubsub/pulsarcast/2.0.0"
"""Not `/pulsarcast/1.0.0`, the id of the first implementation, whose messages differ."""
STORAGE_SHARE = 8
"""Topics may take a node's storage divided by this."""
DESCRIPTORS_SHARE = 4
"""Descriptors may take that divided by this, and always the size of a topic and its meta topic."""
LINKED_EVENT_BYTES = 600
"""The length of an event that links to others, for estimates."""


# --- settings ---


def pulsar_settings(options: ProtocolOptions) -> PulsarSettings:
    """The settings of a core; a topic has one keeper more than nodes may fail."""
    settings = PulsarSettings(
        keepers=options.backups + 1,
        retention=_retention(options.limits),
        has_audits=options.resilience != RESILIENCES[0],
    )
    if "stored_bytes_max" in options.limits:
        share = options.limits["stored_bytes_max"] // STORAGE_SHARE
        descriptors = max(share // DESCRIPTORS_SHARE, 2 * TOPIC_BYTES_MAX)
        events = share - share // DESCRIPTORS_SHARE
        settings = replace(settings, stored_bytes_max=events, descriptor_bytes_max=descriptors)
    return replace(settings, **options.overrides)


def _retention(limits: Mapping[str, int]) -> Retention:
    usual = Retention()
    return Retention(
        age_us_max=limits.get("topic_age_s_max", 0) * SECOND or None,
        event_count_max=limits.get("topic_event_count_max", usual.event_count_max),
        byte_count_max=limits.get("topic_bytes_max", usual.byte_count_max),
    )


# --- messages ---


def pulsarcast_codec(_: WireLimits | None = None) -> Codec:
    """The codec of parcels; their predicates are names of topics, which have no attributes."""
    return Codec(
        message=Parcel,
        protocol=PULSARCAST,
        encode=messages.encode,
        decode=messages.decode,
        message_bytes_max=PARCEL_LIMITS.message_bytes_max,
        contacts=messages.contacts_in,
        decode_pieces=messages.decode_pieces,
        kinds=lambda parcel: Counter([PART_KINDS[type(part)] for part in parcel.parts]),
        event_kinds=frozenset({PART_KINDS[Spread]}),
        event_ids=_event_ids,
        wire_bytes=messages.wire_bytes,
    )


def _event_ids(parcel: Parcel) -> list[EventId]:
    ids = []
    for part in parcel.parts:
        if type(part) is Spread:
            try:
                ids.append(read_event(part.block).id)
            except RefusalError:
                continue  # The block is no event.
    return ids


# --- experiments ---


def _hottest_link_bytes(load: EventLoad) -> float:
    """The bytes that a node sends to its parent and to as many children as it accepts."""
    settings = PulsarSettings()
    return (1 + settings.fan_out_max + settings.keepers / load.publishers) * LINKED_EVENT_BYTES


PULSARCAST_SPEC = ProtocolSpec(
    name="pulsarcast",
    settings=pulsar_settings,
    make=Pulsarcast,
    codecs=lambda limits: [pulsarcast_codec(limits)],
    is_reliable=lambda _: True,
    liar_count_max=a_fifth_if_audited,
    evidence="fork",
    clock_skew_us_max=PulsarSettings.skew_us_max,
    has_only_topics=True,
    topics=lambda core: core,
    resident=Pulsarcast,
    hottest_link_bytes=_hottest_link_bytes,
)
