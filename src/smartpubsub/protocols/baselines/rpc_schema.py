"""The protobuf schemas of libp2p's pubsub, and of the data in an event."""

from __future__ import annotations

from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto

from smartpubsub.kademlia.protobuf import field, message_classes

_PUBSUB = FileDescriptorProto(
    name="smartpubsub/pubsub.proto",
    package="smartpubsub.pubsub",
    syntax="proto2",
    message_type=[
        DescriptorProto(
            name="SubOpts",
            field=[field("subscribe", 1, "bool"), field("topicid", 2, "string")],
        ),
        DescriptorProto(
            name="Message",
            field=[
                field("publisher", 1, "bytes"),  # "from" in libp2p, a Python keyword.
                field("data", 2, "bytes"),
                field("seqno", 3, "bytes"),
                field("topic", 4, "string"),
                field("signature", 5, "bytes"),
                field("key", 6, "bytes"),
                field("hops", 100, "uint32"),  # An extension, far from the numbers of libp2p.
            ],
        ),
        DescriptorProto(
            name="ControlIHave",
            field=[
                field("topicID", 1, "string"),
                field("messageIDs", 2, "bytes", repeated=True),
            ],
        ),
        DescriptorProto(
            name="ControlIWant", field=[field("messageIDs", 1, "bytes", repeated=True)]
        ),
        DescriptorProto(name="ControlGraft", field=[field("topicID", 1, "string")]),
        DescriptorProto(
            name="PeerInfo",
            field=[field("peerID", 1, "bytes"), field("signedPeerRecord", 2, "bytes")],
        ),
        DescriptorProto(
            name="ControlPrune",
            field=[
                field("topicID", 1, "string"),
                field("peers", 2, "message PeerInfo", repeated=True),
                field("backoff", 3, "uint64"),
            ],
        ),
        DescriptorProto(
            name="ControlMessage",
            field=[
                field("ihave", 1, "message ControlIHave", repeated=True),
                field("iwant", 2, "message ControlIWant", repeated=True),
                field("graft", 3, "message ControlGraft", repeated=True),
                field("prune", 4, "message ControlPrune", repeated=True),
            ],
        ),
        DescriptorProto(
            name="RPC",
            field=[
                field("subscriptions", 1, "message SubOpts", repeated=True),
                field("publish", 2, "message Message", repeated=True),
                field("control", 3, "message ControlMessage"),
            ],
        ),
    ],
)

_CONTENT = FileDescriptorProto(
    name="smartpubsub/content.proto",
    package="smartpubsub.content",
    syntax="proto3",
    message_type=[
        DescriptorProto(
            name="Content",
            field=[
                field("predicate", 1, "string"),
                field("payload", 2, "bytes"),
                field("created_us", 3, "uint64"),
            ],
        ),
    ],
)

RpcBuffer, EventBuffer = message_classes(_PUBSUB, "RPC", "Message")
"""A message from one peer to another, and an event in it."""

(ContentBuffer,) = message_classes(_CONTENT, "Content")
"""The data of an event."""
