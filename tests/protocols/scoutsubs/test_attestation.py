"""Statements that nodes keep an event have effect only with evidence of their senders."""

from typing import Any

import pytest

from smartpubsub.kademlia.settings import MINUTE, SECOND
from smartpubsub.node.identity import Identity
from smartpubsub.node.signing import Ed25519Signing
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.evidence import STEP_BYTES
from smartpubsub.protocols.publication import SIGNATURE_BYTES, EventId
from smartpubsub.protocols.pubsub import Published
from smartpubsub.protocols.runtime.messages import MessageLimits
from smartpubsub.protocols.runtime.rules import refusal_of
from smartpubsub.protocols.scoutsubs.attestation import Attestation, held_bytes
from smartpubsub.protocols.scoutsubs.messages import (
    NO_PEER,
    WHOLE,
    Admitted,
    Announce,
    Bundle,
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

STATEMENTS: list[Any] = [Admitted(ID, "surf", ""), Recorded(ID, "surf", False)]
KINDS = pytest.mark.parametrize("part", STATEMENTS, ids=lambda part: type(part).__name__)


def attested(identity: Identity, *parts: Part) -> list[Any]:
    queue = [*parts]
    Attestation(Ed25519Signing(identity)).sign([queue])
    return queue


def verified(part: Part, sender: Identity) -> Part | None:
    sent = decode(encode(Bundle((part,))), MessageLimits()).parts[0]
    return Attestation(Ed25519Signing(BOB)).verified(sent, sender.peer)


@KINDS
def test_statements_are_accepted_with_evidence_of_their_sender(part: Any) -> None:
    others = [part._replace(attribute=str(number)) for number in range(70)]
    for said in attested(ALICE, part, Probe(1), *others):
        assert verified(said, ALICE) == said


@KINDS
def test_a_statement_without_evidence_of_its_sender_is_rejected(part: Any) -> None:
    [said] = attested(ALICE, part)
    [forged] = attested(MALLORY, part)

    assert verified(part, ALICE) is None
    assert verified(forged, ALICE) is None
    assert verified(said, MALLORY) is None
    for evidence in (said.evidence + b"x", said.evidence + bytes(17)):
        assert verified(part._replace(evidence=evidence), ALICE) is None


@KINDS
@pytest.mark.parametrize("length", range(SIGNATURE_BYTES + 2 * STEP_BYTES))
def test_evidence_of_any_length_without_a_signature_is_rejected(part: Any, length: int) -> None:
    assert verified(part._replace(evidence=bytes(length)), ALICE) is None


@KINDS
def test_evidence_is_for_one_statement(part: Any) -> None:
    said, beside = attested(ALICE, part, part._replace(attribute="rain"))

    assert verified(said._replace(attribute="snow"), ALICE) is None
    assert verified(said._replace(id=ID._replace(number=3)), ALICE) is None
    assert verified(said._replace(evidence=beside.evidence), ALICE) is None


def test_refusals_and_other_messages_need_no_evidence() -> None:
    for part in (Admitted(ID, "surf", "no room"), Recorded(ID, "surf", True), Probe(1)):
        assert attested(ALICE, part) == [part]
        assert verified(part, ALICE) == part


def test_of_the_evidence_of_others_the_valid_one_is_left() -> None:
    recorded, of_another = attested(
        BOB, Recorded(ID, "surf", False), Recorded(ID._replace(number=9), "surf", False)
    )
    holders = (
        Holder(BOB.peer, recorded.evidence),
        Holder(MALLORY.peer, recorded.evidence),
        Holder(BOB.peer, of_another.evidence),
    )
    [said] = attested(ALICE, Admitted(ID, "surf", "", holders=holders))
    heard = verified(said, ALICE)

    assert isinstance(heard, Admitted)
    assert heard.holders == holders[:1]


def test_a_signature_for_another_purpose_is_no_evidence() -> None:
    content = held_bytes(ID, "surf")
    signature = Ed25519Signing(ALICE).sign_statement(lambda: content)
    assert verified(Recorded(ID, "surf", False, signature), ALICE) is None


# --- in a network ---


def tell(forest: Forest, receiver: int, sender: int, part: Part) -> None:
    """Have a node hear something, as it stands, from another."""
    contact = forest.contacts[sender]
    heard = Received(contact.peer, Bundle((part,)), contact.addresses)
    forest.do(receiver, forest.core(receiver).handle(heard, forest.clock(receiver)))


def announcement(**changes: Any) -> Announce:
    """What a node might announce."""
    said = Announce("surf", 1, 7, WHOLE, (Predicate.parse("surf"),), (), None, (), False)
    return said._replace(**changes)


def signature_of(forest: Forest, number: int) -> bytes:
    return StandInSigning(forest.contacts[number].peer).sign_statement(bytes)


def test_an_announcement_is_ignored_when_it_is_known_and_refused_when_it_is_of_before() -> None:
    forest = Forest(6)
    forest.subscribed(5, "surf")
    tell(forest, 0, 4, announcement())
    forest.run(SECOND)
    surf = (Predicate.parse("surf/price[1,2]"),)
    tell(forest, 0, 4, announcement(version=6, added=surf))
    tell(forest, 0, 4, announcement(added=surf))
    assert forest.children(0)[4] == ["surf"]
    assert forest.rejected(0) == {}

    tell(forest, 0, 4, announcement(incarnation=0, version=99, added=surf))
    assert forest.children(0)[4] == ["surf"]
    assert forest.rejected(0) == {"replay": 1}


def test_acknowledgements_of_others_confirm_nothing() -> None:
    forest = Forest(6)
    for number in (4, 5):
        forest.subscribed(number, "surf")
    forest.world.pause(forest.host(5), forest.world.now + MINUTE)
    id = forest.publish(3, "surf", wants_all=True)
    forest.run(SECOND)
    tell(forest, 0, 3, Confirm(id, "surf", NO_PEER))
    tell(forest, 3, 4, Completed(id, "surf"))

    assert 0 in forest.holders(id)
    assert not forest.is_confirmed(id)
    assert forest.rejected(0)[refusal_of(Confirm)] == 1
    assert forest.rejected(3)[refusal_of(Completed)] == 1
    forest.run(2 * MINUTE)
    assert forest.is_confirmed(id)


def test_a_forged_admission_publishes_nothing() -> None:
    forest = Forest(6)
    forest.run(SECOND)
    forest.cut(3, 0, 10 * SECOND)
    id = forest.publish(3, "surf")
    for forged in (
        Admitted(id, "surf", "", signature_of(forest, 0)),
        Admitted(id, "surf", "", b""),
    ):
        tell(forest, 3, 4, forged)
        forest.run(SECOND)  # The publisher's own lookup tells that the node may be the rendezvous.
    assert not forest.is_published(id)
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
        assert held.evidence == signature_of(forest, number)
