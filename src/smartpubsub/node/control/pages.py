"""A page: the number of its blocks and their lengths, each in four bytes, and then the blocks."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import accumulate, pairwise

NUMBER = ">u4"
"""Big-endian numbers, in numpy's notation."""
NUMBER_BYTES = 4


def joined(blocks: Sequence[bytes]) -> bytes:
    """Write blocks as a page."""
    numbers = struct.pack(f">{len(blocks) + 1}I", len(blocks), *map(len, blocks))
    return b"".join((numbers, *blocks))


def split(content: bytes) -> list[bytes]:
    """Read the blocks of a page.

    >>> split(joined([b"a", b"", b"bc"]))
    [b'a', b'', b'bc']
    """
    count = int.from_bytes(content[:NUMBER_BYTES], "big")
    lengths = struct.unpack_from(f">{count}I", content, NUMBER_BYTES)
    bounds = accumulate(lengths, initial=NUMBER_BYTES * (count + 1))
    return [content[start:end] for start, end in pairwise(bounds)]
