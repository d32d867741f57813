"""The client of directories: advertises groups in them, and searches them for groups.

The client asks all keepers of an attribute's directory, page by page. If one does not answer, the
client looks the keepers up again. An answer also names closer keepers that the client has missed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random

from smartpubsub.kademlia.keys import Contact, key_of
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.fastdelivery.component import FastComponent
from smartpubsub.protocols.fastdelivery.keepers import KeeperLookup
from smartpubsub.protocols.fastdelivery.messages import (
    Advertise,
    Answer,
    GroupId,
    Listed,
    Notice,
    Request,
    Search,
    Watched,
    Watchers,
    digest_of,
    place_in_directory,
)
from smartpubsub.protocols.fastdelivery.results import SearchResult
from smartpubsub.seam import Peer

PAGES_MAX = 10_000
"""The answers of one keeper to one search or advertisement."""

OnNotice = Callable[[Notice], None]
OnWatchers = Callable[[Notice, Sequence[Watched]], None]
"""Called with standing searches that find the group."""
OnComplete = Callable[[str], None]
"""Called when all keepers have answered, with the problem; "" if there is none."""


@dataclass(slots=True, eq=False)
class _AdvertisingRound:
    """One advertisement of a group to all keepers, and which of them have answered."""

    notice: Notice
    on_watchers: OnWatchers
    on_advertised: OnComplete
    keepers: dict[str, dict[Peer, bool]] = field(default_factory=dict)
    """The keepers of each attribute that were found, and whether each has answered."""
    refused: dict[str, dict[Peer, str]] = field(default_factory=dict)
    """Keepers that have not taken the advertisement, and why."""
    pages: Counter[Peer] = field(default_factory=Counter)
    """How many answers each keeper has given."""

    @property
    def problem(self) -> str:
        """Why a search may not find the group; "" if every directory has it."""
        for attribute, keepers in self.keepers.items():
            refused = self.refused.get(attribute, {})
            if len(refused) == len(keepers):
                reason = next(iter(refused.values()), "no node that keeps it answers")
                return (
                    f"it is not in the directory of {attribute!r}: {reason}; nodes that know its"
                    " owner can join it, and it is advertised again before long"
                )
        return ""

    @property
    def is_complete(self) -> bool:
        return all(
            attribute in self.keepers and all(self.keepers[attribute].values())
            for attribute in self.notice.predicate.attributes
        )


@dataclass(eq=False)
class GroupAdvertiser(FastComponent):
    """Puts groups into the directories of all attributes of their predicates."""

    _keepers: KeeperLookup

    def advertise(
        self, predicate: Predicate, on_watchers: OnWatchers, on_advertised: OnComplete
    ) -> None:
        """Put a group into all its directories, and learn which searches wait for it."""
        notice = self._signatures.advertisement(predicate)
        advertising = _AdvertisingRound(notice, on_watchers, on_advertised)
        for attribute in predicate.attributes:
            self._find(advertising, attribute)

    def _find(self, advertising: _AdvertisingRound, attribute: str) -> None:
        self._keepers.find(attribute.encode(), partial(self._advertise_to, advertising, attribute))

    def _advertise_to(
        self, advertising: _AdvertisingRound, attribute: str, keepers: list[Contact]
    ) -> None:
        known = advertising.keepers.setdefault(attribute, {})
        for keeper in keepers:
            if keeper.peer not in known:
                known[keeper.peer] = False
                self._ask(advertising, attribute, keeper.peer, b"")
        if advertising.is_complete:
            advertising.on_advertised(advertising.problem)

    def _ask(
        self, advertising: _AdvertisingRound, attribute: str, keeper: Peer, after: Peer
    ) -> None:
        self._requests.ask(
            keeper,
            Advertise(attribute, advertising.notice, after),
            partial(self._on_watchers, advertising, attribute, keeper, after),
            partial(self._on_failure, advertising, attribute, keeper),
            tries_max=self._settings.directory_tries_max,
        )

    def _on_watchers(
        self,
        advertising: _AdvertisingRound,
        attribute: str,
        keeper: Peer,
        after: Peer,
        answer: Answer,
    ) -> None:
        if not isinstance(answer, Watchers):
            return
        if answer.refusal:
            advertising.refused.setdefault(attribute, {})[keeper] = answer.refusal
        advertising.on_watchers(advertising.notice, answer.watched)
        advertising.pages[keeper] += 1
        last = answer.watched[-1].request.contact.peer if answer.watched else b""
        if answer.is_more and last > after and advertising.pages[keeper] < PAGES_MAX:
            self._ask(advertising, attribute, keeper, last)
        else:
            advertising.keepers[attribute][keeper] = True
            closer = self._keepers.closer(attribute, keeper, answer.closer)
            self._advertise_to(advertising, attribute, closer)

    def _on_failure(self, advertising: _AdvertisingRound, attribute: str, keeper: Peer) -> None:
        self._keepers.suspect(keeper)
        del advertising.keepers[attribute][keeper]
        advertising.refused.get(attribute, {}).pop(keeper, None)
        self._find(advertising, attribute)  # Another node keeps the directory in its place.


@dataclass(slots=True, eq=False)
class Inquiry:
    """One search, and which keepers have answered it.

    The node asks a first keeper for all groups, then the others with a digest of that list. They
    list groups only if theirs differ. So lists cost about as much as with one keeper.
    """

    attribute: str
    predicate: Predicate
    watch: Callable[[], Request] | None
    """Signs the request that makes it a standing search; None if it is done once."""
    on_notice: OnNotice
    on_complete: OnComplete
    keepers: dict[Peer, bool] = field(default_factory=dict)
    """The keepers of the directory, and whether each has answered."""
    first: Peer | None = None
    """The keeper whose list the others compare with theirs."""
    listed: dict[GroupId, None] = field(default_factory=dict)
    known: bytes = b""
    """The digest of the first keeper's list, once that is complete."""
    refused: dict[Peer, str] = field(default_factory=dict)
    """Keepers without room for the directory or for a standing search, and what they say."""
    pages: Counter[Peer] = field(default_factory=Counter)
    """How many answers each keeper has given."""
    is_cancelled: bool = False

    @property
    def problem(self) -> str:
        """Why the search is not in force; "" if it is.

        A standing search needs all keepers. A search that is done once needs one.
        """
        is_one_enough = self.watch is None and len(self.refused) < len(self.keepers)
        if self.keepers and (not self.refused or is_one_enough):
            return ""
        reason = next(iter(self.refused.values()), "no node that keeps it answers")
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
        on_complete: OnComplete,
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
            partial(self._on_listed, inquiry, keeper, after),
            partial(self._on_failure, inquiry, keeper),
            tries_max=self._settings.directory_tries_max,
        )

    def _on_listed(
        self, inquiry: Inquiry, keeper: Peer, after: GroupId | None, answer: Answer
    ) -> None:
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
            inquiry.refused[keeper] = answer.refusal
        inquiry.pages[keeper] += 1
        last = answer.notices[-1].id if answer.notices else None
        advances = last is not None and (
            after is None or place_in_directory(last) > place_in_directory(after)
        )
        if answer.is_more and advances and inquiry.pages[keeper] < PAGES_MAX:
            self._ask(inquiry, keeper, last)
        else:
            inquiry.keepers[keeper] = True
            if keeper == inquiry.first:
                self._compare(inquiry)
            self._ask_all(inquiry, self._keepers.closer(inquiry.attribute, keeper, answer.closer))

    def _on_failure(self, inquiry: Inquiry, keeper: Peer) -> None:
        self._keepers.suspect(keeper)
        inquiry.keepers.pop(keeper, None)
        inquiry.refused.pop(keeper, None)
        if keeper == inquiry.first:
            inquiry.first, inquiry.listed = None, {}
        if not inquiry.is_cancelled:
            self._find(inquiry)  # Another node keeps the directory in its place.

    def cancel(self, inquiry: Inquiry) -> None:
        """End a search: ask no more keepers, and ignore answers.

        Pending questions are still repeated.
        """
        inquiry.is_cancelled = True

    def _conclude(self, inquiry: Inquiry) -> None:
        if all(inquiry.keepers.values()) and not inquiry.is_cancelled:
            inquiry.on_complete(inquiry.problem)
