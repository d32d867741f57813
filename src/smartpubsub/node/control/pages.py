"""Many blocks in one text: each after its length, in four bytes, and all of it in base 64."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

_LENGTH_BYTES = 4


def joined(blocks: Iterable[bytes]) -> bytes:
    """Write blocks after each other."""
    parts: list[bytes] = []
    for block in blocks:
        parts += len(block).to_bytes(_LENGTH_BYTES, "big"), block
    return b"".join(parts)


def split(content: bytes) -> Iterator[bytes]:
    """Read the blocks."""
    start = 0
    while start < len(content):
        block = start + _LENGTH_BYTES
        start = block + int.from_bytes(content[start:block], "big")
        yield content[block:start]
