"""Messages as they are sent: bundled for each peer, and long ones in fragments.

A receiver accepts messages up to a length, and a filter table may be longer. The sender divides
such a message into fragments, each of them the same message with a part of its lists, and the
receiver joins them before any component sees the message. If a fragment is lost, the sender
retransmits all of them under the same number, so the receiver needs only the missing ones.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from smartpubsub.kademlia.ledger import Ledger
from smartpubsub.protocols.scoutsubs.messages import (
    Announce,
    Bundle,
    ChildCopy,
    CopyTree,
    Part,
    Piece,
    Pulled,
    PulledOwn,
    entry_bytes,
    event_bytes_in,
    part_bytes,
    wire_bytes,
)
from smartpubsub.seam import Peer

FILTERS_PER_ENTRY = 100
"""A child with more filters than this is sent in several entries."""
ENTRIES_MAX = 10_000
"""How many entries one fragment may have; far below the limit of a receiver."""
FRAGMENT_COUNT_MAX = 256
NUMBER_BYTES = 6
INCOMPLETE_COUNT_MAX = 64
PER_PEER_MAX = 8
"""How many incomplete messages a node keeps, of all peers and of each."""
INCOMPLETE_BYTES_MAX = 64 << 20
INCOMPLETE_BYTES_OF_PEER_MAX = 16 << 20
"""The limits of their length on the wire."""
PARTS_MAX = 500
EVENT_BYTES_MAX = 1 << 20
"""How many messages, and bytes of events, one bundle may have; far below a receiver's limits."""

_LISTS: dict[type, tuple[str, ...]] = {
    Announce: ("added", "removed"),
    CopyTree: ("children", "gone"),
    Pulled: ("children", "records"),
    PulledOwn: ("trees",),
}


def bundles_of(queued: Iterable[Part], bytes_max: int) -> Iterator[Bundle]:
    """The bundles that carry some messages; each fragment begins a bundle."""
    bundle: list[Part] = []
    size = 0
    for message in queued:
        whole = type(message) not in _LISTS
        for part in (message,) if whole else fragments_of(message, bytes_max):
            added = event_bytes_in(part)
            size += added
            is_long = size > EVENT_BYTES_MAX or len(bundle) == PARTS_MAX
            if bundle and (is_long or isinstance(part, Piece)):
                yield Bundle(tuple(bundle))
                bundle, size = [], added
            bundle.append(part)
    yield Bundle(tuple(bundle))


def fragments_of(part: Part, bytes_max: int) -> list[Part]:
    """The message itself, or its fragments under a number that is a hash of its content."""
    names = _LISTS.get(type(part))
    if names is None:
        return [part]
    slices: list[dict[str, list[Any]]] = [{}]
    size = count = 0
    for name in names:
        for entry in _entries(getattr(part, name)):
            length = entry_bytes(entry)
            if count and (size + length > bytes_max or count == ENTRIES_MAX):
                slices.append({})
                size = count = 0
            slices[-1].setdefault(name, []).append(entry)
            size, count = size + length, count + 1
    if len(slices) == 1:
        return [part]
    number = int.from_bytes(hashlib.sha256(part_bytes(part)).digest()[:NUMBER_BYTES], "big")
    return [
        Piece(number, place, len(slices), _with_lists(part, names, each))
        for place, each in enumerate(slices)
    ]


def _with_lists(part: Any, names: Iterable[str], lists: dict[str, list[Any]]) -> Part:
    made: Part = part._replace(**{name: tuple(lists.get(name, ())) for name in names})
    return made


def _entries(many: Iterable[Any]) -> Iterator[Any]:
    """The entries of a list, long ones divided."""
    for entry in many:
        if isinstance(entry, ChildCopy):
            yield from _children(entry)
        elif type(entry) is tuple:  # A table: its name and its children.
            name, children = entry
            few = [(name, (child,)) for each in children for child in _children(each)]
            yield from few or [entry]
        else:
            yield entry


