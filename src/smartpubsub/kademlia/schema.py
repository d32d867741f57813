"""The protobuf messages of libp2p's kad-dht, declared in code so that nothing has to be generated.

They lie in a pool of their own, where libp2p's declarations of the same messages do not meet them.
"""

from __future__ import annotations

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from smartpubsub.kademlia.messages import Kind

_PACKAGE = "smartpubsub.kademlia"
_TYPES = {
    "bytes": FieldDescriptorProto.TYPE_BYTES,
    "int32": FieldDescriptorProto.TYPE_INT32,
    "string": FieldDescriptorProto.TYPE_STRING,
    "enum": FieldDescriptorProto.TYPE_ENUM,
    "message": FieldDescriptorProto.TYPE_MESSAGE,
}


def _field(name: str, number: int, what: str, *, repeated: bool = False) -> FieldDescriptorProto:
    """A field; what it is reads `bytes`, or for types of this file `enum Kind`."""
    kind, _, declared = what.partition(" ")
    label = FieldDescriptorProto.LABEL_REPEATED if repeated else FieldDescriptorProto.LABEL_OPTIONAL
    field = FieldDescriptorProto(name=name, number=number, type=_TYPES[kind], label=label)
    if declared:
        field.type_name = f".{_PACKAGE}.{declared}"
    return field


def _enum(name: str, values: list[str]) -> EnumDescriptorProto:
    declared = EnumDescriptorProto(name=name)
    for number, value in enumerate(values):
        declared.value.add(name=value, number=number)
    return declared


_FILE = FileDescriptorProto(
    name="smartpubsub/kademlia.proto",
    package=_PACKAGE,
    syntax="proto3",
    enum_type=[
        _enum("Kind", [kind.name for kind in Kind]),
        _enum("Connection", ["NOT_CONNECTED", "CONNECTED", "CAN_CONNECT", "CANNOT_CONNECT"]),
    ],
    message_type=[
        DescriptorProto(
            name="Record",
            field=[
                _field("key", 1, "bytes"),
                _field("value", 2, "bytes"),
                _field("timeReceived", 5, "string"),
            ],
        ),
        DescriptorProto(
            name="Peer",
            field=[
                _field("id", 1, "bytes"),
                _field("addrs", 2, "bytes", repeated=True),
                _field("connection", 3, "enum Connection"),
            ],
        ),
        DescriptorProto(
            name="Message",
            field=[
                _field("type", 1, "enum Kind"),
                _field("key", 2, "bytes"),
                _field("record", 3, "message Record"),
                _field("closerPeers", 8, "message Peer", repeated=True),
                _field("providerPeers", 9, "message Peer", repeated=True),
                _field("clusterLevelRaw", 10, "int32"),
            ],
        ),
    ],
)

_POOL = DescriptorPool()
_POOL.Add(_FILE)

MessageBuffer = GetMessageClass(_POOL.FindMessageTypeByName(f"{_PACKAGE}.Message"))
"""A kad-dht message in protobuf."""
