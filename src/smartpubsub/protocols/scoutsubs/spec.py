"""What ScoutSubs declares to a live node and to the simulator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from math import log

from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.settings import SECOND
from smartpubsub.protocols.baselines.messages import RpcLimits
from smartpubsub.protocols.codecs import Codec, WireLimits
from smartpubsub.protocols.publication import EventId
from smartpubsub.protocols.runtime.messages import MessageLimits
from smartpubsub.protocols.scoutsubs import messages
from smartpubsub.protocols.scoutsubs.messages import (
    PART_KINDS,
    Bundle,
    ChildCopy,
    wire_bytes,
)
from smartpubsub.protocols.scoutsubs.protocol import ScoutSubs
from smartpubsub.protocols.scoutsubs.ranges import is_range
from smartpubsub.protocols.scoutsubs.settings import AUDITED, BYZANTINE, ScoutSettings, settings_for
from smartpubsub.protocols.spec import (
    EventLoad,
    ProtocolOptions,
    ProtocolSpec,
    a_fifth_if_audited,
)

SCOUTSUBS = "/smartpubsub/scoutsubs/5.0.0"
VARIANTS = ("base-unreliable", "base-reliable", "redirect-unreliable", "redirect-reliable")

STORAGE_SHARE = 2
"""Events and filters may take a node's storage divided by this."""
HISTORY_SHARE = 8
"""History may take a node's storage divided by this."""

_EVENT_PARTS = frozenset(
    {
        messages.Raise,
        messages.Admitted,
        messages.Completed,
        messages.Notify,
        messages.Confirm,
        messages.NoCopy,
        messages.Record,
        messages.Recorded,
        messages.Done,
    }
)

_OF_EVENTS = _EVENT_PARTS | {
    *(messages.Offer, messages.Want, messages.Piece, messages.KeepForAudits, messages.KeptAt),
}
"""The messages that nodes send for each event, and fragments, which come in bursts."""


# --- settings ---


def scout_settings(options: ProtocolOptions) -> ScoutSettings:
    """The settings of a core."""
    settings = settings_for(options.variant or VARIANTS[-1], options.backups)
    resilience = {"audited": AUDITED, "byzantine": BYZANTINE}.get(options.resilience, {})
    limited = {**resilience, **_from_limits(options.limits), **options.overrides}
    return replace(settings, **{"renew_us": options.renew_us, **limited})


def _from_limits(limits: Mapping[str, int]) -> dict[str, int]:
    same = ("filter_count_max", "attribute_count_per_peer_max")
    found = {name: limits[name] for name in same if name in limits}
    if "stored_bytes_max" in limits:
        found["stored_bytes_max"] = limits["stored_bytes_max"] // STORAGE_SHARE
    if "history_s_max" in limits:
        found["history_us_max"] = limits["history_s_max"] * SECOND
    if "history_event_count_max" in limits:
        found["history_count_max"] = limits["history_event_count_max"]
    if "history_bytes_max" in limits:
        share = limits.get("stored_bytes_max", 1 << 62) // HISTORY_SHARE
        found["history_bytes_max"] = min(limits["history_bytes_max"], share)
    return found


# --- messages ---


def scoutsubs_codec(limits: WireLimits | None = None) -> Codec:
    """The codec of bundles."""
    limits = limits or WireLimits()
    taken = MessageLimits(events=RpcLimits(attributes_max=limits.attribute_count_max))
    return Codec(
        message=Bundle,
        protocol=SCOUTSUBS,
        encode=messages.encode,
        decode=lambda data: messages.decode(data, taken),
        message_bytes_max=taken.message_bytes_max,
        contacts=_contacts_in,
        decode_pieces=lambda data: messages.decode_pieces(data, taken),
        kinds=_kinds_in,
        rare_kinds=frozenset(k for part, k in PART_KINDS.items() if part not in _OF_EVENTS),
        spread_kinds=frozenset({PART_KINDS[messages.Raise]}),
        event_kinds=frozenset({PART_KINDS[messages.Notify]}),
        event_ids=_event_ids,
        at_once=_at_once,
        wire_bytes=wire_bytes,
    )


