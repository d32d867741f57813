"""The protobuf messages of FastDelivery. Their fields are called as those of the parts are.

The parts that are sent most have the numbers up to 15, which take one byte.
"""

from __future__ import annotations

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    OneofDescriptorProto,
)

from smartpubsub.kademlia.protobuf import field, message_classes

_KINDS = (
    "Notify",
    "Got",
    "Relay",
    "Confirmed",
    "Working",
    "NotHelping",
    "Join",
    "Joined",
    "Recruit",
    "Agreed",
    "Delegate",
    "Done",
    "Ping",
    "Search",
    "Listed",
    "Advertise",
    "Watchers",
    "Release",
    "Unwatch",
    "CopyBoard",
    "Invite",
    "Measure",
    "Measured",
    "Keep",
    "Pull",
    "Expect",
)
"""Each has the number of its place, one more than the number of the packet before them all."""

_FIELDS: dict[str, tuple[str, ...]] = {
    "Peer": ("bytes id", "bytes* addrs"),  # As kad-dht has it.
    "GroupId": ("bytes owner", "string predicate"),
    "Notice": ("message Peer contact", "string predicate", "bytes signature"),
    "Request": (
        "message Peer contact",
        "string* predicates",
        "string region",
        "uint64 capacity",
        "uint64 version",
        "bytes signature",
    ),
    "Posted": ("message Notice notice", "uint64 life_s"),
    "Watched": ("message Request request", "uint64 life_s"),
    "Charge": ("message Peer contact", "string* predicates"),
    # An event is bytes here and a message of libp2p's pubsub to others.
    "Notify": ("string group", "bytes event", "uint64 hops", "bool is_resend", "uint64 prior"),
    "Got": ("bool is_wanted",),
    "Relay": (
        "string group",
        "uint64 term",
        "bytes event",
        "bytes* only",
        "bool is_resend",
        "message* Turn turns",
    ),
    "Turn": ("bytes peer", "uint64 prior"),
    "Confirmed": ("bytes* unreached",),
    "Working": (),
    "NotHelping": (),
    "Join": ("string group", "message Request request", "bytes invitation"),
    "Joined": ("string refusal",),
    "Recruit": ("string group", "uint64 term", "uint64 wanted"),
    "Agreed": ("uint64 granted",),
    "Delegate": (
        "string group",
        "uint64 term",
        "uint64 version",
        "message* Charge charges",
        "bytes* gone",
    ),
    "Release": ("string group", "uint64 term"),
    "Done": (),
    "Ping": (),
    "Search": (
        "string attribute",
        "string predicate",
        "message Request watch",
        "message GroupId after_group",
        "bytes known",
    ),
    "Listed": (
        "message* Notice notices",
        "bool is_more",
        "message* Peer closer",
        "string refusal",
    ),
    "Advertise": ("string attribute", "message Notice notice", "bytes after"),
    "Watchers": (
        "message* Watched watched",
        "bool is_more",
        "message* Peer closer",
        "string refusal",
    ),
    "Unwatch": ("string attribute", "string predicate"),
    "CopyBoard": ("string attribute", "message* Posted posted", "message* Watched watched"),
    "Pull": ("string attribute",),
    "Invite": ("message Notice notice",),
    "Measure": ("message* Peer landmarks",),
    "Measured": ("uint64* round_trips",),
    "Keep": ("bytes peer", "string group", "bytes event"),
    "Expect": ("uint64 incarnation", "uint64 number"),
}
"""The fields of each message, numbered from 1; a star says that there may be several."""


def _field(number: int, declared: str) -> FieldDescriptorProto:
    *kind, name = declared.split()
    what = " ".join(kind)
    return field(name, number, what.replace("*", ""), repeated="*" in what)


def _message(name: str, declared: tuple[str, ...]) -> DescriptorProto:
    fields = [_field(number, each) for number, each in enumerate(declared, 1)]
    return DescriptorProto(name=name, field=fields)


def part_name(kind: str) -> str:
    """What a part is called in a packet.

    >>> part_name("CopyBoard")
    'copy_board'
    """
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in kind).removeprefix("_")


def _packet() -> DescriptorProto:
    fields = [
        field(part_name(kind), place, f"message {kind}") for place, kind in enumerate(_KINDS, 2)
    ]
    for each in fields:
        each.oneof_index = 0
    number = field("number", 1, "uint64")
    part = OneofDescriptorProto(name="part")
    return DescriptorProto(name="Packet", field=[number, *fields], oneof_decl=[part])


_FILE = FileDescriptorProto(
    name="smartpubsub/fastdelivery.proto",
    package="smartpubsub.fastdelivery",
    syntax="proto3",
    message_type=[_packet(), *(_message(name, fields) for name, fields in _FIELDS.items())],
)

(PacketBuffer,) = message_classes(_FILE, "Packet")
"""A packet in protobuf."""

PART_NAMES = {kind: part_name(kind) for kind in _KINDS}
"""What a part is called in a packet, by its type's name."""
