"""A program that stores one group of changes after another until it is killed.

It writes the number of a group to its output when the storage says that the group is kept.
"""

import os
import sys
from itertools import count
from pathlib import Path
from random import Random

from smartpubsub.node.storage.store import SqliteStorage

KEPT_GROUPS = 20
PARTS = 8
LAST = b"last"


def group(number: int) -> list[tuple[bytes, bytes | None]]:
    """New entries, removals of old ones, and the number, in one group."""
    rng = Random(number)
    new = [(_key(number, part), rng.randbytes(rng.randrange(6_000))) for part in range(PARTS)]
    old = [(_key(number - KEPT_GROUPS, part), None) for part in range(PARTS)]
    return [*new, *old, (LAST, b"%d" % number)]


def _key(number: int, part: int) -> bytes:
    return b"group/%d/%d" % (number, part)


def write_for_ever(folder: Path) -> None:
    storage = SqliteStorage(folder)
    last = dict(storage.load(LAST)).get(LAST, b"0")
    for number in count(int(last) + 1):
        storage.apply(group(number))
        os.write(sys.stdout.fileno(), b"%d\n" % number)


if __name__ == "__main__":
    write_for_ever(Path(sys.argv[1]))
