"""The boards that a node keeps, and how others come to keep them too.

The f + 1 nodes closest to the attribute's name keep it. Owners and subscribers tell all of them;
and whoever keeps a board looks now and then whether somebody has come who ought to keep it too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from itertools import groupby
from typing import TypeVar

from smartpubsub.kademlia.keys import Contact, key_of
from smartpubsub.kademlia.settings import SECOND
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.fastdelivery.board import Board
from smartpubsub.protocols.fastdelivery.office import Office, never_mind
from smartpubsub.protocols.fastdelivery.parts import (
    Advertise,
    CopyBoard,
    Done,
    GroupId,
    Invite,
    Listed,
    Notice,
    Ping,
    Posted,
    Pull,
    Request,
    Search,
    Unwatch,
    Watched,
    Watchers,
    Working,
)
from smartpubsub.protocols.fastdelivery.shapes import finds
from smartpubsub.protocols.fastdelivery.signatures import is_notice_signed, is_request_signed
from smartpubsub.seam import Peer

K = TypeVar("K")
T = TypeVar("T")

NO_ROOM = "it has no room left"
"""What is said of a board that is full, or that a node has too many others to keep."""


class Boards:
    """The boards that this node keeps."""

    def __init__(self, office: Office) -> None:
        self._office = office
        self.boards: dict[str, Board] = {}
        self._listed: dict[tuple[Peer, int], int] = {}
        """Whose search was answered with a list, under which number, and until when that counts."""

    # --- what is asked ---

    def on_advertise(self, contact: Contact, number: int, part: Advertise) -> None:
        """An owner advertises a group; it is told who waits for one like it."""
        office = self._office
        board = self._board(part.attribute)
        if board is not None and board.pulling:
            board.early.append(partial(self.on_advertise, contact, number, part))
            return
        notice = part.notice
        if notice.contact.peer != contact.peer or not is_notice_signed(office, notice):
            office.refusals["notices"] += 1
            return
        if board is None or not self._has_room(board.notices, is_known=notice.id in board.notices):
            office.refusals["notices"] += 1
            office.answer(contact.peer, number, Watchers((), False, (), NO_ROOM))
            return
        board.post(notice, office.now + 2 * office.settings.renew_us)
        waiting = sorted(
            (
                Watched(request, _life_s(until, office.now))
                for (peer, predicate), (request, until) in board.watches.items()
                if peer > part.after and finds(predicate, notice.predicate)
            ),
            key=_who,
        )
        page, is_more = _page(waiting, _who, office.settings.page_count)
        closer = self._closer(part.attribute)
        office.answer(contact.peer, number, Watchers(page, is_more, closer))

    def on_search(self, contact: Contact, number: int, part: Search) -> None:
        """Somebody searches, once or until it says otherwise."""
        office, key = self._office, (contact.peer, number)
        if self._listed.get(key, office.now) > office.now:
            # Lists fill links where many search, and would only be longer under way if sent twice.
            office.answer(contact.peer, number, Working())
            return
        board = self._board(part.attribute)
        if board is not None and board.pulling:
            board.early.append(partial(self.on_search, contact, number, part))
            return
        if board is None:
            office.refusals["searches"] += 1
            office.answer(contact.peer, number, Listed((), False, (), NO_ROOM))
            return
        refusal = ""
        if part.watch is not None and not self._watch(board, contact.peer, part.watch):
            office.refusals["searches"] += 1
            if self._has_room(board.watches):
                return  # There is something wrong with it.
            refusal = NO_ROOM
        listing = board.listing(part.predicate)
        is_known = part.after_group is None and part.known == listing.digest
        count = 0 if is_known else office.settings.page_count
        page, is_more = listing.page(part.after_group, count)
        is_more = is_more and not is_known
        if page and len(self._listed) < office.settings.listed_count_max:
            self._listed[key] = office.now + office.settings.listed_us
        closer = self._closer(part.attribute)
        office.answer(contact.peer, number, Listed(page, is_more, closer, refusal))

    def on_unwatch(self, contact: Contact, number: int, part: Unwatch) -> None:
        """A search that lasted is over."""
        board = self.boards.get(part.attribute)
        if board is not None:
            board.watches.pop((contact.peer, part.predicate), None)
        self._office.answer(contact.peer, number, Done())

    def on_copy(self, contact: Contact, number: int, part: CopyBoard) -> None:
        """Somebody else who keeps a board says what is on it."""
        office = self._office
        board = self._board(part.attribute, pulls=False)
        if board is None:
            office.refusals["copies of boards"] += 1
            return
        board.copied_to[contact.peer] = None
        until = office.now + office.settings.find_us
        has_too, _ = board.posted_by.get(contact.peer, ({}, until))
        if len(board.posted_by) < 2 * office.settings.keeper_count:
            board.posted_by.setdefault(contact.peer, (has_too, until))
        for notice, life_s in part.posted:
            self._post_copy(board, notice, self._until(life_s), has_too)
        # Who has both has seen to it that they know of each other.
        unknown = [notice for id, (notice, _) in board.notices.items() if id not in has_too]
        for request, life_s in part.watched:
            peer = request.contact.peer
            before = len(board.watches)
            is_taken = self._watch(board, peer, request, self._until(life_s))
            if not is_taken:
                office.refusals["searches"] += 1
            elif len(board.watches) > before:
                self._introduce(unknown, [(peer, request.predicates[0])])
        office.answer(contact.peer, number, Done())

    def _post_copy(
        self, board: Board, notice: Notice, until: int, has_too: dict[GroupId, None]
    ) -> None:
        """Take a group that somebody else has on the board."""
        office, held = self._office, board.notices.get(notice.id)
        if held is not None and held[1] >= until:
            has_too[notice.id] = None
        elif not self._has_room(board.notices, is_known=held is not None):
            office.refusals["notices"] += 1
        elif is_notice_signed(office, notice):
            has_too[notice.id] = None
            board.post(notice, until)
            if held is None:
                self._introduce([notice], board.watches)

    def _until(self, life_s: int) -> int:
        office = self._office
        return office.now + min(life_s * SECOND, 2 * office.settings.renew_us)

    def _introduce(
        self, notices: Iterable[Notice], watches: Iterable[tuple[Peer, Predicate]]
    ) -> None:
        """A group and somebody who waits for it have come by different ways: tell the latter."""
        for notice in notices:
            for peer, predicate in watches:
                if finds(predicate, notice.predicate):
                    self._office.ask(peer, Invite(notice), lambda _: None)

    def _watch(self, board: Board, peer: Peer, request: Request, until: int | None = None) -> bool:
        """Take a search that lasts; False if it cannot be."""
        office = self._office
        if request.contact.peer != peer or len(request.predicates) != 1:
            return False
        key = (peer, request.predicates[0])
        held = board.watches.get(key)
        until = office.now + 2 * office.settings.renew_us if until is None else until
        if held is not None and held[0].version >= request.version and held[1] >= until:
            return True
        is_sound = is_request_signed(office, request)
        if not is_sound or not self._has_room(board.watches, is_known=held is not None):
            return False
        board.watches[key] = (request, until)
        return True

    def _closer(self, attribute: str) -> tuple[Contact, ...]:
        """Who ought to keep a board rather than this node, as far as it knows.

        Whoever looked for those who do may have missed somebody.
        """
        office, name = self._office, attribute.encode()
        own_distance = office.own.key ^ key_of(name)
        keepers = office.closest(name, office.settings.keeper_count)
        return tuple(c for c in keepers if c.key ^ key_of(name) < own_distance)

    def _board(self, attribute: str, *, pulls: bool = True) -> Board | None:
        board = self.boards.get(attribute)
        if board is None and len(self.boards) < self._office.settings.board_count_max:
            board = self.boards[attribute] = Board()
            if pulls:
                self._pull(attribute, board)
        return board

    # --- coming to keep a board ---

    def _pull(self, attribute: str, board: Board) -> None:
        """Ask those who may have kept a board until now, before anything is said of it."""
        office = self._office
        around = office.closest(attribute.encode(), 2 * office.settings.keeper_count)
        board.pulling = {c.peer: None for c in around if c.peer != office.own.peer}
        for peer in list(board.pulling):
            end = partial(self._on_pulled, board, peer)
            office.ask(peer, Pull(attribute), end, end)

    def _on_pulled(self, board: Board, peer: Peer, _: object = None) -> None:
        board.pulling.pop(peer, None)
        if not board.pulling:
            early, board.early = board.early, []
            for action in early:
                action()

    def on_pull(self, contact: Contact, number: int, part: Pull) -> None:
        """Somebody has come to keep a board: it is told what is on it."""
        office = self._office
        end = partial(office.answer, contact.peer, number, Done())
        board = self.boards.get(part.attribute)
        if board is None or not (board.notices or board.watches):
            end()
        else:
            self._copy(part.attribute, board, contact.peer, end)

    def _has_room(self, entries: dict[K, T], *, is_known: bool = False) -> bool:
        return is_known or len(entries) < self._office.settings.notice_count_max

    # --- upkeep ---

    def tick(self) -> None:
        """Forget what has lapsed, and see that enough nodes keep what has not."""
        office = self._office
        self._listed = {key: until for key, until in self._listed.items() if office.now < until}
        others: dict[Peer, None] = {}
        for attribute, board in list(self.boards.items()):
            board.forget(office.now)
            if board.is_empty:
                del self.boards[attribute]
                continue
            keepers = office.closest(attribute.encode(), office.settings.keeper_count)
            peers = {c.peer: None for c in keepers if c.peer != office.own.peer}
            board.copied_to = {peer: None for peer in board.copied_to if peer in peers}
            for peer in peers:
                if peer not in board.copied_to:
                    self._copy(attribute, board, peer)
            others |= peers
        for peer in others:  # Who does not answer is not chosen next time.
            office.ask(
                peer,
                Ping(),
                lambda _: None,
                partial(office.suspect, peer),
                tries_max=office.settings.board_tries_max,
            )

    def _copy(
        self,
        attribute: str,
        board: Board,
        peer: Peer,
        then: Callable[[], None] = never_mind,
    ) -> None:
        office = self._office
        posted = [
            Posted(notice, _life_s(until, office.now)) for notice, until in _entries(board.notices)
        ]
        watched = [
            Watched(request, _life_s(until, office.now))
            for request, until in _entries(board.watches)
        ]
        count = office.settings.page_count
        # All groups come before the searches, so that whoever gets these knows which have met.
        parts = [
            *(CopyBoard(attribute, page, ()) for page in _pages(posted, count)),
            *(CopyBoard(attribute, (), page) for page in _pages(watched, count)),
        ] or [CopyBoard(attribute, (), ())]
        left = dict.fromkeys(range(len(parts)))

        def on_copied(page: int, _: object) -> None:
            left.pop(page, None)
            if not left:
                board.copied_to[peer] = None
                then()

        for page, part in enumerate(parts):
            office.ask(peer, part, partial(on_copied, page))


def _page(entries: list[T], key: Callable[[T], object], count: int) -> tuple[tuple[T, ...], bool]:
    """The first so many entries, and whether there are more; those of equal keys go together."""
    taken: list[T] = []
    for _, equal in groupby(entries, key):
        if len(taken) >= count:
            return tuple(taken), True
        taken += equal
    return tuple(taken), False


def _who(watched: Watched) -> Peer:
    return watched.request.contact.peer


def _pages(entries: list[T], count: int) -> Iterable[tuple[T, ...]]:
    return (tuple(entries[at : at + count]) for at in range(0, len(entries), count))


def _entries(entries: dict[K, tuple[T, int]]) -> Iterable[tuple[T, int]]:
    return entries.values()


def _life_s(until: int, now: int) -> int:
    return max(1, (until - now) // SECOND)