# A node sends these before its changes are on disk, because they acknowledge nothing: a publisher
# waits for `Admitted`, and a rendezvous for `Recorded` and for its own storage. An event is on disk
# before it is done.
_AT_ONCE = frozenset(
    {messages.Raise, messages.Notify, messages.Offer, messages.Record, messages.Done}
)


def _at_once(bundle: Bundle) -> tuple[Bundle | None, Bundle | None]:
    early = tuple([part for part in bundle.parts if type(part) in _AT_ONCE])
    late = tuple([part for part in bundle.parts if type(part) not in _AT_ONCE])
    return Bundle(early) if early else None, Bundle(late) if late else None


def _kinds_in(bundle: Bundle) -> Counter[str]:
    """What a bundle contains; an acknowledgement counts for each of its events."""
    kinds: Counter[str] = Counter()
    for kind, count in Counter(map(type, bundle.parts)).items():
        kinds[PART_KINDS[kind]] = count
    for part in bundle.parts:
        if is_range(part):
            kinds[PART_KINDS[type(part)]] += part.more  # type: ignore[union-attr]
    return kinds


def _event_ids(bundle: Bundle) -> list[EventId]:
    return [p.event.id for p in bundle.parts if type(p) is messages.Notify and not p.is_resend]


def _contacts_in(bundle: Bundle) -> Iterator[Contact]:
    for entry in bundle.parts:
        if type(entry) in _EVENT_PARTS:
            continue
        part = entry.part if isinstance(entry, messages.Piece) else entry
        match part:
            case messages.Announce(shortcut=shortcut, backups=backups):
                yield from _named(shortcut, backups)
            case messages.Announced(go_to=Contact() as elsewhere):
                yield elsewhere
            case messages.CopyTree(children=children) | messages.Pulled(children=children):
                yield from _contacts_of(children)
            case messages.PulledOwn(trees):
                for _, children in trees:
                    yield from _contacts_of(children)


def _contacts_of(children: Iterable[ChildCopy]) -> Iterator[Contact]:
    for child in children:
        yield child.contact
        yield from _named(child.shortcut, child.backups)


def _named(shortcut: Contact | None, backups: tuple[Contact, ...]) -> Iterator[Contact]:
    if shortcut is not None:
        yield shortcut
    yield from backups


def is_event_traffic(message: object) -> bool:
    """Whether a message is about events, and not only about filters, replicas and probes."""
    return isinstance(message, Bundle) and any(type(p) in _EVENT_PARTS for p in message.parts)


def retransmission_count(message: object) -> int:
    """How many events a message sends to a child again."""
    entries = message.parts if isinstance(message, Bundle) else ()
    return sum(isinstance(part, messages.Notify) and part.is_resend for part in entries)


# --- experiments ---


def _hottest_link_bytes(load: EventLoad) -> float:
    """The bytes that a rendezvous sends that has as many children as it accepts."""
    settings = ScoutSettings()
    # A node closer to the key than all children is accepted too, which gets rare.
    children = (settings.fan_out_max or load.nodes) + log(load.nodes)
    return (min(load.peer_count_max, children) + settings.backups) * load.event_bytes


def _keeper_count(options: ProtocolOptions) -> int:
    settings = scout_settings(options)
    return 0 if settings.region_size else 2 * settings.backups + 1


SCOUTSUBS_SPEC = ProtocolSpec(
    name="scoutsubs",
    settings=scout_settings,
    make=ScoutSubs,
    codecs=lambda limits: [scoutsubs_codec(limits)],
    variants=VARIANTS,
    is_reliable=lambda options: scout_settings(options).is_reliable,
    liar_count_max=a_fifth_if_audited,
    keeper_count=_keeper_count,
    evidence="omission",
    promises_order=True,
    shares_signatures=True,
    replay=lambda core: core,
    has_attribute_trees=True,
    hottest_link_bytes=_hottest_link_bytes,
    fuzzed_settings=frozenset(
        {"fan_out_max", "piece_bytes_max", "history_us_max", "hot_copies_per_s"}
    ),
)
