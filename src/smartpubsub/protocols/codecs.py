"""Which messages go under which protocol id, and how they are written and read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from smartpubsub.kademlia import wire as kademlia_wire
from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.messages import Kind, Message
from smartpubsub.kademlia.settings import Settings
from smartpubsub.predicates import ATTRIBUTES_MAX
from smartpubsub.protocols import departure
from smartpubsub.protocols.baselines import rpc_wire
from smartpubsub.protocols.baselines.rpc import Rpc
from smartpubsub.protocols.baselines.rpc_wire import RpcLimits
from smartpubsub.protocols.departure import Goodbye
from smartpubsub.protocols.fastdelivery import parts as fast
from smartpubsub.protocols.fastdelivery import wire as fastdelivery_wire
from smartpubsub.protocols.fastdelivery.parts import Packet
from smartpubsub.protocols.fastdelivery.wire import PacketLimits
from smartpubsub.protocols.pulsarcast import wire as pulsarcast_wire
from smartpubsub.protocols.pulsarcast.parts import Parcel
from smartpubsub.protocols.pulsarcast.wire import ParcelLimits
from smartpubsub.protocols.scoutsubs import parts
from smartpubsub.protocols.scoutsubs import wire as scoutsubs_wire
from smartpubsub.protocols.scoutsubs.parts import Bundle, ChildCopy
from smartpubsub.protocols.scoutsubs.schema import PART_NAMES
from smartpubsub.protocols.scoutsubs.wire import BundleLimits

KADEMLIA = "/smartpubsub/kad/1.0.0"
KADEMLIA_OF_IPFS = "/ipfs/kad/1.0.0"
"""The public network's, for a node that is to be part of it."""
NODE = "/smartpubsub/node/1.0.0"
SCOUTSUBS = "/smartpubsub/scoutsubs/1.0.0"
FASTDELIVERY = "/smartpubsub/fastdelivery/1.0.0"
FLOODSUB = "/floodsub/1.0.0"
PULSARCAST = "/smartpubsub/pulsarcast/1.0.0"
"""Not `/pulsarcast/1.0.0`, under which the first implementation says other things."""
GOSSIPSUB = "/meshsub/1.1.0"


def _never(_: Any) -> bool:
    return False


def _nobody(_: Any) -> Iterable[Contact]:
    return ()


def _its_type(message: Any) -> Mapping[str, int]:
    return {type(message).__name__.lower(): 1}


@dataclass(frozen=True, kw_only=True)
class Codec:
    """How messages of one type go over a connection. Both ways each has its length before it."""

    message: type
    protocol: str
    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]
    """Of one message; what is none, or beyond the limits, is a `WireError`."""
    message_bytes_max: int
    is_question: Callable[[Any], bool] = _never
    """Whether a message that came, and was not asked for, wants an answer on the same stream."""
    contacts: Callable[[Any], Iterable[Contact]] = _nobody
    """The peers that a message names, whom its receiver may have to reach."""
    kinds: Callable[[Any], Mapping[str, int]] = _its_type
    """What a message is about, and how much of each: what rates are limited and counted by."""


@dataclass(frozen=True, kw_only=True)
class WireLimits:
    """The most that a node takes of what others send, as far as its user can choose."""

    message_bytes_max: int = 4 << 20
    """At most; a protocol may take less."""
    attribute_count_max: int = ATTRIBUTES_MAX
    """Of a predicate."""

    @property
    def events(self) -> RpcLimits:
        """For events and predicates, in all protocols."""
        return RpcLimits(attributes_max=self.attribute_count_max)


def kademlia_codec(settings: Settings, protocol: str = KADEMLIA) -> Codec:
    """Of Kademlia, under the id of a private network or of the public one."""
    return Codec(
        message=Message,
        protocol=protocol,
        encode=kademlia_wire.encode,
        decode=lambda data: kademlia_wire.decode(data, settings),
        message_bytes_max=settings.message_bytes_max,
        is_question=lambda message: message.kind is not Kind.ADD_PROVIDER,
        contacts=lambda message: (*message.closer, *message.providers),
        kinds=lambda message: {f"kad/{message.kind.name.lower()}": 1},
    )


def node_codec() -> Codec:
    """Of what nodes say to each other whatever protocols they run."""
    return Codec(
        message=Goodbye,
        protocol=NODE,
        encode=departure.encode,
        decode=departure.decode,
        message_bytes_max=departure.GOODBYE_BYTES,
    )


def rpc_codec(protocol: str, limits: RpcLimits | None = None) -> Codec:
    """Of libp2p's pubsub, for Floodsub or for GossipSub."""
    taken = limits or RpcLimits()
    return Codec(
        message=Rpc,
        protocol=protocol,
        encode=rpc_wire.encode,
        decode=lambda data: rpc_wire.decode(data, taken),
        message_bytes_max=taken.message_bytes_max,
        kinds=_kinds_in_rpc,
    )


