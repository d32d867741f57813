"""Searches the directory of an attribute: all its keepers are asked, page by page.

The first keeper lists all groups that it finds. The others are asked afterwards, with a digest of
that list, and list groups only if theirs differs. So lists cost about as much as with one keeper.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random

from smartpubsub.kademlia.keys import Contact, key_of
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.fastdelivery.keepers import KeeperLookup
from smartpubsub.protocols.fastdelivery.messages import (
    Answer,
    GroupId,
    Listed,
    Notice,
    Request,
    Search,
    digest_of,
)
from smartpubsub.protocols.fastdelivery.news import SearchResult
from smartpubsub.protocols.fastdelivery.ports import FastComponent
from smartpubsub.seam import Peer

OnNotice = Callable[[Notice], None]


@dataclass(slots=True, eq=False)
class Inquiry:
    """One search, and which keepers have answered it."""

    attribute: str
    predicate: Predicate
    watch: Callable[[], Request] | None
    """Signs the request that makes it a standing search; None if it is done once."""
    on_notice: OnNotice
    on_complete: Callable[[str], None]
    """Is called with the problem of the search; "" if it has none."""
    keepers: dict[Peer, bool] = field(default_factory=dict)
    """The keepers of the directory, and whether each has answered."""
    first: Peer | None = None
    """The keeper whose list the others compare with theirs."""
    listed: dict[GroupId, None] = field(default_factory=dict)
    known: bytes = b""
    """The digest of the first keeper's list, once that is complete."""
    refused: dict[Peer, None] = field(default_factory=dict)
    """Keepers without room for the directory or for a standing search."""
    refusal: str = ""
    is_cancelled: bool = False

    @property
    def problem(self) -> str:
        """Why the search is not in force; "" if it is.

        A standing search needs all keepers. A search that is done once needs one.
        """
        is_one_enough = self.watch is None and len(self.refused) < len(self.keepers)
        if self.keepers and (not self.refused or is_one_enough):
            return ""
        reason = self.refusal if self.keepers else "no node that keeps it answers"
        return f"the directory of {self.attribute!r} cannot be used: {reason}; try again later"


@dataclass(eq=False)
class GroupSearch(FastComponent):
    """The searches of this node."""

    _keepers: KeeperLookup
    _rng: Random

    def search(self, predicate: Predicate, number: int) -> None:
        """Search once, and deliver a `SearchResult`."""
        found: dict[GroupId, Notice] = {}

        def on_notice(notice: Notice) -> None:
            found[notice.id] = notice

        def on_complete(problem: str) -> None:
            self._outbox.deliver(SearchResult(number, tuple(found.values()), problem))

        self.inquire(predicate, on_notice, on_complete)

    def inquire(
        self,
        predicate: Predicate,
        on_notice: OnNotice,
        on_complete: Callable[[str], None],
        watch: Callable[[], Request] | None = None,
    ) -> Inquiry:
        """Ask all keepers of the directory; with `watch` they remember the search."""
        inquiry = Inquiry(self._attribute(predicate), predicate, watch, on_notice, on_complete)
        self._find(inquiry)
        return inquiry

    def _attribute(self, predicate: Predicate) -> str:
        """Choose the attribute whose name is closest to this node."""
        own = self._own.key
        return min(predicate.attributes, key=lambda name: key_of(name.encode()) ^ own)

    def _find(self, inquiry: Inquiry) -> None:
        self._keepers.find(inquiry.attribute.encode(), partial(self._ask_all, inquiry))

    def _ask_all(self, inquiry: Inquiry, keepers: list[Contact]) -> None:
        for keeper in keepers:
            if keeper.peer not in inquiry.keepers:
                inquiry.keepers[keeper.peer] = False
                if inquiry.known:
                    self._ask(inquiry, keeper.peer, None)
        if inquiry.first is None and inquiry.keepers:
            # A random keeper, so that simultaneous searches do not all ask the same one for lists.
            inquiry.first = self._rng.choice(list(inquiry.keepers))
            self._ask(inquiry, inquiry.first, None)
        self._conclude(inquiry)

    def _compare(self, inquiry: Inquiry) -> None:
        """Ask the other keepers whether they would list the same groups as the first."""
        inquiry.known = digest_of(inquiry.listed)
        for keeper, has_answered in list(inquiry.keepers.items()):
            if not has_answered:
                self._ask(inquiry, keeper, None)

    def _ask(self, inquiry: Inquiry, keeper: Peer, after: GroupId | None) -> None:
        if inquiry.is_cancelled:
            return
        watch = inquiry.watch() if inquiry.watch is not None else None
        self._requests.ask(
            keeper,
            Search(inquiry.attribute, inquiry.predicate, watch, after, inquiry.known),
            partial(self._on_listed, inquiry, keeper),
            partial(self._on_failure, inquiry, keeper),
            tries_max=self._settings.directory_tries_max,
        )

    def _on_listed(self, inquiry: Inquiry, keeper: Peer, answer: Answer) -> None:
        if not isinstance(answer, Listed) or inquiry.is_cancelled:
            return
        for notice in answer.notices:
            if self._signatures.is_advertisement_signed(notice):
                if keeper == inquiry.first:
                    inquiry.listed[notice.id] = None
                inquiry.on_notice(notice)
            else:
                self._outbox.reject("advertisements")
        if answer.refusal:
            inquiry.refusal = answer.refusal
            inquiry.refused[keeper] = None
        if answer.is_more and answer.notices:
            self._ask(inquiry, keeper, answer.notices[-1].id)
        else:
            inquiry.keepers[keeper] = True
            if keeper == inquiry.first:
                self._compare(inquiry)
            self._ask_all(inquiry, self._keepers.trusted(answer.closer))

    def _on_failure(self, inquiry: Inquiry, keeper: Peer) -> None:
        self._keepers.suspect(keeper)
        inquiry.keepers.pop(keeper, None)
        inquiry.refused.pop(keeper, None)
        if keeper == inquiry.first:
            inquiry.first, inquiry.listed = None, {}
        if not inquiry.is_cancelled:
            self._find(inquiry)  # Another node keeps the directory in its place.

    def _conclude(self, inquiry: Inquiry) -> None:
        if all(inquiry.keepers.values()) and not inquiry.is_cancelled:
            inquiry.on_complete(inquiry.problem)
