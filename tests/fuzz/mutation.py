"""Changes bytes at random."""

from __future__ import annotations

from random import Random


def mutated(data: bytes, rng: Random) -> bytes:
    """Bytes with some changes."""
    changed = bytearray(data)
    for _ in range(rng.choice((0, 1, 1, 2, 4, 8))):
        at = rng.randrange(len(changed) + 1)
        match rng.randrange(5):
            case 0:
                changed[at : at + 1] = bytes([rng.choice((0, 1, 0x7F, 0x80, 0xFF))])
            case 1:
                changed[at:at] = rng.choice((b"\xff" * 9, b"\x80" * 20, rng.randbytes(4)))
            case 2:
                del changed[at : at + rng.randint(1, 8)]
            case 3:
                changed[at:at] = changed[at : at + rng.randint(1, 64)] * rng.randint(1, 3)
            case _:
                changed[at : at + 1] = bytes([rng.randrange(256)])
    return bytes(changed)
