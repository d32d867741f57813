"""Every type of message has its protocol id, and is read as it was written."""

import pytest

from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.messages import Kind, Message
from smartpubsub.kademlia.protobuf import unframed
from smartpubsub.kademlia.settings import Settings
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.baselines.messages import Rpc
from smartpubsub.protocols.baselines.spec import FLOODSUB, rpc_codec
from smartpubsub.protocols.codecs import (
    KADEMLIA,
    NODE,
    Codec,
    kademlia_codec,
    node_codec,
)
from smartpubsub.protocols.departure import Goodbye
from smartpubsub.protocols.scoutsubs import messages
from smartpubsub.protocols.scoutsubs.messages import Bundle, ChildCopy
from smartpubsub.protocols.scoutsubs.spec import SCOUTSUBS, scoutsubs_codec

A, B, C, D = (Contact.of(name, (b"at " + name,)) for name in (b"a", b"b", b"c", b"d"))
KAD, FLOOD, SCOUT = kademlia_codec(Settings()), rpc_codec(FLOODSUB), scoutsubs_codec()


@pytest.mark.parametrize(
    ("codec", "protocol", "message"),
    [
        (node_codec(), NODE, Goodbye(7)),
        (KAD, KADEMLIA, Message(Kind.FIND_NODE, b"surf", closer=(A,))),
        (FLOOD, FLOODSUB, Rpc(subscribe=True)),
        (SCOUT, SCOUTSUBS, Bundle((messages.Pull("surf"),))),
    ],
)
def test_messages_are_read_as_they_were_written(
    codec: Codec, protocol: str, message: object
) -> None:
    assert codec.protocol == protocol
    assert codec.message is type(message)
    encoded = codec.encode(message)
    assert codec.decode(encoded) == message
    assert unframed(encoded, codec.message_bytes_max)
    assert codec.size(message) == len(encoded)


def test_only_kademlia_asks_and_not_when_it_adds_a_provider() -> None:
    asking = [kind for kind in Kind if KAD.is_question(Message(kind))]

    assert asking == [kind for kind in Kind if kind is not Kind.ADD_PROVIDER]
    assert not FLOOD.is_question(Rpc())
    assert not SCOUT.is_question(Bundle(()))


def child(*contacts: Contact) -> ChildCopy:
    contact, direct, *backups = contacts
    return ChildCopy(contact, 1, 1, (Predicate.parse("surf"),), direct, tuple(backups))


@pytest.mark.parametrize(
    "part",
    [
        messages.Announce("surf", 1, 1, 0, (), (), A, (B, C, D), is_retry=False),
        messages.CopyTree("surf", True, 1, True, (child(A, B, C, D),), ()),
        messages.Pulled("surf", False, b"", (child(A, B), child(C, D)), ()),
        messages.PulledOwn((("surf", (child(A, B),)), ("price", (child(C, D),)))),
    ],
)
def test_all_peers_that_a_bundle_names_are_found(part: messages.Part) -> None:
    assert list(SCOUT.contacts(Bundle((part,)))) == [A, B, C, D]


def test_peers_that_are_not_named_are_not_found() -> None:
    nowhere = messages.Announced("surf", 1, 1, 1, False, None)
    elsewhere = nowhere._replace(go_to=A)

    assert list(SCOUT.contacts(Bundle((nowhere, messages.Pull("surf"), elsewhere)))) == [A]
    assert list(KAD.contacts(Message(Kind.FIND_NODE, closer=(A,), providers=(B,)))) == [A, B]
    assert list(FLOOD.contacts(Rpc())) == []
