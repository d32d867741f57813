"""An event is taken only as its publisher signed it."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nacl.bindings import crypto_sign_open

from smartpubsub.node import signing as signing_module
from smartpubsub.node.identity import Identity
from smartpubsub.node.signing import Ed25519Signing, is_signed_event
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.baselines.messages import RpcLimits
from smartpubsub.protocols.event_messages import read_event
from smartpubsub.protocols.publication import (
    SIGNATURE_BYTES,
    EventId,
    Publication,
    Signing,
    UnsignedEvent,
)
from tests.protocols.strategies import signing_bytes

REPEATABLE = settings(deadline=None, database=None, derandomize=True)

ALICE = Identity.of(bytes(31) + b"a")
MALLORY = Identity.of(bytes(31) + b"m")
PREDICATE = Predicate.parse("surf/price[10,20]")
OTHER = Predicate.parse("surf/price[10,21]")
ID = EventId(ALICE.peer, 1, 2)

SIGNED = (
    b"libp2p-pubsub:"
    b"\x0a\x26" + ALICE.peer + b"\x12\x1a\x0a\x11surf/price[10,20]\x12\x05waves"
    b"\x1a\x08\0\0\0\x01\0\0\0\x02\x22\x0bsmartpubsub"
)
SIGNATURE = bytes.fromhex(
    "ebf796d7a97a0826c7f4942f2d555183eda9da1ad64b04a2ca2cb894fe74c2a7"
    "c60ccaf8c17c565d8950c452acaba685270adbdd78f080cc61c48a3ee622650b"
)
"""Made by OpenSSL."""

# An Ed25519 key of small order: without a check of keys, signatures of zeros are valid for some.
SMALL_ORDER_PEER = ALICE.peer[:6] + b"\x01" + bytes(31)


def signed(
    signing: Signing, predicate: Predicate = PREDICATE, payload: bytes = b"waves"
) -> Publication:
    return Publication.of(ID, predicate, payload, signing.sign(ID, predicate, payload))


def test_what_is_signed_is_what_libp2p_signs() -> None:
    assert signing_bytes(ID, PREDICATE, b"waves") == SIGNED


def test_a_signature_is_always_the_same() -> None:
    assert Ed25519Signing(ALICE).sign(ID, PREDICATE, b"waves") == SIGNATURE


def test_everybody_can_check_a_signature() -> None:
    event = signed(Ed25519Signing(ALICE))

    assert Ed25519Signing(ALICE).is_signed(event)
    assert Ed25519Signing(MALLORY).is_signed(event)
    assert Ed25519Signing(MALLORY).is_signed(read_event(event.encoded, RpcLimits()))


CHANGES: list[Callable[[Publication], Publication]] = [
    lambda event: event._replace(payload=b"calm"),
    lambda event: event._replace(payload=b""),
    lambda event: event._replace(predicate=OTHER),
    lambda event: event._replace(id=event.id._replace(number=3)),
    lambda event: event._replace(id=event.id._replace(incarnation=2)),
    lambda event: event._replace(id=event.id._replace(publisher=MALLORY.peer)),
    lambda event: event._replace(id=event.id._replace(publisher=b"somebody")),
    lambda event: event._replace(id=event.id._replace(publisher=ALICE.peer + b"\0")),
    lambda event: event._replace(id=event.id._replace(publisher=SMALL_ORDER_PEER)),
    lambda event: event._replace(signature=b""),
    lambda event: event._replace(signature=event.signature[:-1]),
    lambda event: event._replace(signature=event.signature + b"\0"),
    lambda event: event._replace(signature=bytes(64)),
    lambda event: event._replace(
        signature=Ed25519Signing(MALLORY).sign(event.id, event.predicate, event.payload)
    ),
]


@pytest.mark.parametrize("changed", CHANGES)
@pytest.mark.parametrize("is_known", [False, True])
def test_a_changed_event_is_refused(
    changed: Callable[[Publication], Publication], is_known: bool
) -> None:
    event = signed(Ed25519Signing(ALICE))
    signing = Ed25519Signing(MALLORY)
    if is_known:
        assert signing.is_signed(event)

    assert not signing.is_signed(changed(event))
    assert signing.is_signed(event)


def unsigned_of(count: int) -> list[UnsignedEvent]:
    return [
        UnsignedEvent(EventId(ALICE.peer, 1, number), PREDICATE, b"waves", 5)
        for number in range(1, count + 1)
    ]


def events_of(unsigned: list[UnsignedEvent]) -> list[Publication]:
    signatures = Ed25519Signing(ALICE).sign_all(unsigned)
    return [event.signed(each) for event, each in zip(unsigned, signatures, strict=True)]


@pytest.mark.parametrize("count", [1, 2, 3, 63, 64, 65, 130])
def test_everybody_can_check_events_that_were_signed_together(count: int) -> None:
    events = events_of(unsigned_of(count))
    witness = Ed25519Signing(MALLORY)

    assert all(map(is_signed_event, events))
    for event in (*events, *events):
        assert witness.is_signed(read_event(event.encoded, RpcLimits()))


def test_an_event_that_is_signed_alone_has_the_signature_of_libp2p() -> None:
    [event] = unsigned_of(1)
    *_, alone = events_of(unsigned_of(65))

    assert events_of([event])[0].signature == Ed25519Signing(ALICE).sign(*event)
    assert len(alone.signature) == SIGNATURE_BYTES


def test_one_signature_is_verified_for_events_that_were_signed_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    verified: list[bytes] = []

    def counting(signed: bytes, key: bytes) -> bytes:
        verified.append(signed)
        return crypto_sign_open(signed, key)

    events = events_of(unsigned_of(50))
    monkeypatch.setattr(signing_module, "crypto_sign_open", counting)
    witness = Ed25519Signing(MALLORY)

    assert all(map(witness.is_signed, reversed(events)))
    assert len(verified) == 1


@pytest.mark.parametrize("changed", [*CHANGES, lambda event: event._replace(created_us=6)])
@pytest.mark.parametrize("is_known", [False, True])
def test_a_changed_event_of_those_that_were_signed_together_is_refused(
    changed: Callable[[Publication], Publication], is_known: bool
) -> None:
    one, other, *_ = events_of(unsigned_of(5))
    witness = Ed25519Signing(MALLORY)
    if is_known:
        assert witness.is_signed(one)
        assert witness.is_signed(other)

    for forged in (changed(one), other._replace(signature=one.signature)):
        # The parts are not made anew when a field is replaced.
        forged = Publication.of(*forged[:4], forged.created_us)
        assert not witness.is_signed(forged)
        assert not is_signed_event(forged)
    assert witness.is_signed(one)


def test_a_statement_of_a_node_is_no_event_of_it() -> None:
    event, other = unsigned_of(2)
    signing = Ed25519Signing(ALICE)
    evidence = signing.sign_statements([lambda: event.encoded, lambda: other.encoded])

    assert not Ed25519Signing(MALLORY).is_signed(event.signed(evidence[0]))


def test_a_key_of_small_order_signs_nothing() -> None:
    event = Publication.of(
        ID._replace(publisher=SMALL_ORDER_PEER), PREDICATE, b"", b"\x01" + bytes(63)
    )

    assert not Ed25519Signing(ALICE).is_signed(event)


@settings(REPEATABLE)
@given(st.integers(0, 511))
def test_any_flipped_bit_of_a_signature_shows(bit: int) -> None:
    signing = Ed25519Signing(ALICE)
    event = signed(signing)
    flipped = int.from_bytes(event.signature, "big") ^ 1 << bit

    assert not signing.is_signed(event._replace(signature=flipped.to_bytes(64, "big")))


@settings(REPEATABLE)
@given(st.binary(max_size=60), st.binary(max_size=70), st.binary(max_size=10))
def test_garbage_is_not_signed(publisher: bytes, signature: bytes, payload: bytes) -> None:
    event = Publication.of(EventId(publisher, 0, 0), PREDICATE, payload, signature)

    assert not Ed25519Signing(ALICE).is_signed(event)


def copy_of(event: Publication) -> Publication:
    return Publication.of(*event[:4], event.created_us)


def test_those_that_come_again_are_remembered_and_few_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[bytes] = []

    def opened(signed: bytes, key: bytes) -> bytes:
        asked.append(key)
        return crypto_sign_open(signed, key)

    monkeypatch.setattr(signing_module, "crypto_sign_open", opened)
    alice = Ed25519Signing(ALICE)
    signing = Ed25519Signing(MALLORY, verified_count_max=3)
    events = [signed(alice, payload=b"%d" % number) for number in range(10)]

    for event in events:
        assert signing.is_signed(copy_of(event))
        assert signing.is_signed(copy_of(events[0]))
    assert len(asked) == len(events)

    assert signing.is_signed(copy_of(events[1]))
    assert len(asked) == len(events) + 1


def test_an_event_that_one_node_has_verified_is_not_verified_for_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    event = copy_of(signed(Ed25519Signing(ALICE)))
    assert Ed25519Signing(MALLORY).is_signed(event)
    monkeypatch.setattr(signing_module, "is_signature", lambda *_: False)

    assert not Ed25519Signing(MALLORY).is_signed(event)


def test_what_was_refused_is_not_remembered() -> None:
    signing = Ed25519Signing(MALLORY)
    forged = signed(Ed25519Signing(ALICE))._replace(payload=b"forged")

    assert not signing.is_signed(forged)
    assert not signing.is_signed(forged)
    assert len(signing._verified) == 0


def test_own_evidence_counts_for_what_it_was_made_for_only() -> None:
    signing = Ed25519Signing(ALICE, verified_count_max=4)
    made = signing.sign_statements([lambda: b"first", lambda: b"second"])
    assert signing.is_evidence(ALICE.peer, lambda: b"second", made[1])
    assert not signing.is_evidence(ALICE.peer, lambda: b"first", made[1])
    assert not signing.is_evidence(MALLORY.peer, lambda: b"second", made[1])
    signing.sign_statements([lambda: b"third", lambda: b"fourth"])
    assert len(signing._own_evidence) == 2
    assert signing.is_evidence(ALICE.peer, lambda: b"second", made[1])
