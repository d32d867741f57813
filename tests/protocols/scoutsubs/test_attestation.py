"""Announcements and acknowledgements have effect only if their senders have signed them."""

from collections.abc import Callable
from typing import Any

import pytest

from smartpubsub.kademlia.settings import MINUTE, SECOND
from smartpubsub.node.identity import Identity
from smartpubsub.node.signing import Ed25519Signing
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.publication import EventId
from smartpubsub.protocols.pubsub import Published
from smartpubsub.protocols.runtime.rules import refusal_of
from smartpubsub.protocols.scoutsubs.attestation import Attestation
from smartpubsub.protocols.scoutsubs.messages import (
    NOBODY,
    WHOLE,
    Admitted,
    Announce,
    Announced,
    Bundle,
    BundleLimits,
    Completed,
    Confirm,
    Holder,
    Part,
    Probe,
    Recorded,
    decode,
    encode,
)
from smartpubsub.protocols.scoutsubs.settings import ScoutSettings
from smartpubsub.seam import Received
from smartpubsub.sim.kernel.signing import StandInSigning
from tests.protocols.scoutsubs.forest import Forest

ALICE, BOB, MALLORY = (Identity.of(bytes(31) + letter) for letter in (b"a", b"b", b"m"))
ID = EventId(ALICE.peer, 1, 2)
SURF = Predicate.parse("surf/price[10,20]")

PARTS: list[Any] = [
    Announce("surf", 1, 2, WHOLE, (SURF,), (), None, (), False),
    Announced("surf", 1, 2, 2, False, None),
    Confirm(ID, "surf", NOBODY),
    Completed(ID, "surf"),
    Admitted(ID, "surf", ""),
    Admitted(ID, "surf", "no room"),
    Recorded(ID, "surf", False),
]
KINDS = pytest.mark.parametrize("part", PARTS, ids=lambda part: type(part).__name__)
FOR_ONE = [part for part in PARTS if not isinstance(part, Admitted | Recorded)]


def vouching(identity: Identity) -> Attestation:
    return Attestation(identity.peer, Ed25519Signing(identity))


def over_the_wire(part: Part) -> Any:
    return decode(encode(Bundle((part,))), BundleLimits()).parts[0]


@KINDS
def test_a_signed_message_is_accepted(part: Any) -> None:
    said = vouching(ALICE).signed(part, BOB.peer)

    assert len(said.signature) == 64
    assert vouching(BOB).verified(over_the_wire(said), ALICE.peer) == said


@KINDS
def test_a_message_that_its_sender_has_not_signed_is_rejected(part: Any) -> None:
    forged = vouching(MALLORY).signed(part, BOB.peer)

    assert vouching(BOB).verified(part, ALICE.peer) is None
    assert vouching(BOB).verified(forged, ALICE.peer) is None
    assert vouching(BOB).verified(part._replace(signature=bytes(64)), ALICE.peer) is None
    assert vouching(BOB).verified(part._replace(signature=b"short"), ALICE.peer) is None
    assert vouching(BOB).verified(vouching(ALICE).signed(part, BOB.peer), b"stranger") is None


@KINDS
def test_a_changed_message_is_rejected(part: Any) -> None:
    said = vouching(ALICE).signed(part, BOB.peer)
    changes = {
        "attribute": "rain",
        "refusal": "because",
        "version": 3,
        "incarnation": 2,
        "added": (),
        "in_force": 9,
        "is_full": True,
        "id": ID._replace(number=3),
    }
    known = {name: value for name, value in changes.items() if name in part._fields}

    assert known
    for name, value in known.items():
        assert vouching(BOB).verified(said._replace(**{name: value}), ALICE.peer) is None, name


@pytest.mark.parametrize("part", FOR_ONE, ids=lambda part: type(part).__name__)
def test_a_message_to_another_node_is_rejected(part: Any) -> None:
    said = vouching(ALICE).signed(part, MALLORY.peer)

    assert vouching(MALLORY).verified(said, ALICE.peer) == said
    assert vouching(BOB).verified(said, ALICE.peer) is None


def test_a_signature_of_one_kind_of_message_does_not_pass_for_another() -> None:
    completed = vouching(ALICE).signed(Completed(ID, "surf"), BOB.peer)
    recorded = vouching(ALICE).signed(Recorded(ID, "surf", False), BOB.peer)

    for signature in (completed.signature, recorded.signature):
        assert vouching(BOB).verified(Confirm(ID, "surf", NOBODY, signature), ALICE.peer) is None


def test_other_parts_are_passed_on_as_they_are() -> None:
    assert vouching(ALICE).signed(Probe(1), BOB.peer) == Probe(1)
    assert vouching(BOB).verified(Probe(1), ALICE.peer) == Probe(1)


