"""The protobuf messages of ScoutSubs. Their fields are called as those of the parts are.

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

_PART_FIELDS = [
    field("notify", 1, "message Notify"),
    field("confirm", 2, "message Confirm"),
    field("raised", 3, "message Raise"),  # Many languages do not let a field be called raise.
    field("admitted", 4, "message Admitted"),
    field("announce", 5, "message Announce"),
    field("announced", 6, "message Announced"),
    field("probe", 7, "message Probe"),
    field("alive", 8, "message Alive"),
    field("record", 9, "message Record"),
    field("recorded", 10, "message Recorded"),
    field("done", 11, "message Done"),
    field("completed", 12, "message Completed"),
    field("copy_tree", 13, "message CopyTree"),
    field("tree_copied", 14, "message TreeCopied"),
    field("no_copy", 15, "message NoCopy"),
    field("pull", 16, "message Pull"),
    field("pulled", 17, "message Pulled"),
    field("pull_own", 18, "message PullOwn"),
    field("pulled_own", 19, "message PulledOwn"),
    field("adopt", 20, "message Adopt"),
    field("offer", 21, "message Offer"),
    field("want", 22, "message Want"),
    field("elsewhere", 23, "message Elsewhere"),
    field("piece", 24, "message Piece"),
    field("recall", 25, "message Recall"),
    field("recalled", 26, "message Recalled"),
    field("inherit", 27, "message Inherit"),
]

_PEER_FIELDS = [field("id", 1, "bytes"), field("addrs", 2, "bytes", repeated=True)]  # As kad-dht.

_ANNOUNCE_FIELDS = [
    field("attribute", 1, "string"),
    field("incarnation", 2, "uint64"),
    field("version", 3, "uint64"),
    field("base", 4, "uint64"),  # One more than it is: none is 0, which is not written.
    field("added", 5, "string", repeated=True),
    field("removed", 6, "string", repeated=True),
    field("direct", 7, "message Peer"),
    field("backups", 8, "message Peer", repeated=True),
    field("is_retry", 9, "bool"),
    field("signature", 10, "bytes"),
    field("root_ms", 11, "uint64"),
    field("stage", 12, "uint64"),
]

_CHILD_FIELDS = [
    field("contact", 1, "message Peer"),
    field("incarnation", 2, "uint64"),
    field("version", 3, "uint64"),
    field("filters", 4, "string", repeated=True),
    field("direct", 5, "message Peer"),
    field("backups", 6, "message Peer", repeated=True),
]


def _message(name: str, *fields: FieldDescriptorProto) -> DescriptorProto:
    return DescriptorProto(name=name, field=fields)


def _with_event(name: str, *more: FieldDescriptorProto) -> DescriptorProto:
    # An event is bytes here and a message of libp2p's pubsub to others: the wire knows no
    # difference, and there that message is declared already.
    return _message(name, field("event", 1, "bytes"), field("attribute", 2, "string"), *more)


def _about_event(name: str, *more: FieldDescriptorProto) -> DescriptorProto:
    return _message(name, field("id", 1, "message EventId"), field("attribute", 2, "string"), *more)


def _one_of(name: str, fields: list[FieldDescriptorProto]) -> DescriptorProto:
    for each in fields:
        each.oneof_index = 0
    declared = OneofDescriptorProto(name=name.lower())
    return DescriptorProto(name=name, field=fields, oneof_decl=[declared])


_FILE = FileDescriptorProto(
    name="smartpubsub/scoutsubs.proto",
    package="smartpubsub.scoutsubs",
    syntax="proto3",
    message_type=[
        _message("Bundle", field("parts", 1, "message Part", repeated=True)),
        _one_of("Part", _PART_FIELDS),
        _message(
            "EventId",
            field("publisher", 1, "bytes"),
            field("incarnation", 2, "uint32"),
            field("number", 3, "uint32"),
        ),
        _message("Peer", *_PEER_FIELDS),
        _message("Announce", *_ANNOUNCE_FIELDS),
        _message(
            "Announced",
            field("attribute", 1, "string"),
            field("incarnation", 2, "uint64"),
            field("version", 3, "uint64"),
            field("in_force", 4, "uint64"),
            field("wants_whole", 5, "bool"),
            field("go_to", 6, "message Peer"),
            field("signature", 7, "bytes"),
            field("stage", 8, "uint64"),
        ),
        _with_event(
            "Raise",
            field("previous", 3, "uint64"),
            field("hops", 4, "uint64"),
            field("is_retry", 5, "bool"),
            field("wants_all", 6, "bool"),
            field("age_ms", 7, "uint64"),
            field("is_permitted", 8, "bool"),
        ),
        _message("Holder", field("peer", 1, "bytes"), field("signature", 2, "bytes")),
        _about_event(
            "Admitted",
            field("refusal", 3, "string"),
            field("signature", 4, "bytes"),
            field("holders", 5, "message Holder", repeated=True),
        ),
        _about_event("Completed", field("signature", 3, "bytes")),
        _with_event(
            "Notify",
            field("hops", 3, "uint64"),
            field("is_resend", 4, "bool"),
            field("on_behalf", 5, "bytes"),
        ),
        _about_event("Confirm", field("on_behalf", 3, "bytes"), field("signature", 4, "bytes")),
        _about_event("Offer", field("predicate", 3, "string")),
        _about_event("Want"),
        _message(
            "Elsewhere",
            field("attribute", 1, "string"),
            field("others", 2, "string", repeated=True),
        ),
        _about_event("NoCopy", field("on_behalf", 3, "bytes")),
        _message("ChildCopy", *_CHILD_FIELDS),
        _message(
            "CopyTree",
            field("attribute", 1, "string"),
            field("is_root", 2, "bool"),
            field("version", 3, "uint64"),
            field("is_whole", 4, "bool"),
            field("children", 5, "message ChildCopy", repeated=True),
            field("gone", 6, "bytes", repeated=True),
            field("stage", 7, "uint64"),
        ),
        _message(
            "TreeCopied",
            field("attribute", 1, "string"),
            field("version", 2, "uint64"),
            field("is_full", 3, "bool"),
        ),
        _with_event(
            "Record",
            field("hops", 3, "uint64"),
            field("wants_all", 4, "bool"),
            field("age_ms", 5, "uint64"),
        ),
        _about_event("Recorded", field("is_full", 3, "bool"), field("signature", 4, "bytes")),
        _about_event("Done"),
        _message("Pull", field("attribute", 1, "string")),
        _message(
            "Pulled",
            field("attribute", 1, "string"),
            field("was_root", 2, "bool"),
            field("owner", 3, "bytes"),
            field("children", 4, "message ChildCopy", repeated=True),
            field("records", 5, "message Record", repeated=True),
            field("stage", 6, "uint64"),
        ),
        _message("PullOwn"),
        _message(
            "Tree",
            field("attribute", 1, "string"),
            field("children", 2, "message ChildCopy", repeated=True),
        ),
        _message("PulledOwn", field("trees", 1, "message Tree", repeated=True)),
        _message("Adopt", field("attribute", 1, "string"), field("instead_of", 2, "bytes")),
        _message(
            "Recall",
            field("attribute", 1, "string"),
            field("number", 2, "uint64"),
            field("predicate", 3, "string"),
            field("since_us", 4, "uint64"),
            field("after", 5, "message EventId"),
            field("newest", 6, "uint64"),
            field("about", 7, "message EventId"),
        ),
        _message(
            "Recalled",
            field("attribute", 1, "string"),
            field("number", 2, "uint64"),
            field("events", 3, "bytes", repeated=True),
            field("has_more", 4, "bool"),
            field("oldest_us", 5, "uint64"),
            field("whole_us", 6, "uint64"),
        ),
        _message(
            "Span",
            field("since_us", 1, "uint64"),
            field("amount", 2, "uint64"),
            field("digest", 3, "uint64"),
        ),
        _message(
            "Inherit",
            field("attribute", 1, "string"),
            field("whole_us", 2, "uint64"),
            field("spans", 3, "message Span", repeated=True),
            field("is_answer", 4, "bool"),
        ),
        _message("Probe", field("number", 1, "uint64")),
        _message(
            "Piece",
            field("number", 1, "uint64"),
            field("place", 2, "uint64"),
            field("pieces", 3, "uint64"),
            field("part", 4, "message Part"),
        ),
        _message("Alive", field("number", 1, "uint64"), field("incarnation", 2, "uint64")),
    ],
)

BundleBuffer, PartBuffer = message_classes(_FILE, "Bundle", "Part")
"""In protobuf."""

PART_NAMES = {each.type_name: each.name for each in _PART_FIELDS}
"""What a part is called in a bundle, by its type's name."""
