"""docs/wire.md: its declarations and its test vectors are those of the code."""

import re
from pathlib import Path
from typing import Any

from smartpubsub.kademlia import messages as kad
from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.messages import Kind, Message, MessageBuffer, Record
from smartpubsub.kademlia.settings import Settings
from smartpubsub.node.transport import identify
from smartpubsub.node.transport.host_settings import HostSettings
from smartpubsub.predicates import Predicate
from smartpubsub.predicates.names import NAME_BYTES_MAX
from smartpubsub.protocols.baselines import messages as rpc_messages
from smartpubsub.protocols.baselines.messages import Control, Copy, Rpc, RpcBuffer, RpcLimits
from smartpubsub.protocols.blocks import cid_of
from smartpubsub.protocols.blocks import encode as block_of
from smartpubsub.protocols.event_messages import ContentBuffer
from smartpubsub.protocols.fastdelivery import messages as fast
from smartpubsub.protocols.fastdelivery.messages import Packet, PacketBuffer
from smartpubsub.protocols.publication import EventId, Publication
from smartpubsub.protocols.pulsarcast import messages as pulsar
from smartpubsub.protocols.pulsarcast.messages import PARCEL_LIMITS, Head, Parcel, ParcelBuffer
from smartpubsub.protocols.registry import PROTOCOLS, codecs_of
from smartpubsub.protocols.runtime.messages import MessageLimits
from smartpubsub.protocols.scoutsubs import messages as scout
from smartpubsub.protocols.scoutsubs.attestation import held_bytes
from smartpubsub.protocols.scoutsubs.messages import (
    NO_PEER,
    WHOLE,
    Bundle,
    BundleBuffer,
    Part,
)
from tests.protocols.strategies import signing_bytes

DOCUMENT = (Path(__file__).parents[2] / "docs" / "wire.md").read_text(encoding="utf-8")

ID = EventId(b"peer", 2, 300)
SURF = Predicate.parse("surf")
EVENT = Publication.of(ID, SURF, b"hi", b"sig")
ADDRESS = bytes.fromhex("047f000001060fa1")
CONTACT = Contact.of(b"q", (ADDRESS,))
SIGNATURE = b"sig"
CONFIRM = scout.Confirm(ID, "surf", NO_PEER)
CHILD = scout.ChildCopy(CONTACT, 1, 5, (SURF,), None, ())

QUESTION = Message(Kind.FIND_NODE, b"surf")
ANSWER = Message(Kind.FIND_NODE, b"surf", closer=(CONTACT,))
PUT = Message(Kind.PUT_VALUE, b"surf", Record(b"surf", b"1"))

SIGNED_ANSWER = scout.SignedAnswer(b"q", "surf", (SURF,), (5,), 1, 292, 300, (), b"evidence")

CONTROL = Control((ID,), (ID,), graft=True, prune_s=60)

