"""Searching the boards of an attribute: all who keep it are asked, page by page.

The first lists all that it finds. The others are asked after it, and list something only if that is
not the same; so lists cost about as much as if there were one copy of a board.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from smartpubsub.kademlia.keys import Contact, key_of
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.fastdelivery.office import Office
from smartpubsub.protocols.fastdelivery.parts import (
    Answer,
    GroupId,
    Listed,
    Notice,
    Request,
    Search,
    digest_of,
)
from smartpubsub.protocols.fastdelivery.signatures import is_notice_signed
from smartpubsub.protocols.fastdelivery.told import SearchResult
from smartpubsub.seam import Peer

OnNotice = Callable[[Notice], None]


@dataclass(slots=True, eq=False)
class Inquiry:
    """One search, and who has answered."""

    attribute: str
    predicate: Predicate
    watch: Callable[[], Request] | None
    on_notice: OnNotice
    on_complete: Callable[[str], None]
    """Is told why somebody who keeps the board cannot say, or cannot tell later."""
    keepers: dict[Peer, bool] = field(default_factory=dict)
    """Who keeps the board, and whether each has answered."""
    first: Peer | None = None
    """Whose list the others' are compared with."""
    listed: dict[GroupId, None] = field(default_factory=dict)
    known: bytes = b""
    """The digest of that list, when it is there."""
    refused: dict[Peer, None] = field(default_factory=dict)
    """Who keeps the board and has no room for it, or for a search that lasts."""
    refusal: str = ""
    has_ended: bool = False
    """Whether nobody wants to know any more."""

    @property
    def problem(self) -> str:
        """Why what was asked for is not so.

        All have to know of a search that lasts, and what is on the board now one of them can say.
        """
        is_one_enough = self.watch is None and len(self.refused) < len(self.keepers)
        if not self.refused or is_one_enough:
            return ""
        return f"the board of {self.attribute!r} cannot be used: {self.refusal}; try again later"


class Searching:
    """The searches of this node."""

    def __init__(self, office: Office) -> None:
        self._office = office

    def search(self, predicate: Predicate, number: int) -> None:
        """Search once, and tell what was found."""
        found: dict[GroupId, Notice] = {}

        def on_notice(notice: Notice) -> None:
            found[notice.id] = notice

        def on_complete(problem: str) -> None:
            self._office.deliver(SearchResult(number, tuple(found.values()), problem))

        self.inquire(predicate, on_notice, on_complete)

    def inquire(
        self,
        predicate: Predicate,
        on_notice: OnNotice,
        on_complete: Callable[[str], None],
        watch: Callable[[], Request] | None = None,
    ) -> Inquiry:
        """Ask all who keep the board; if the search is to last, by a request that says so."""
        inquiry = Inquiry(self.attribute(predicate), predicate, watch, on_notice, on_complete)
        self._find(inquiry)
        return inquiry

    def attribute(self, predicate: Predicate) -> str:
        """The attribute whose board is asked: the one that lies closest to this node."""
        own = self._office.own.key
        return min(predicate.attributes, key=lambda name: key_of(name.encode()) ^ own)

    def _find(self, inquiry: Inquiry) -> None:
        name = inquiry.attribute.encode()
        self._office.finding.find(name, partial(self._ask_all, inquiry))

    def _ask_all(self, inquiry: Inquiry, keepers: list[Contact]) -> None:
        for keeper in keepers:
            if keeper.peer not in inquiry.keepers:
                inquiry.keepers[keeper.peer] = False
                if inquiry.known:
                    self._ask(inquiry, keeper.peer, None)
        if inquiry.first is None and inquiry.keepers:
            # Any of them, so that those who search at once do not all want the list of the same.
            inquiry.first = self._office.rng.choice(list(inquiry.keepers))
            self._ask(inquiry, inquiry.first, None)
        self._check(inquiry)

    def _compare(self, inquiry: Inquiry) -> None:
        """The first list is there: ask the others whether they would list the same."""
        inquiry.known = digest_of(inquiry.listed)
        for keeper, has_answered in list(inquiry.keepers.items()):
            if not has_answered:
                self._ask(inquiry, keeper, None)

    def _ask(self, inquiry: Inquiry, keeper: Peer, after: GroupId | None) -> None:
        if inquiry.has_ended:
            return
        watch = inquiry.watch() if inquiry.watch is not None else None
        self._office.ask(
            keeper,
            Search(inquiry.attribute, inquiry.predicate, watch, after, inquiry.known),
            partial(self._on_listed, inquiry, keeper),
            partial(self._on_silence, inquiry, keeper),
            tries_max=self._office.settings.board_tries_max,
        )

    def _on_listed(self, inquiry: Inquiry, keeper: Peer, part: Answer) -> None:
        if not isinstance(part, Listed) or inquiry.has_ended:
            return
        for notice in part.notices:
            if is_notice_signed(self._office, notice):
                if keeper == inquiry.first:
                    inquiry.listed[notice.id] = None
                inquiry.on_notice(notice)
            else:
                self._office.refusals["notices"] += 1
        if part.refusal:
            inquiry.refusal = part.refusal
            inquiry.refused[keeper] = None
        if part.is_more and part.notices:
            self._ask(inquiry, keeper, part.notices[-1].id)
        else:
            inquiry.keepers[keeper] = True
            if keeper == inquiry.first:
                self._compare(inquiry)
            self._ask_all(inquiry, self._office.trusted(part.closer))

    def _on_silence(self, inquiry: Inquiry, keeper: Peer) -> None:
        self._office.suspect(keeper)
        inquiry.keepers.pop(keeper, None)
        inquiry.refused.pop(keeper, None)
        if keeper == inquiry.first:
            inquiry.first, inquiry.listed = None, {}
        if not inquiry.has_ended:
            self._find(inquiry)  # Somebody else keeps the board in its place.

    def _check(self, inquiry: Inquiry) -> None:
        if all(inquiry.keepers.values()) and not inquiry.has_ended:
            inquiry.on_complete(inquiry.problem)
