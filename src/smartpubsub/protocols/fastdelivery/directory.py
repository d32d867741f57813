"""The directories that a node keeps, and their copies on the other keepers.

The f + 1 nodes closest to an attribute's name keep its directory: the groups that are advertised
under the attribute, and the standing searches for groups that come later. Owners and subscribers
tell all keepers. Every keeper checks from time to time whether another node should keep the
directory too, and copies it there.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import TypeVar

from smartpubsub.kademlia.keys import Contact, key_of
from smartpubsub.kademlia.ledger import NO_USER, USER_SHARE, Account
from smartpubsub.kademlia.settings import SECOND
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.fastdelivery.component import FastComponent
from smartpubsub.protocols.fastdelivery.keepers import KeeperLookup
from smartpubsub.protocols.fastdelivery.messages import (
    Advertise,
    CopyDirectory,
    GroupId,
    Invite,
    Listed,
    Notice,
    Ping,
    Posted,
    PullDirectory,
    Request,
    RequestDone,
    Search,
    Unwatch,
    Watched,
    Watchers,
    Working,
    digest_of,
    place_in_directory,
)
from smartpubsub.protocols.fastdelivery.shapes import finds
from smartpubsub.protocols.runtime.requests import ignore_answer, ignore_failure
from smartpubsub.seam import Peer

K = TypeVar("K")
T = TypeVar("T")

NO_ROOM = "it has no room left"
"""The reason of a refusal when a directory is full, or when the node keeps too many."""

LISTING_COUNT_MAX = 100
"""How many search results a directory caches; many nodes search for the same predicate."""

EARLY_COUNT_MAX = 1_000
"""How many questions may wait until a directory is complete."""


@dataclass(slots=True)
class Listing:
    """The groups that a search finds in a directory, in the directory's order."""

    notices: tuple[Notice, ...]
    _places: list[tuple[Peer, str]]
    digest: bytes

    def page(self, after: GroupId | None, count: int) -> tuple[tuple[Notice, ...], bool]:
        """Return up to `count` groups after one, and whether there are more."""
        start = 0 if after is None else bisect_right(self._places, place_in_directory(after))
        end = start + count
        return self.notices[start:end], end < len(self.notices)