def _children(child: ChildCopy) -> Iterator[ChildCopy]:
    filters = child.filters
    for first in range(0, max(1, len(filters)), FILTERS_PER_ENTRY):
        yield child._replace(filters=filters[first : first + FILTERS_PER_ENTRY])


def joined(fragments: list[Any]) -> Part:
    """The message that fragments belong to."""
    names = _LISTS[type(fragments[0])]
    lists = {name: [e for each in fragments for e in getattr(each, name)] for name in names}
    if "children" in lists:
        lists["children"] = _joined_children(lists["children"])
    if "trees" in lists:
        trees: dict[str, list[ChildCopy]] = {}
        for name, children in lists["trees"]:
            trees.setdefault(name, []).extend(children)
        lists["trees"] = [(name, tuple(_joined_children(c))) for name, c in trees.items()]
    return _with_lists(fragments[0], names, lists)


def _joined_children(children: Iterable[ChildCopy]) -> list[ChildCopy]:
    joined: dict[Peer, list[ChildCopy]] = {}
    for child in children:
        joined.setdefault(child.contact.peer, []).append(child)
    return [
        some[-1]._replace(filters=tuple(f for child in some for f in child.filters))
        for some in joined.values()
    ]


@dataclass(slots=True)
class _Incomplete:
    count: int
    kind: type
    parts: dict[int, Part] = field(default_factory=dict)
    size: int = 0


class Reassembly:
    """The fragments that have arrived of incomplete messages, charged to their senders.

    Messages that are sent together may arrive interleaved, so each peer may have several.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._incomplete: dict[tuple[Peer, int], _Incomplete] = {}
        self._account = ledger.open("fragments", INCOMPLETE_BYTES_MAX, INCOMPLETE_BYTES_OF_PEER_MAX)

    def __len__(self) -> int:
        return len(self._incomplete)

    def on_fragment(self, peer: Peer, piece: Piece) -> Part | None:
        """Return the message if this was its last missing fragment."""
        number, place, count, part = piece
        if place >= count or count > FRAGMENT_COUNT_MAX or type(part) not in _LISTS:
            return None
        there = self._taken(peer, number)
        if there is None or (there.count, there.kind) != (count, type(part)):
            there = _Incomplete(count, type(part))
        if place not in there.parts:
            there.size += wire_bytes(Bundle((piece,)))
            there.parts[place] = part
        if len(there.parts) == count:
            return joined([there.parts[each] for each in range(count)])
        self._incomplete[peer, number] = there
        self._account.change(peer, there.size)
        self._make_room(peer)
        return None

    def _taken(self, peer: Peer, number: int) -> _Incomplete | None:
        there = self._incomplete.pop((peer, number), None)
        if there is not None:
            self._account.change(peer, -there.size)
        return there

    def _make_room(self, peer: Peer) -> None:
        """Evict the messages that have waited longest, first those of a peer with too many."""
        account = self._account
        own = [key for key in self._incomplete if key[0] == peer]
        while len(own) > PER_PEER_MAX or account.size_of(peer) > account.user_size_max:
            self._evict(*own.pop(0))
        if len(self._incomplete) > INCOMPLETE_COUNT_MAX:
            self._evict(*next(iter(self._incomplete)))
        while account.excess and (largest := account.largest()) is not None:
            self._evict(*next(key for key in self._incomplete if key[0] == largest))

    def _evict(self, peer: Peer, number: int) -> None:
        self._taken(peer, number)
        self._account.evicted += 1

    def check(self) -> None:
        """Assert the invariants: kept messages are incomplete, and within their limits."""
        assert len(self._incomplete) <= INCOMPLETE_COUNT_MAX
        assert self._account.size == sum(there.size for there in self._incomplete.values())
        assert not self._account.excess
        self._account.check()
        for there in self._incomplete.values():
            assert 0 < len(there.parts) < there.count