def _kinds_in_rpc(message: Rpc) -> Mapping[str, int]:
    control = message.control
    kinds = {"pubsub/rpc": 1, "pubsub/publish": len(message.publish)}
    if control is not None:
        kinds |= {"pubsub/ihave": len(control.ihave), "pubsub/iwant": len(control.iwant)}
        kinds |= {"pubsub/graft": control.graft, "pubsub/prune": control.prune_s is not None}
    return {kind: count for kind, count in kinds.items() if count}


def scoutsubs_codec(limits: BundleLimits | None = None) -> Codec:
    """Of ScoutSubs."""
    taken = limits or BundleLimits()
    return Codec(
        message=Bundle,
        protocol=SCOUTSUBS,
        encode=scoutsubs_wire.encode,
        decode=lambda data: scoutsubs_wire.decode(data, taken),
        message_bytes_max=taken.bundle_bytes_max,
        contacts=_contacts_in_bundle,
        kinds=lambda bundle: Counter([_PART_KINDS[type(part)] for part in bundle.parts]),
    )


_PART_KINDS = {getattr(parts, part): f"scoutsubs/{part.lower()}" for part in PART_NAMES}


def _contacts_in_bundle(bundle: Bundle) -> Iterator[Contact]:
    for said in bundle.parts:
        part = said.part if isinstance(said, parts.Piece) else said
        match part:
            case parts.Announce(direct=direct, backups=backups):
                yield from _those_known(direct, backups)
            case parts.Announced(go_to=Contact() as elsewhere):
                yield elsewhere
            case parts.CopyTree(children=children) | parts.Pulled(children=children):
                yield from _contacts_of(children)
            case parts.PulledOwn(trees):
                for _, children in trees:
                    yield from _contacts_of(children)


def _contacts_of(children: Iterable[ChildCopy]) -> Iterator[Contact]:
    for child in children:
        yield child.contact
        yield from _those_known(child.direct, child.backups)


def _those_known(direct: Contact | None, backups: tuple[Contact, ...]) -> Iterator[Contact]:
    if direct is not None:
        yield direct
    yield from backups


def fastdelivery_codec(limits: PacketLimits | None = None) -> Codec:
    """Of FastDelivery."""
    taken = limits or PacketLimits()
    return Codec(
        message=Packet,
        protocol=FASTDELIVERY,
        encode=fastdelivery_wire.encode,
        decode=lambda data: fastdelivery_wire.decode(data, taken),
        message_bytes_max=taken.packet_bytes_max,
        contacts=lambda packet: _contacts_in_packet(packet.part),
        kinds=lambda packet: {f"fastdelivery/{type(packet.part).__name__.lower()}": 1},
    )


def _contacts_in_packet(part: fast.Question | fast.Answer) -> Iterator[Contact]:
    match part:
        case fast.Invite(notice) | fast.Advertise(notice=notice):
            yield notice.contact
        case fast.Listed(notices, _, closer):
            yield from (notice.contact for notice in notices)
            yield from closer
        case fast.Join(request=request) | fast.Search(watch=fast.Request() as request):
            yield request.contact
        case fast.Watchers(watched, _, closer):
            yield from (entry.request.contact for entry in watched)
            yield from closer
        case fast.CopyBoard(_, posted, watched):
            yield from (entry.notice.contact for entry in posted)
            yield from (entry.request.contact for entry in watched)
        case fast.Delegate(charges=charges):
            yield from (charge.contact for charge in charges)
        case fast.Measure(landmarks):
            yield from landmarks


def pulsarcast_codec(limits: ParcelLimits | None = None) -> Codec:
    """Of Pulsarcast."""
    taken = limits or ParcelLimits()
    return Codec(
        message=Parcel,
        protocol=PULSARCAST,
        encode=pulsarcast_wire.encode,
        decode=lambda data: pulsarcast_wire.decode(data, taken),
        message_bytes_max=taken.parcel_bytes_max,
        contacts=pulsarcast_wire.contacts_in,
        kinds=lambda parcel: Counter([_said_in(part) for part in parcel.parts]),
    )


def _said_in(part: object) -> str:
    return f"pulsarcast/{type(part).__name__.lower()}"


def codecs_of(protocol: str, limits: WireLimits | None = None) -> list[Codec]:
    """All that a node with a protocol speaks, by the name that users know the protocol by."""
    taken = limits or WireLimits()
    of_protocol: dict[str, Callable[[], Codec]] = {
        "scoutsubs": lambda: scoutsubs_codec(BundleLimits(events=taken.events)),
        "fastdelivery": lambda: fastdelivery_codec(PacketLimits(events=taken.events)),
        "pulsarcast": pulsarcast_codec,
        "floodsub": lambda: rpc_codec(FLOODSUB, taken.events),
        "gossipsub": lambda: rpc_codec(GOSSIPSUB, taken.events),
    }
    # Groups are beside whatever carries subscriptions, which may be FastDelivery as well.
    above = dict.fromkeys((protocol, "fastdelivery", "pulsarcast"))
    spoken = [kademlia_codec(Settings()), node_codec(), *(of_protocol[name]() for name in above)]
    return [
        replace(codec, message_bytes_max=min(codec.message_bytes_max, taken.message_bytes_max))
        for codec in spoken
    ]
