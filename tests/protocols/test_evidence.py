"""Evidence: many statements under one signature, each verified alone."""

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from smartpubsub.protocols.evidence import (
    STATEMENTS_MAX,
    STEP_BYTES,
    Claim,
    ProvenTrees,
    claim_of,
    evidence_of,
)
from smartpubsub.protocols.publication import SIGNATURE_BYTES

PEER = b"peer"


def signature_of(content: bytes) -> bytes:
    return content[-8:].ljust(SIGNATURE_BYTES, b".")


def is_signed(claim: Claim) -> bool:
    return signature_of(claim.signed) == claim.signature


def counting(count: list[Claim]) -> Callable[[Claim], bool]:
    def verify(claim: Claim) -> bool:
        count.append(claim)
        return is_signed(claim)

    return verify


def test_a_signature_is_verified_once_for_all_its_statements() -> None:
    statements = [b"%d" % number for number in range(STATEMENTS_MAX + 5)]
    verified: list[Claim] = []
    trees = ProvenTrees()
    for statement, evidence in zip(statements, evidence_of(statements, signature_of), strict=True):
        assert trees.is_evidence(PEER, statement, evidence, counting(verified))
    assert len(verified) == 2


def test_evidence_counts_for_its_signer_alone() -> None:
    [evidence] = evidence_of([b"said"], signature_of)
    trees = ProvenTrees()
    assert trees.is_evidence(PEER, b"said", evidence, is_signed)
    assert not trees.is_evidence(b"other", b"said", evidence, lambda _: False)


changes = st.lists(
    st.tuples(st.integers(0, 12), st.integers(0, 7 * STEP_BYTES), st.integers(0, 255)),
    max_size=40,
)


@given(st.integers(1, 13), changes, st.data())
def test_it_finds_what_verifying_each_path_alone_finds(
    count: int, changes: list[tuple[int, int, int]], data: st.DataObject
) -> None:
    statements = [b"%d" % number for number in range(count)]
    genuine = evidence_of(statements, signature_of)
    trees = ProvenTrees()
    for number, place, byte in changes:
        statement, evidence = statements[number % count], bytearray(genuine[number % count])
        if place < len(evidence) - SIGNATURE_BYTES and data.draw(st.booleans()):
            evidence[SIGNATURE_BYTES + place] = byte
        cut = bytes(evidence[: len(evidence) - (byte % 3 if place % 5 == 0 else 0)])
        claim = claim_of(statement, cut)
        alone = claim is not None and is_signed(claim)
        assert trees.is_evidence(PEER, statement, cut, is_signed) == alone
