"""Evidence: statements of a node that any node can verify, many of them under one signature.

The signer signs the root of a Merkle tree whose leaves are the statements. The evidence for one
statement is the signature and the path from the leaf to the root: the sibling hash of each level,
after a byte that says on which side it is.

Hashes have 16 bytes. Collisions do not matter, because a signer could as well sign both statements;
a second statement for the hash of a given one takes 2^128 tries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import NamedTuple

from smartpubsub.protocols.publication import SIGNATURE_BYTES
from smartpubsub.protocols.runtime.bounded import BoundedDict
from smartpubsub.seam import Peer

HASH_BYTES = 16
STEP_BYTES = 1 + HASH_BYTES
STATEMENTS_MAX = 64
"""Under one signature, so that paths stay short."""
EVIDENCE_BYTES_MAX = SIGNATURE_BYTES + 16 * STEP_BYTES
RANGE_BYTES = 8
"""The length of the range of events that may follow the evidence for a statement about several."""
_TREE_COUNT_MAX = 256
_NODE_COUNT_MAX = 2 * STATEMENTS_MAX
"""How many verified trees, and hashes of each, are cached."""
_NOTHING: dict[bytes, bytes] = {}

_SIGNED_FIRST = b"smartpubsub-evidence:"
_LEAF, _INNER = b"\0", b"\1"
_LEFT, _RIGHT = b"\0", b"\1"


class Claim(NamedTuple):
    """The bytes that the signature in a piece of evidence has to sign, and the signature."""

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
    """The lengths of the paths of this many statements."""
    return [len(each) for each in evidence_of([b""] * count, lambda _: b"")]


def claim_of(statement: bytes, evidence: bytes) -> Claim | None:
    """The claim of evidence for a statement; None if the evidence is malformed."""
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


class ProvenTrees:
    """Verifies evidence, each signature once and each hash of its tree once.

    A path also proves its sibling hashes, so most statements take one or two hash computations.
    """

    def __init__(self) -> None:
        self._trees: BoundedDict[tuple[Peer, bytes], dict[bytes, bytes]] = BoundedDict(
            _TREE_COUNT_MAX
        )
        """By signer and signature: the proven hashes of the tree, each with its path."""

    def is_evidence(
        self, peer: Peer, statement: bytes, evidence: bytes, is_signed: Callable[[Claim], bool]
    ) -> bool:
        """Whether a peer has signed evidence for a statement; `is_signed` verifies a signature."""
        signature, path = evidence[:SIGNATURE_BYTES], evidence[SIGNATURE_BYTES:]
        proven = self._trees.get((peer, signature), _NOTHING)
        node = _hash(_LEAF + statement)
        found: dict[bytes, bytes] = {}
        while proven.get(node) != path:
            if not path:
                if not is_signed(Claim(_SIGNED_FIRST + node, signature)):
                    return False
                proven = self._trees[peer, signature] = {node: b""}
                break
            side, beside, rest = path[:1], path[1:STEP_BYTES], path[STEP_BYTES:]
            if len(beside) != HASH_BYTES or len(evidence) > EVIDENCE_BYTES_MAX:
                return False
            found[node] = path
            if side == _LEFT:
                found[beside] = _RIGHT + node + rest
                node = _hash(_INNER + beside + node)
            elif side == _RIGHT:
                found[beside] = _LEFT + node + rest
                node = _hash(_INNER + node + beside)
            else:
                return False
            path = rest
        if found and len(proven) < _NODE_COUNT_MAX:
            proven |= found
        return True


def _hash(content: bytes) -> bytes:
    return sha256(content).digest()[:HASH_BYTES]