SAID: dict[str, Part] = {
    "`Announce` of version 5, everything, `surf`": scout.Announce(
        "surf", 1, 5, WHOLE, (SURF,), (), None, (), False
    ),
    "`Announce` of version 5, a change to version 4, shortcut and backup `q`": scout.Announce(
        "surf", 1, 5, 4, (SURF,), (), CONTACT, (CONTACT,), False
    ),
    "`Announced`, received and in force": scout.Announced("surf", 1, 5, 5, False, None),
    "`Announced`, go to `q`": scout.Announced("surf", 1, 0, 0, False, CONTACT),
    "`Raise` after number 299, one link": scout.Raise(EVENT, "surf", 299, 1, False, False, 0),
    "`Admitted`, and the backup `q` keeps it too": scout.Admitted(
        ID, "surf", "", SIGNATURE, (scout.Holder(b"q", SIGNATURE),)
    ),
    "`Admitted`, but refused: `no`": scout.Admitted(ID, "surf", "no"),
    "`Completed`": scout.Completed(ID, "surf"),
    "`Notify`, three links": scout.Notify(EVENT, "surf", 3, False, NO_PEER),
    "`Notify`, again, on behalf of `q`": scout.Notify(EVENT, "surf", 3, True, b"q"),
    "`Confirm`": CONFIRM,
    "`Elsewhere`, `surf`": scout.Elsewhere("surf", (SURF,)),
    "`Piece`, the second of three of number 9: a `Pull`": scout.Piece(9, 1, 3, scout.Pull("surf")),
    "`Offer`": scout.Offer(ID, "surf", SURF),
    "`Want`": scout.Want(ID, "surf"),
    "`NoCopy` of the children of `q`": scout.NoCopy(ID, "surf", b"q"),
    "`CopyTree` of a rendezvous, whole, version 7, the child `q`": scout.CopyTree(
        "surf", True, 7, True, (CHILD,), ()
    ),
    "`CopyTree`, version 8, `q` is gone": scout.CopyTree("surf", False, 8, False, (), (b"q",)),
    "`TreeCopied`, version 7": scout.TreeCopied("surf", 7, False),
    "`Record`, two links": scout.Record(EVENT, "surf", 2, False, 0),
    "`Recorded`": scout.Recorded(ID, "surf", False, SIGNATURE),
    "`Done`": scout.Done(ID, "surf"),
    "`Done` for that event and the two after it": scout.Done(ID, "surf", 2),
    "`Pull`": scout.Pull("surf"),
    "`Pulled`: a copy of the children of `peer`, which is `q`": scout.Pulled(
        "surf", False, b"peer", (CHILD,), ()
    ),
    "`PullOwn`": scout.PullOwn(),
    "`PulledOwn`: one tree with the child `q`": scout.PulledOwn((("surf", (CHILD,)),)),
    "`Adopt` instead of `q`": scout.Adopt("surf", b"q"),
    "`Recall` number 9, `surf`, the newest 5 after the event of the time 300": scout.Recall(
        "surf", 9, SURF, 300, ID, 5, None
    ),
    "`Recall` number 9, about the event": scout.Recall("surf", 9, SURF, 0, None, 0, ID),
    "`Inherit`, three events of `surf` from the time 300 on": scout.Inherit(
        "surf", 300, (scout.Span(300, 3, 5),), False
    ),
    "`Recalled`, the event and more, the oldest of the time 300": scout.Recalled(
        "surf", 9, (EVENT,), True, 300
    ),
    "`KeepForAudits`": scout.KeepForAudits(EVENT, "surf"),
    "`Audit` number 9, `surf`, of the last minute, except one": scout.Audit(
        "surf", 9, (SURF,), 60_000, 1_000, (5,)
    ),
    "`Audited`, the event, which came 300 ms ago": scout.Audited(
        "surf", 9, (scout.Missed(EVENT, 300),), False
    ),
    "`KeptAt`, at the place 300": scout.KeptAt(ID, "surf", 1, 300, b"digest", b"evidence"),
    "`Accuse` of `q`, whose answer covers the places 292 to 300": scout.Accuse(ID, SIGNED_ANSWER),
    "`Convict` of `q`, which has signed for the event at the place 300": scout.Convict(
        EVENT, 300, b"evidence", SIGNED_ANSWER
    ),
    "`Probe` with number 300": scout.Probe(300),
    "`Alive` in answer to that": scout.Alive(300, 1),
}
FAST_SAID: dict[str, Packet] = {
    "FastDelivery: the event for a member, one link": Packet(
        7, fast.GroupNotify(SURF, EVENT, 1, is_resend=False)
    ),
    "FastDelivery: the member has it": Packet(7, fast.Got(is_wanted=True)),
    "FastDelivery: the event for a helper, term 3": Packet(
        8, fast.Relay(SURF, 3, EVENT, (), is_resend=False)
    ),
    "FastDelivery: `q` joins, capacity 5": Packet(
        9, fast.Join(SURF, fast.Request(CONTACT, (SURF,), "here", 5, 1, b"sig"), b"")
    ),
}
TOPIC_ID, TOPIC, LINKED = (cid_of(block_of(name)) for name in ("meta", "topic", "event"))
BLOCK = bytes.fromhex("f6")
PULSAR_SAID: dict[str, pulsar.Part] = {
    "Pulsarcast: `q` joins with no node below it": pulsar.JoinTopic(TOPIC_ID, TOPIC, 0),
    "Pulsarcast: it is sent to `q`": pulsar.JoinElsewhere(TOPIC_ID, CONTACT),
    "Pulsarcast: it is welcome, the event is the newest, at height 300": pulsar.Welcome(
        TOPIC_ID, TOPIC, (Head(LINKED, 300),)
    ),
    "Pulsarcast: the block `f6`, two links": pulsar.Spread(BLOCK, 2),
    "Pulsarcast: question 7, for the event, with nothing": pulsar.Fetch(
        TOPIC_ID, 7, (LINKED,), (), 0
    ),
    "Pulsarcast: its answer, the block `f6` and no more": pulsar.Page(TOPIC_ID, 7, (BLOCK,), False),
}
TWO_PARTS = Bundle((CONFIRM, scout.Probe(300)))

