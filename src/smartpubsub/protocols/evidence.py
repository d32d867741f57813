"""Evidence: statements of a node that any node can verify, many of them under one signature.

The node signs the root of a hash tree whose leaves are the statements. The evidence for one
statement is the signature and the path from the leaf to the root: for each level the node beside
it, after a byte that says on which side that is.

A node of the tree has 16 bytes. Whoever finds two statements with one hash could as well sign both;
to find a second statement for the hash of a given one takes 2^128 tries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import NamedTuple

from smartpubsub.protocols.publication import SIGNATURE_BYTES

HASH_BYTES = 16
STEP_BYTES = 1 + HASH_BYTES
STATEMENTS_MAX = 64
"""Under one signature, so that paths stay short."""
EVIDENCE_BYTES_MAX = SIGNATURE_BYTES + 16 * STEP_BYTES

_SIGNED_FIRST = b"smartpubsub-evidence:"
_LEAF, _INNER = b"\0", b"\1"
_LEFT, _RIGHT = b"\0", b"\1"


class Claim(NamedTuple):
    """What the signature in a piece of evidence has to be of."""

    signed: bytes
    signature: bytes


def evidence_of(statements: Sequence[bytes], sign: Callable[[bytes], bytes]) -> list[bytes]:
    """Sign statements, and return the evidence for each of them."""
    found: list[bytes] = []
    for first in range(0, len(statements), STATEMENTS_MAX):
        found += _evidence_of(statements[first : first + STATEMENTS_MAX], sign)
    return found


def _evidence_of(statements: Sequence[bytes], sign: Callable[[bytes], bytes]) -> list[bytes]:
    level = [_hash(_LEAF + statement) for statement in statements]
    paths = [b""] * len(level)
    places = list(range(len(level)))
    while len(level) > 1:
        for leaf, place in enumerate(places):
            beside = place ^ 1
            if beside < len(level):
                paths[leaf] += (_LEFT if place & 1 else _RIGHT) + level[beside]
            places[leaf] = place >> 1
        pairs = [level[at : at + 2] for at in range(0, len(level), 2)]
        level = [_hash(_INNER + b"".join(pair)) if pair[1:] else pair[0] for pair in pairs]
    signature = sign(_SIGNED_FIRST + level[0])
    return [signature + path for path in paths]


def path_bytes(count: int) -> list[int]:
    """The lengths of the paths of so many statements."""
    return [len(each) for each in evidence_of([b""] * count, lambda _: b"")]


def claim_of(statement: bytes, evidence: bytes) -> Claim | None:
    """What the signature has to be of, if the evidence is for this statement; None if malformed."""
    path = evidence[SIGNATURE_BYTES:]
    if len(path) % STEP_BYTES or len(evidence) > EVIDENCE_BYTES_MAX:
        return None
    node = _hash(_LEAF + statement)
    for at in range(0, len(path), STEP_BYTES):
        side, beside = path[at : at + 1], path[at + 1 : at + STEP_BYTES]
        if side not in (_LEFT, _RIGHT):
            return None
        node = _hash(_INNER + (beside + node if side == _LEFT else node + beside))
    return Claim(_SIGNED_FIRST + node, evidence[:SIGNATURE_BYTES])


def _hash(content: bytes) -> bytes:
    return sha256(content).digest()[:HASH_BYTES]