@dataclass(slots=True)
class Directory:
    """The directory of one attribute; each entry has the time at which it expires."""

    _account: Account
    """The entries of all directories, by the owner of the group or the searching peer."""
    maker: Peer = NO_USER
    """The peer whose question has made the directory; it counts as an entry of that peer."""
    notices: dict[GroupId, tuple[Notice, int]] = field(default_factory=dict)
    """The advertised groups."""
    watches: dict[tuple[Peer, Predicate], tuple[Request, int]] = field(default_factory=dict)
    """The standing searches."""
    copied_to: dict[Peer, None] = field(default_factory=dict)
    """Other keepers that have a copy."""
    posted_by: dict[Peer, tuple[dict[GroupId, None], int]] = field(default_factory=dict)
    """The groups that other keepers have sent recently."""
    pulling: dict[Peer, None] = field(default_factory=dict)
    """Peers that this node has asked for their entries, and that have not answered."""
    early: list[Callable[[], None]] = field(default_factory=list)
    """Questions that wait until these peers have answered."""
    _listings: dict[Predicate, Listing] = field(default_factory=dict)

    def post(self, notice: Notice, until: int) -> None:
        """Add a group, or extend its time."""
        held = self.notices.get(notice.id)
        if held is None or held[0] != notice:
            self._listings.clear()
        if held is None:
            self._account.change(notice.contact.peer, 1)
        self.notices[notice.id] = (notice, until)

    def watch(self, request: Request, until: int) -> None:
        """Add a standing search, or extend its time."""
        key = (request.contact.peer, request.predicates[0])
        if key not in self.watches:
            self._account.change(key[0], 1)
        self.watches[key] = (request, until)

    def unwatch(self, peer: Peer, predicate: Predicate) -> None:
        """Remove a standing search, if it is there."""
        if self.watches.pop((peer, predicate), None) is not None:
            self._account.change(peer, -1)

    def listing(self, searched: Predicate) -> Listing:
        """Return the groups that a search finds."""
        listing = self._listings.get(searched)
        if listing is None:
            found = {
                place_in_directory(id): notice
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

    def hold(self, question: Callable[[], None]) -> None:
        """Keep a question until `pulling` is empty; drop it if too many wait, as it is repeated."""
        if len(self.early) < EARLY_COUNT_MAX:
            self.early.append(question)

    def expire(self, now: int) -> None:
        """Remove entries that have expired."""
        for id in _expired(self.notices, now):
            del self.notices[id]
            self._account.change(id.owner, -1)
            self._listings.clear()
        for peer, predicate in _expired(self.watches, now):
            self.unwatch(peer, predicate)
        self.posted_by = _unexpired(self.posted_by, now)

    @property
    def is_empty(self) -> bool:
        """Whether it has no entry, and no question waits."""
        return not self.notices and not self.watches and not self.early


def _expired(entries: dict[K, tuple[T, int]], now: int) -> list[K]:
    return [key for key, entry in entries.items() if now >= entry[1]]


def _unexpired(entries: dict[K, tuple[T, int]], now: int) -> dict[K, tuple[T, int]]:
    return {key: entry for key, entry in entries.items() if now < entry[1]}


@dataclass(eq=False)
class GroupDirectory(FastComponent):
    """The directories that this node keeps."""

    _keepers: KeeperLookup

    def __post_init__(self) -> None:
        self.directories: dict[str, Directory] = {}
        """By attribute."""
        self._listed: dict[tuple[Peer, int], int] = {}
        """Searches that were answered with a list, and until when the list may be under way."""
        settings = self._settings
        self._account = self._ledger.open(
            "entries of directories",
            settings.entry_count_max,
            settings.directory_count_max // USER_SHARE,  # No peer may take all directories.
        )

    # --- questions ---

    def on_advertise(self, contact: Contact, number: int, question: Advertise) -> None:
        """Add a group, and tell its owner which searches wait for it."""
        directory = self._directory(question.attribute, contact.peer)
        if directory is not None and directory.pulling:
            directory.hold(partial(self.on_advertise, contact, number, question))
            return
        notice, peer = question.notice, contact.peer
        if not self._signatures.is_advertisement_signed(notice):
            self._outbox.reject("advertisements")
            return
        if directory is None or not self._has_room(
            directory.notices, peer, is_known=notice.id in directory.notices
        ):
            self._outbox.reject("advertisements")
            self._requests.answer(peer, number, Watchers((), False, (), NO_ROOM))
            return
        directory.post(notice, self._outbox.now + 2 * self._settings.renew_us)
        waiting = sorted(
            (
                Watched(request, self._life_s(until))
                for (watching, predicate), (request, until) in directory.watches.items()
                if watching > question.after and finds(predicate, notice.predicate)
            ),
            key=_watching_peer,
        )
        page, is_more = _page(waiting, _watching_peer, self._settings.page_count)
        closer = self._closer(question.attribute)
        self._requests.answer(peer, number, Watchers(page, is_more, closer))

    def on_search(self, contact: Contact, number: int, question: Search) -> None:
        """List the groups that a search finds; remember the search if it is a standing one."""
        now, peer, key = self._outbox.now, contact.peer, (contact.peer, number)
        if self._listed.get(key, now) > now:
            # If many nodes search, lists fill links; a second copy would only delay the first.
            self._requests.answer(peer, number, Working())
            return
        directory = self._directory(question.attribute, peer)
        if directory is not None and directory.pulling:
            directory.hold(partial(self.on_search, contact, number, question))
            return
        if directory is None:
            self._outbox.reject("searches")
            self._requests.answer(peer, number, Listed((), False, (), NO_ROOM))
            return
        refusal = ""
        if question.watch is not None and not self._watch(directory, peer, question.watch):
            self._outbox.reject("searches")
            if self._has_room(directory.watches, peer):
                return  # The request is malformed or not signed.
            refusal = NO_ROOM
        listing = directory.listing(question.predicate)
        is_known = question.after_group is None and question.known == listing.digest
        count = 0 if is_known else self._settings.page_count
        page, is_more = listing.page(question.after_group, count)
        is_more = is_more and not is_known
        if page and len(self._listed) < self._settings.listed_count_max:
            self._listed[key] = now + self._settings.listed_us
        closer = self._closer(question.attribute)
        self._requests.answer(peer, number, Listed(page, is_more, closer, refusal))

    def on_unwatch(self, contact: Contact, number: int, question: Unwatch) -> None:
        """Remove a standing search."""
        directory = self.directories.get(question.attribute)
        if directory is not None:
            directory.unwatch(contact.peer, question.predicate)
        self._requests.answer(contact.peer, number, RequestDone())

    def on_copy(self, contact: Contact, number: int, question: CopyDirectory) -> None:
        """Merge the entries of another keeper."""
        directory = self._directory(question.attribute, NO_USER, pulls=False)
        if directory is None:
            self._outbox.reject("directory copies")
            return
        directory.copied_to[contact.peer] = None
        until = self._outbox.now + self._settings.find_us
        has_too, _ = directory.posted_by.get(contact.peer, ({}, until))
        if len(directory.posted_by) < 2 * self._settings.keeper_count:
            directory.posted_by.setdefault(contact.peer, (has_too, until))
        for notice, life_s in question.posted:
            self._merge_group(directory, notice, self._until(life_s), has_too)
        # A keeper that has both a group and a search has introduced them to each other.
        unknown = [notice for id, (notice, _) in directory.notices.items() if id not in has_too]
        for request, life_s in question.watched:
            peer = request.contact.peer
            before = len(directory.watches)
            is_taken = self._watch(directory, peer, request, self._until(life_s))
            if not is_taken:
                self._outbox.reject("searches")
            elif len(directory.watches) > before:
                self._introduce(unknown, [(peer, request.predicates[0])])
        if directory.is_empty and not directory.pulling:
            self._remove(question.attribute)  # Copies count as no entries of their sender.
        self._requests.answer(contact.peer, number, RequestDone())

    def _remove(self, attribute: str) -> None:
        directory = self.directories.pop(attribute)
        if directory.maker != NO_USER:
            self._account.change(directory.maker, -1)

    def _merge_group(
        self, directory: Directory, notice: Notice, until: int, has_too: dict[GroupId, None]
    ) -> None:
        held = directory.notices.get(notice.id)
        if held is not None and held[1] >= until:
            has_too[notice.id] = None
        elif not self._has_room(directory.notices, notice.contact.peer, is_known=held is not None):
            self._outbox.reject("advertisements")
        elif self._signatures.is_advertisement_signed(notice):
            has_too[notice.id] = None
            directory.post(notice, until)
            if held is None:
                self._introduce([notice], directory.watches)

    def _introduce(
        self, notices: Iterable[Notice], watches: Iterable[tuple[Peer, Predicate]]
    ) -> None:
        """Tell subscribers of groups that reached this node by another path than their search."""
        for notice in notices:
            for peer, predicate in watches:
                if finds(predicate, notice.predicate):
                    self._requests.inform(peer, Invite(notice))

    def _watch(
        self, directory: Directory, peer: Peer, request: Request, until: int | None = None
    ) -> bool:
        """Add a standing search; False if it is not valid or there is no room."""
        if request.contact.peer != peer or len(request.predicates) != 1:
            return False
        key = (peer, request.predicates[0])
        held = directory.watches.get(key)
        until = self._outbox.now + 2 * self._settings.renew_us if until is None else until
        if held is not None and held[0].version >= request.version and held[1] >= until:
            return True
        is_signed = self._signatures.is_request_signed(request)
        if not is_signed or not self._has_room(directory.watches, peer, is_known=held is not None):
            return False
        directory.watch(request, until)
        return True

    def _closer(self, attribute: str) -> tuple[Contact, ...]:
        """Return peers that are closer to an attribute; the asking node may have missed them."""
        name = attribute.encode()
        own_distance = self._own.key ^ key_of(name)
        keepers = self._keepers.closest_nodes(name, self._settings.keeper_count)
        return tuple(c for c in keepers if c.key ^ key_of(name) < own_distance)

    def _directory(self, attribute: str, peer: Peer, *, pulls: bool = True) -> Directory | None:
        """The directory of an attribute; make it for a peer if that has room for one more entry."""
        directory = self.directories.get(attribute)
        if directory is None and self._has_room_for_directory(peer):
            directory = self.directories[attribute] = Directory(self._account, peer)
            if peer != NO_USER:
                self._account.change(peer, 1)
            if pulls and self._may_copy(attribute):
                self._pull(attribute, directory)
        return directory

    def _has_room_for_directory(self, peer: Peer) -> bool:
        is_possible = len(self.directories) < self._settings.directory_count_max
        # Copies come only from nodes close to the attribute.
        return is_possible and (peer == NO_USER or self._fits(peer))

    def _has_room(self, entries: dict[K, T], user: Peer, *, is_known: bool = False) -> bool:
        is_possible = len(entries) < self._settings.advertisement_count_max
        return is_known or (is_possible and self._fits(user))

    def _fits(self, user: Peer) -> bool:
        if self._account.fits(user, 1):
            return True
        self._account.refuse()
        return False

    def _until(self, life_s: int) -> int:
        return self._outbox.now + min(life_s * SECOND, 2 * self._settings.renew_us)

    def _life_s(self, until: int) -> int:
        return max(1, (until - self._outbox.now) // SECOND)

    # --- copies ---

    def _may_copy(self, attribute: str) -> bool:
        """Whether this node is close enough to an attribute to exchange copies of its directory."""
        closest = self._keepers.closest_nodes(attribute.encode(), self._settings.copying_count)
        return any(contact.peer == self._own.peer for contact in closest)

    def _pull(self, attribute: str, directory: Directory) -> None:
        """Ask the peers that may have kept a directory so far for their entries."""
        around = self._keepers.closest_nodes(attribute.encode(), self._settings.copying_count)
        directory.pulling = {c.peer: None for c in around if c.peer != self._own.peer}
        for peer in list(directory.pulling):
            end = partial(self._on_pulled, directory, peer)
            self._requests.ask(peer, PullDirectory(attribute), end, end)

    def _on_pulled(self, directory: Directory, peer: Peer, _: object = None) -> None:
        directory.pulling.pop(peer, None)
        if not directory.pulling:
            early, directory.early = directory.early, []
            for action in early:
                action()

    def on_pull(self, contact: Contact, number: int, question: PullDirectory) -> None:
        """Send a new keeper the entries of this node, then answer."""
        end = partial(self._requests.answer, contact.peer, number, RequestDone())
        directory = self.directories.get(question.attribute)
        if directory is None or not (directory.notices or directory.watches):
            end()
        else:
            self._copy(question.attribute, directory, contact.peer, end)

    def tick(self) -> None:
        """Remove expired entries, and copy the others to keepers that lack them."""
        now = self._outbox.now
        self._listed = {key: until for key, until in self._listed.items() if now < until}
        others: dict[Peer, None] = {}
        for attribute, directory in list(self.directories.items()):
            directory.expire(now)
            if directory.is_empty:
                self._remove(attribute)
                continue
            if not self._may_copy(attribute):
                continue  # Owners and subscribers have told its keepers too.
            keepers = self._keepers.closest_nodes(attribute.encode(), self._settings.keeper_count)
            peers = {c.peer: None for c in keepers if c.peer != self._own.peer}
            directory.copied_to = {peer: None for peer in directory.copied_to if peer in peers}
            for peer in peers:
                if peer not in directory.copied_to:
                    self._copy(attribute, directory, peer)
            others |= peers
        for peer in others:  # A keeper that does not answer is not chosen next time.
            self._requests.ask(
                peer,
                Ping(),
                ignore_answer,
                partial(self._keepers.suspect, peer),
                tries_max=self._settings.directory_tries_max,
            )

    def _copy(
        self,
        attribute: str,
        directory: Directory,
        peer: Peer,
        then: Callable[[], None] = ignore_failure,
    ) -> None:
        posted = [
            Posted(notice, self._life_s(until)) for notice, until in directory.notices.values()
        ]
        watched = [
            Watched(entry, self._life_s(until)) for entry, until in directory.watches.values()
        ]
        count = self._settings.page_count
        # Groups come before searches, so that the receiver knows which have been introduced.
        pages = [
            *(CopyDirectory(attribute, page, ()) for page in _pages(posted, count)),
            *(CopyDirectory(attribute, (), page) for page in _pages(watched, count)),
        ] or [CopyDirectory(attribute, (), ())]
        left = dict.fromkeys(range(len(pages)))

        def on_copied(page: int, _: object) -> None:
            left.pop(page, None)
            if not left:
                directory.copied_to[peer] = None
                then()

        for number, page in enumerate(pages):
            self._requests.ask(peer, page, partial(on_copied, number))

    def check(self) -> None:
        """Assert that directories are within their limits."""
        settings = self._settings
        assert len(self.directories) <= settings.directory_count_max
        assert len(self._listed) <= settings.listed_count_max
        self._account.check()
        for directory in self.directories.values():
            assert len(directory.notices) <= settings.advertisement_count_max
            assert len(directory.watches) <= settings.advertisement_count_max
            assert len(directory.posted_by) <= 2 * settings.keeper_count
            assert directory.pulling or not directory.early, "questions wait for no peer"


def _page(entries: list[T], key: Callable[[T], object], count: int) -> tuple[tuple[T, ...], bool]:
    """Return the first `count` entries and whether there are more; equal keys stay together."""
    taken: list[T] = []
    for _, equal in groupby(entries, key):
        if len(taken) >= count:
            return tuple(taken), True
        taken += equal
    return tuple(taken), False


def _watching_peer(watched: Watched) -> Peer:
    return watched.request.contact.peer


def _pages(entries: list[T], count: int) -> Iterable[tuple[T, ...]]:
    return (tuple(entries[at : at + count]) for at in range(0, len(entries), count))
