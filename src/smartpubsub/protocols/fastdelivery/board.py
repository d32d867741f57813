"""One board: the groups that are advertised under an attribute, and searches that last."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from smartpubsub.predicates import Predicate
from smartpubsub.protocols.fastdelivery.parts import (
    GroupId,
    Notice,
    Request,
    digest_of,
    place_on_board,
)
from smartpubsub.protocols.fastdelivery.shapes import finds
from smartpubsub.seam import Peer

K = TypeVar("K")
T = TypeVar("T")

LISTING_COUNT_MAX = 100
"""So many searches are remembered with what they find; many search for the same."""


@dataclass(slots=True)
class Listing:
    """What a search finds on a board, in the order of the board."""

    notices: tuple[Notice, ...]
    _places: list[tuple[Peer, str]]
    digest: bytes

    def page(self, after: GroupId | None, count: int) -> tuple[tuple[Notice, ...], bool]:
        """So many groups from one on, and whether there are more."""
        start = 0 if after is None else bisect_right(self._places, place_on_board(after))
        end = start + count
        return self.notices[start:end], end < len(self.notices)


@dataclass(slots=True)
class Board:
    """What is known under one attribute; each entry with the time until which it is."""

    notices: dict[GroupId, tuple[Notice, int]] = field(default_factory=dict)
    watches: dict[tuple[Peer, Predicate], tuple[Request, int]] = field(default_factory=dict)
    copied_to: dict[Peer, None] = field(default_factory=dict)
    """Who else keeps it, as far as this node has seen to that."""
    posted_by: dict[Peer, tuple[dict[GroupId, None], int]] = field(default_factory=dict)
    """Which groups others who keep it have, as they have said a short while ago."""
    pulling: dict[Peer, None] = field(default_factory=dict)
    """Those who have not said yet what they have on it."""
    early: list[Callable[[], None]] = field(default_factory=list)
    """What was asked before they had."""
    _listings: dict[Predicate, Listing] = field(default_factory=dict)

    def post(self, notice: Notice, until: int) -> None:
        """Put a group on the board, or leave it there for longer."""
        held = self.notices.get(notice.id)
        if held is None or held[0] != notice:
            self._listings.clear()
        self.notices[notice.id] = (notice, until)

    def listing(self, searched: Predicate) -> Listing:
        """The groups that a search finds."""
        listing = self._listings.get(searched)
        if listing is None:
            found = {
                place_on_board(id): notice
                for id, (notice, _) in self.notices.items()
                if finds(searched, id.predicate)
            }
            places = sorted(found)
            notices = tuple(found[place] for place in places)
            listing = Listing(notices, places, digest_of(notice.id for notice in notices))
            if len(self._listings) >= LISTING_COUNT_MAX:
                self._listings.clear()
            self._listings[searched] = listing
        return listing

    def forget(self, now: int) -> None:
        """Forget what has lapsed."""
        count = len(self.notices)
        self.notices = _unexpired(self.notices, now)
        if len(self.notices) != count:
            self._listings.clear()
        self.watches = _unexpired(self.watches, now)
        self.posted_by = _unexpired(self.posted_by, now)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is on it, and nobody waits for it."""
        return not self.notices and not self.watches and not self.early


def _unexpired(entries: dict[K, tuple[T, int]], now: int) -> dict[K, tuple[T, int]]:
    return {key: entry for key, entry in entries.items() if now < entry[1]}