VECTORS = {
    "the predicate and the payload": ContentBuffer(
        predicate="surf", payload=b"hi"
    ).SerializeToString(),
    "the predicate, the payload and the time 300": ContentBuffer(
        predicate="surf", payload=b"hi", created_us=300
    ).SerializeToString(),
    "what is signed": signing_bytes(ID, SURF, b"hi"),
    "what is signed with the time 300": signing_bytes(ID, SURF, b"hi", 300),
    "the event": EVENT.encoded,
    "kad-dht: `FIND_NODE` of `surf`": kad.encode(QUESTION),
    "kad-dht: its answer, `q` with its address": kad.encode(ANSWER),
    "kad-dht: `PUT_VALUE` of `1` under `surf`": kad.encode(PUT),
    "pubsub: a subscription": rpc_messages.encode(Rpc(subscribe=True)),
    "pubsub: the event, seven links": rpc_messages.encode(Rpc(publish=(Copy(EVENT, 7),))),
    "pubsub: IHAVE, IWANT, GRAFT, and PRUNE for a minute": rpc_messages.encode(
        Rpc(control=CONTROL)
    ),
    **{name: scout.encode(Bundle((part,))) for name, part in SAID.items()},
    "the statement of a node that holds the event": held_bytes(ID, "surf"),
    "`Confirm` and `Probe` in one bundle": scout.encode(TWO_PARTS),
    **{name: fast.encode(packet) for name, packet in FAST_SAID.items()},
    **{name: pulsar.encode(Parcel((part,))) for name, part in PULSAR_SAID.items()},
}
"""By what the document calls them."""


def test_vectors_are_those_of_the_code() -> None:
    rows = re.findall(r"^\| (.+) \| `([0-9a-f]+)` \|$", DOCUMENT, re.MULTILINE)

    assert dict(rows) == {name: data.hex() for name, data in VECTORS.items()}
    assert len(rows) == len(VECTORS)


def test_vectors_are_read_as_what_was_written() -> None:
    for message in (QUESTION, ANSWER, PUT):
        assert kad.decode(kad.encode(message), Settings()) == message
    for rpc in (Rpc(subscribe=True), Rpc(publish=(Copy(EVENT, 7),)), Rpc(control=CONTROL)):
        assert rpc_messages.decode(rpc_messages.encode(rpc), RpcLimits()) == rpc
    for bundle in (*(Bundle((part,)) for part in SAID.values()), TWO_PARTS):
        assert scout.decode(scout.encode(bundle), MessageLimits()) == bundle
    for packet in FAST_SAID.values():
        assert fast.decode(fast.encode(packet), MessageLimits()) == packet
    for parcel in (Parcel((part,)) for part in PULSAR_SAID.values()):
        assert pulsar.decode(pulsar.encode(parcel), PARCEL_LIMITS) == parcel


# --- declarations ---

DECLARATION = re.compile(r"^(?:message|enum) (\w+) \{(?:\}|(.*?)^\})", re.MULTILINE | re.DOTALL)
FIELD = re.compile(r"^ +(?:optional )?((?:repeated )?\w+) (\w+) = (\d+);", re.MULTILINE)
VALUE = re.compile(r"^ +(\w+) = (\d+);", re.MULTILINE)

Declarations = dict[str, set[tuple[str, ...]]]

TYPES = {4: "uint64", 5: "int32", 8: "bool", 9: "string", 12: "bytes", 13: "uint32"}


def documented(heading: str) -> Declarations:
    """The messages and enums that are declared in a section of the document."""
    sections = re.split(r"^## ", DOCUMENT, flags=re.MULTILINE)
    (text,) = [section for section in sections if section.startswith(f"{heading}\n")]
    blocks = "\n".join(re.findall(r"```proto\n(.*?)```", text, re.DOTALL))
    return {
        name: set(FIELD.findall(body) or VALUE.findall(body))
        for name, body in DECLARATION.findall(blocks)
    }


def declared(buffer: Any) -> Declarations:
    """What the code declares, of a message and of all that it is made of."""
    found: Declarations = {}
    waiting = [buffer.DESCRIPTOR]
    while waiting:
        kind = waiting.pop()
        if kind.name in found:
            continue
        found[kind.name] = {(written_type(f), said_name(f), str(f.number)) for f in kind.fields}
        waiting += [f.message_type for f in kind.fields if f.message_type]
        for enum in (f.enum_type for f in kind.fields if f.enum_type):
            found[enum.name] = {(value.name, str(value.number)) for value in enum.values}
    return found


