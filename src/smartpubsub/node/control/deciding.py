"""Requests to join a group, about which a client of the node decides."""

from __future__ import annotations

import base64
from collections import deque
from typing import Any

import trio

from smartpubsub.node.api.listing import JoinRequest
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.runtime.bounded import BoundedDict

UNDECIDED_COUNT_MAX = 1_000
DECIDED_COUNT_MAX = 100_000
GONE = "the application that decides who may join is not running; try again later"
BUSY = "too many nodes want to join at once; try again"

_RequestKey = tuple[str, tuple[Predicate, ...], str, int]


class Deciding:
    """Asks a client about each request once, and remembers its decision."""

    def __init__(self) -> None:
        self.is_over = False
        """Whether the client is gone."""
        self._asked: BoundedDict[_RequestKey, int] = BoundedDict(UNDECIDED_COUNT_MAX)
        self._decided: BoundedDict[_RequestKey, str] = BoundedDict(DECIDED_COUNT_MAX)
        self._last_number = 0
        self._unsent: deque[dict[str, Any]] = deque()
        self._has_unsent = trio.Event()

    def accept(self, request: JoinRequest) -> str | None:
        """Decide about a request; None until the client has decided."""
        key = (request.peer_id, request.predicates, request.region, request.capacity)
        if key in self._decided:
            return self._decided[key]
        if self.is_over:
            return GONE
        if key not in self._asked:
            if len(self._asked) >= UNDECIDED_COUNT_MAX:
                return BUSY
            self._last_number += 1
            self._asked[key] = self._last_number
            self._unsent.append(_document(self._last_number, request))
            self._has_unsent.set()
        return None

    def decide(self, number: int, reply: str | None) -> None:
        """Record the client's decision; with None, the node asks it again."""
        for key, asked in list(self._asked.items()):
            if asked == number:
                del self._asked[key]
                if reply is not None:
                    self._decided[key] = reply

    async def next_asked(self) -> dict[str, Any]:
        """Wait for a request that the client has to decide about."""
        while not self._unsent:
            self._has_unsent = trio.Event()
            await self._has_unsent.wait()
        return self._unsent.popleft()


def _document(number: int, request: JoinRequest) -> dict[str, Any]:
    return {
        "number": number,
        "peer_id": request.peer_id,
        "predicates": [*map(str, request.predicates)],
        "region": request.region,
        "capacity": request.capacity,
        "signature": base64.b64encode(request.signature).decode(),
    }
