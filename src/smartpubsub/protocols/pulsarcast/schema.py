"""The protobuf messages of Pulsarcast. Their fields are called as those of the parts are."""

from __future__ import annotations

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    OneofDescriptorProto,
)

from smartpubsub.kademlia.protobuf import field, message_classes

_PART_FIELDS = [
    field("spread", 1, "message Spread"),
    field("beat", 2, "message Beat"),
    field("keep", 3, "message Keep"),
    field("kept", 4, "message Kept"),
    field("request", 5, "message Request"),
    field("granted", 6, "message Granted"),
    field("fetch", 7, "message Fetch"),
    field("range", 8, "message Range"),
    field("page", 9, "message Page"),
    field("join", 10, "message Join"),
    field("welcome", 11, "message Welcome"),
    field("elsewhere", 12, "message Elsewhere"),
    field("wait", 13, "message Wait"),
    field("leave", 14, "message Leave"),
    field("want", 15, "message Want"),
    field("described", 16, "message Described"),
    field("invite", 17, "message Invite"),
]

_ROOM = field("room", 1, "bytes")
_MESSAGES: dict[str, list[FieldDescriptorProto]] = {
    "Peer": [field("id", 1, "bytes"), field("addrs", 2, "bytes", repeated=True)],  # As kad-dht.
    "Head": [field("cid", 1, "bytes"), field("height", 2, "uint64")],
    "Spread": [field("block", 1, "bytes"), field("hops", 2, "uint64")],
    "Beat": [
        _ROOM,
        field("topic", 2, "bytes"),
        field("heads", 3, "message Head", repeated=True),
        field("below", 4, "uint64"),
        field("wants_answer", 5, "bool"),
    ],
    "Keep": [_ROOM, field("topic", 2, "bytes"), field("blocks", 3, "bytes", repeated=True)],
    "Kept": [_ROOM, field("cids", 2, "bytes", repeated=True)],
    "Request": [
        _ROOM,
        field("start", 2, "uint64"),
        field("turn", 3, "uint64"),
        field("first_turn", 4, "uint64"),
        field("draft", 5, "bytes"),
    ],
    "Granted": [
        _ROOM,
        field("start", 2, "uint64"),
        field("turn", 3, "uint64"),
        field("refusal", 4, "string"),
    ],
    "Fetch": [
        _ROOM,
        field("number", 2, "uint64"),
        field("wanted", 3, "bytes", repeated=True),
        field("had", 4, "bytes", repeated=True),
        field("since_us", 5, "uint64"),
    ],
    "Range": [
        _ROOM,
        field("number", 2, "uint64"),
        field("after", 3, "message Head"),
        field("since_us", 4, "uint64"),
        field("newest", 5, "uint64"),
    ],
    "Page": [
        _ROOM,
        field("number", 2, "uint64"),
        field("blocks", 3, "bytes", repeated=True),
        field("has_more", 4, "bool"),
        field("covered", 5, "bytes", repeated=True),
        field("heads", 6, "message Head", repeated=True),
        field("gone", 7, "bytes", repeated=True),
    ],
    "Join": [_ROOM, field("topic", 2, "bytes"), field("below", 3, "uint64")],
    "Welcome": [
        _ROOM,
        field("topic", 2, "bytes"),
        field("heads", 3, "message Head", repeated=True),
    ],
    "Elsewhere": [_ROOM, field("go_to", 2, "message Peer")],
    "Wait": [_ROOM],
    "Leave": [_ROOM],
    "Want": [field("cids", 1, "bytes", repeated=True)],
    "Described": [field("blocks", 1, "bytes", repeated=True)],
    "Invite": [_ROOM, field("topic", 2, "bytes")],
}


def _part() -> DescriptorProto:
    for one in _PART_FIELDS:
        one.oneof_index = 0
    return DescriptorProto(
        name="Part", field=_PART_FIELDS, oneof_decl=[OneofDescriptorProto(name="part")]
    )


_FILE = FileDescriptorProto(
    name="smartpubsub/pulsarcast.proto",
    package="smartpubsub.pulsarcast",
    syntax="proto3",
    message_type=[
        *(DescriptorProto(name=name, field=fields) for name, fields in _MESSAGES.items()),
        _part(),
        DescriptorProto(name="Parcel", field=[field("parts", 1, "message Part", repeated=True)]),
    ],
)

(ParcelBuffer,) = message_classes(_FILE, "Parcel")
"""A parcel in protobuf."""

PART_NAMES = {one.type_name: one.name for one in _PART_FIELDS}
"""What the field for each kind of part is called."""
