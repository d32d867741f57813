"""The protobuf messages of libp2p's kad-dht."""

from __future__ import annotations

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FileDescriptorProto,
)

from smartpubsub.kademlia.messages import Kind
from smartpubsub.kademlia.protobuf import field, message_classes


def _enum(name: str, values: list[str]) -> EnumDescriptorProto:
    declared = EnumDescriptorProto(name=name)
    for number, value in enumerate(values):
        declared.value.add(name=value, number=number)
    return declared


_FILE = FileDescriptorProto(
    name="smartpubsub/kademlia.proto",
    package="smartpubsub.kademlia",
    syntax="proto3",
    enum_type=[
        _enum("Kind", [kind.name for kind in Kind]),
        _enum("Connection", ["NOT_CONNECTED", "CONNECTED", "CAN_CONNECT", "CANNOT_CONNECT"]),
    ],
    message_type=[
        DescriptorProto(
            name="Record",
            field=[
                field("key", 1, "bytes"),
                field("value", 2, "bytes"),
                field("timeReceived", 5, "string"),
            ],
        ),
        DescriptorProto(
            name="Peer",
            field=[
                field("id", 1, "bytes"),
                field("addrs", 2, "bytes", repeated=True),
                field("connection", 3, "enum Connection"),
            ],
        ),
        DescriptorProto(
            name="Message",
            field=[
                field("type", 1, "enum Kind"),
                field("key", 2, "bytes"),
                field("record", 3, "message Record"),
                field("closerPeers", 8, "message Peer", repeated=True),
                field("providerPeers", 9, "message Peer", repeated=True),
                field("clusterLevelRaw", 10, "int32"),
            ],
        ),
    ],
)

(MessageBuffer,) = message_classes(_FILE, "Message")
"""A kad-dht message in protobuf."""
