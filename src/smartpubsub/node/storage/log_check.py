"""Whether the log beside a SQLite file is damaged.

SQLite takes the first frame with a wrong checksum for the end of the log, because a power cut
leaves such a frame. So a flipped bit hides all later transactions, and SQLite reports no error. The
storage syncs the log after each transaction, so a power cut damages at most the last one. A log is
damaged if there is more than one commit from the first wrong frame on.

The format: https://www.sqlite.org/fileformat2.html#the_write_ahead_log
"""

from __future__ import annotations

import sys
from array import array
from pathlib import Path
from struct import Struct

_HEADER = Struct(">8I")
_FRAME = Struct(">6I")
_MAGIC = 0x377F0682
"""With the last bit set, checksums are of big-endian words."""
_MASK = (1 << 32) - 1
_WORD = "I" if array("I").itemsize == 4 else "L"


def has_lost_commits(path: Path) -> bool:
    """Whether a log has transactions after a damaged one."""
    with path.open("rb") as file:
        header = file.read(_HEADER.size)
        if len(header) < _HEADER.size:
            return False
        magic, _, page_bytes, _, *salts, first, second = _HEADER.unpack(header)
        is_big, before, commits = bool(magic & 1), (first, second), 0
        if magic & ~1 != _MAGIC or _checksum(header[:24], (0, 0), is_big=is_big) != before:
            return bool(file.read(1))  # SQLite reads nothing of it.
        is_damaged = False
        while len(frame := file.read(_FRAME.size + page_bytes)) == _FRAME.size + page_bytes:
            _, size, *frame_salts, first, second = _FRAME.unpack_from(frame)
            is_of_log = frame_salts == salts
            content = frame[:8] + frame[_FRAME.size :]
            is_right = is_of_log and _checksum(content, before, is_big=is_big) == (first, second)
            before = first, second
            is_first_wrong = not is_right and not is_damaged
            is_damaged |= is_first_wrong
            if is_damaged and size and is_of_log and (is_right or is_first_wrong):
                commits += 1
    return commits > 1


def _checksum(content: bytes, before: tuple[int, int], *, is_big: bool) -> tuple[int, int]:
    words = array(_WORD, content)
    if is_big != (sys.byteorder == "big"):
        words.byteswap()
    first, second = before
    pairs = iter(words)
    for even, odd in zip(pairs, pairs, strict=True):
        first = (first + even + second) & _MASK
        second = (second + odd + first) & _MASK
    return first, second