def test_of_others_signatures_the_valid_ones_are_left() -> None:
    recorded = vouching(BOB).signed(Recorded(ID, "surf", False), ALICE.peer)
    of_another = vouching(BOB).signed(Recorded(ID._replace(number=9), "surf", False), ALICE.peer)
    holders = (
        Holder(BOB.peer, recorded.signature),
        Holder(MALLORY.peer, recorded.signature),
        Holder(BOB.peer, of_another.signature),
    )
    said = vouching(ALICE).signed(Admitted(ID, "surf", "", holders=holders), MALLORY.peer)
    heard = vouching(MALLORY).verified(said, ALICE.peer)

    assert isinstance(heard, Admitted)
    assert heard.holders == holders[:1]


# --- in a network ---


def tell(forest: Forest, receiver: int, sender: int, part: Part) -> None:
    """Have a node hear something, as it stands, from another."""
    contact = forest.contacts[sender]
    heard = Received(contact.peer, Bundle((part,)), contact.addresses)
    forest.do(receiver, forest.core(receiver).handle(heard, forest.clock(receiver)))


def announcement(forest: Forest, sender: int, **changes: Any) -> Announce:
    """What a node might announce, with its signature unless another is given."""
    signature = StandInSigning(forest.contacts[sender].peer).vouch(bytes)
    said = Announce("surf", 1, 7, WHOLE, (Predicate.parse("surf"),), (), None, (), False, signature)
    return said._replace(**changes)


@pytest.mark.parametrize("forge", [lambda _: b"", lambda forest: signature_of(forest, 3)])
def test_a_forged_announcement_changes_nothing(forge: Callable[[Forest], bytes]) -> None:
    forest = Forest(6)
    forest.subscribed(5, "surf")
    tell(forest, 0, 4, announcement(forest, 4, signature=forge(forest)))
    forest.run(SECOND)

    assert forest.children(0) == {5: ["surf"]}
    assert forest.rejected(0) == {"signature": 1}
    tell(forest, 0, 4, announcement(forest, 4))
    assert sorted(forest.children(0)) == [4, 5]


def signature_of(forest: Forest, number: int) -> bytes:
    return StandInSigning(forest.contacts[number].peer).vouch(bytes)


def test_an_announcement_is_ignored_when_it_is_known_and_refused_when_it_is_of_before() -> None:
    forest = Forest(6)
    forest.subscribed(5, "surf")
    tell(forest, 0, 4, announcement(forest, 4))
    forest.run(SECOND)
    surf = (Predicate.parse("surf/price[1,2]"),)
    tell(forest, 0, 4, announcement(forest, 4, version=6, added=surf))
    tell(forest, 0, 4, announcement(forest, 4, added=surf))
    assert forest.children(0)[4] == ["surf"]
    assert forest.rejected(0) == {}

    tell(forest, 0, 4, announcement(forest, 4, incarnation=0, version=99, added=surf))
    assert forest.children(0)[4] == ["surf"]
    assert forest.rejected(0) == {"replay": 1}


def test_a_forged_acknowledgement_confirms_nothing() -> None:
    forest = Forest(6)
    for number in (4, 5):
        forest.subscribed(number, "surf")
    forest.world.pause(forest.host(5), forest.world.now + MINUTE)
    id = forest.publish(3, "surf", wants_all=True)
    forest.run(SECOND)
    confirm = Confirm(id, "surf", NOBODY, signature_of(forest, 4))
    tell(forest, 0, 5, confirm)
    tell(forest, 3, 4, Completed(id, "surf", signature_of(forest, 0)))

    assert 0 in forest.holders(id)
    assert not forest.is_confirmed(id)
    assert forest.rejected(0)["signature"] == 1
    assert forest.rejected(3)[refusal_of(Completed)] == 1
    forest.run(2 * MINUTE)
    assert forest.is_confirmed(id)


def test_a_forged_admission_publishes_nothing() -> None:
    forest = Forest(6)
    forest.run(SECOND)
    forest.cut(3, 0, 10 * SECOND)
    id = forest.publish(3, "surf")
    tell(forest, 3, 4, Admitted(id, "surf", "", signature_of(forest, 0)))
    tell(forest, 3, 4, Admitted(id, "surf", "no room", b""))
    assert not forest.is_published(id)
    assert not forest.refusals()
    assert forest.rejected(3)["signature"] == 2


@pytest.mark.parametrize(("backups", "count"), [(2, 3), (0, 1)])
def test_a_publisher_gets_the_signatures_of_all_nodes_that_store_an_event(
    backups: int, count: int
) -> None:
    forest = Forest(8, ScoutSettings(backups=backups))
    forest.subscribed(7, "surf")
    id = forest.published(5, "surf")
    [published] = [item for item in forest.items(5) if isinstance(item, Published)]

    assert published.id == id
    assert len(published.held) == count
    peers = [forest.number(held.peer) for held in published.held]
    assert sorted(peers) == list(range(count))
    for held, number in zip(published.held, peers, strict=True):
        assert held.attribute == "surf"
        assert held.signature == signature_of(forest, number)