def written_type(field: Any) -> str:
    declared_type = field.message_type or field.enum_type
    name = declared_type.name if declared_type else TYPES[field.type]
    return f"repeated {name}" if field.is_repeated else name


def said_name(field: Any) -> str:
    is_from = field.containing_type.name == "Message" and field.name == "publisher"
    return "from" if is_from else field.name


def test_declarations_are_those_of_the_code() -> None:
    assert documented("Common definitions") == declared(ContentBuffer)
    assert documented("kad-dht") == declared(MessageBuffer)
    assert documented("pubsub") == declared(RpcBuffer)
    assert documented("ScoutSubs") == declared(BundleBuffer)
    assert documented("FastDelivery") == declared(PacketBuffer)
    assert documented("Pulsarcast") == declared(ParcelBuffer)


def test_protocol_ids_are_those_of_the_code() -> None:
    spoken = [codec.protocol for name in PROTOCOLS.specs for codec in codecs_of(name)]
    said = re.findall(r"^\| `(/[^`]+)`", DOCUMENT.partition("\n## ")[0], re.MULTILINE)

    assert {*said} == {*spoken, identify.PROTOCOL}


def test_limits_of_connections_are_those_of_the_code() -> None:
    host = HostSettings()
    _, _, section = DOCUMENT.partition("## Connections and streams")
    text = " ".join(section.partition("\n## ")[0].split())

    for said in (
        f"or {host.identify_s:g} seconds have passed",
        f"{host.stream_count_per_protocol_max} streams for a protocol open to a node at once",
        f"and {host.stream_count_max} in all",
        f"Idle connections may be closed after {host.idle_s_min:g} seconds",
    ):
        assert said in text


def test_limits_are_those_of_the_code() -> None:
    kademlia, rpc, bundle, packet = Settings(), RpcLimits(), MessageLimits(), MessageLimits()
    parcel = PARCEL_LIMITS
    addresses = f"{kademlia.address_count_max}, of {kademlia.address_bytes_max} bytes each"
    attributes = f"{rpc.attributes_max} attributes"
    limits = [
        ("a message of kad-dht", in_bytes(kademlia.message_bytes_max)),
        ("a bundle of ScoutSubs", in_bytes(bundle.message_bytes_max)),
        ("a packet of FastDelivery", in_bytes(packet.message_bytes_max)),
        ("a parcel of Pulsarcast", in_bytes(parcel.message_bytes_max)),
        ("parts of a parcel", f"{parcel.part_count_max:,}"),
        ("entries of all lists in the parts of a parcel", f"{parcel.entry_count_max:,} together"),
        ("a region", in_bytes(packet.text_bytes_max)),
        ("in a packet", f"{packet.entry_count_max:,} together"),
        ("a message of pubsub", in_bytes(rpc.message_bytes_max)),
        ("a payload", in_bytes(rpc.payload_bytes_max)),
        ("a peer id", in_bytes(kademlia.peer_bytes_max)),
        ("a peer id", in_bytes(rpc.peer_bytes_max)),
        ("addresses of a peer", addresses),
        ("peers in one list", f"{kademlia.contact_count_max}"),
        ("a name that is looked up", in_bytes(kademlia.name_bytes_max)),
        ("an attribute", in_bytes(NAME_BYTES_MAX)),
        ("the reason of a refusal", in_bytes(bundle.text_bytes_max)),
        ("a value", in_bytes(kademlia.value_bytes_max)),
        ("a predicate", f"{in_bytes(rpc.predicate_bytes_max)}, {attributes}"),
        ("events in a message of pubsub", f"{rpc.event_count_max:,}"),
        ("ids that are offered, ids that are requested", f"{rpc.id_count_max:,} each"),
        ("subscriptions, and control messages of each sort", f"{rpc.part_count_max}"),
        ("a backoff", f"{rpc.backoff_s_max // 3600} hours"),
        ("parts of a bundle", f"{bundle.part_count_max:,}"),
        ("entries of all lists in the parts of a bundle", f"{bundle.entry_count_max:,} together"),
    ]
    _, _, table = DOCUMENT.partition("| limit | |")
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", table.partition("\n\n")[0], re.MULTILINE)
    said = {(what, most) for each, most in rows if most != "---" for what in each.split("; ")}

    assert said == set(limits)


def in_bytes(count: int) -> str:
    for unit, size in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count % size == 0:
            return f"{count // size} {unit}"
    return f"{count} bytes"
