"""What happened, row by row, and a digest of all of it.

The digest is always taken: two runs are the same exactly when their digests are. Rows themselves
are kept only when somebody wants them.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

_ROWS_AT_ONCE = 4096


class Row(NamedTuple):
    """One thing that happened to one node."""

    at_us: int
    what: str
    node: int
    peer: int
    """The other node, or -1."""
    detail: str
    size: int


class Trace:
    """A digest over rows, and the rows if they are wanted."""

    def __init__(self, *, keep: bool = False) -> None:
        self.rows: list[Row] | None = [] if keep else None
        self._pending: list[str] = []
        self._hash = hashlib.sha256()

    def add(self, at: int, what: str, node: int, peer: int, detail: str, size: int) -> None:
        """Note one thing that happened."""
        self._pending.append(f"{at} {what} {node} {peer} {detail} {size}\n")
        if len(self._pending) >= _ROWS_AT_ONCE:
            self._flush()
        if self.rows is not None:
            self.rows.append(Row(at, what, node, peer, detail, size))

    def digest(self) -> str:
        """The digest of all rows so far."""
        self._flush()
        return self._hash.hexdigest()

    def _flush(self) -> None:
        self._hash.update("".join(self._pending).encode())
        self._pending.clear()
