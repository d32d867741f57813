"""Parts that are too long for one message, in pieces.

A receiver takes messages up to a length, and a summary or a table of children may be longer. Such
a part is said in pieces, each of them the same part with some of what its lists hold, and put
together again before anything is made of it. If one gets lost all are said again, as the part is,
under the same number: so each time more of them have come.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from smartpubsub.protocols.scoutsubs.messages import (
    Announce,
    ChildCopy,
    CopyTree,
    Part,
    Piece,
    Pulled,
    PulledOwn,
    entry_bytes,
    part_bytes,
)
from smartpubsub.seam import Peer

FILTERS_PER_ENTRY = 100
"""A child with more filters than these is told of in several entries."""
ENTRIES_MAX = 10_000
"""In one piece, and each at least as long as a filter; far below what a receiver takes."""
PIECE_COUNT_MAX = 256
NUMBER_BYTES = 6
INCOMPLETE_COUNT_MAX = 64
PER_PEER_MAX = 8
"""Of how many parts at a time pieces are kept that are not complete, and how many of one peer."""

_LISTS: dict[type, tuple[str, ...]] = {
    Announce: ("added", "removed"),
    CopyTree: ("children", "gone"),
    Pulled: ("children", "records"),
    PulledOwn: ("trees",),
}


def in_pieces(part: Part, bytes_max: int) -> list[Part]:
    """A part as it can be sent: itself, or pieces of it under a number that no others have."""
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
    """What a list holds, in entries that are short."""
    for entry in many:
        if isinstance(entry, ChildCopy):
            yield from _children(entry)
        elif type(entry) is tuple:  # A tree: its name and its children.
            name, children = entry
            few = [(name, (child,)) for each in children for child in _children(each)]
            yield from few or [entry]
        else:
            yield entry


def _children(child: ChildCopy) -> Iterator[ChildCopy]:
    filters = child.filters
    for first in range(0, max(1, len(filters)), FILTERS_PER_ENTRY):
        yield child._replace(filters=filters[first : first + FILTERS_PER_ENTRY])


def put_together(pieces: list[Any]) -> Part:
    """The part that pieces are of."""
    names = _LISTS[type(pieces[0])]
    lists = {name: [e for piece in pieces for e in getattr(piece, name)] for name in names}
    if "children" in lists:
        lists["children"] = _joined_children(lists["children"])
    if "trees" in lists:
        trees: dict[str, list[ChildCopy]] = {}
        for name, children in lists["trees"]:
            trees.setdefault(name, []).extend(children)
        lists["trees"] = [(name, tuple(_joined_children(c))) for name, c in trees.items()]
    return _with_lists(pieces[0], names, lists)


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
    parts: dict[int, Part] = field(default_factory=dict)


class Pieces:
    """Pieces that have come, until all are there; of each peer those of a few parts at a time.

    What is said at the same time may come mixed up, so it takes more than one.
    """

    def __init__(self) -> None:
        self._incomplete: dict[tuple[Peer, int], _Incomplete] = {}

    def __len__(self) -> int:
        return len(self._incomplete)

    def on_piece(self, peer: Peer, piece: Piece) -> Part | None:
        """The whole part, if this was the last piece that it lacked."""
        number, place, count, part = piece
        if place >= count or count > PIECE_COUNT_MAX or type(part) not in _LISTS:
            return None
        there = self._incomplete.pop((peer, number), None)
        if there is None or there.count != count:
            there = _Incomplete(count)
        there.parts[place] = part
        if len({type(each) for each in there.parts.values()}) > 1:
            return None
        if len(there.parts) == count:
            return put_together([there.parts[each] for each in range(count)])
        self._incomplete[peer, number] = there
        self._make_room(peer)
        return None

    def _make_room(self, peer: Peer) -> None:
        """Forget what was last added to longest ago, first of a peer that sends too much."""
        own = [key for key in self._incomplete if key[0] == peer]
        if len(own) > PER_PEER_MAX:
            del self._incomplete[own[0]]
        elif len(self._incomplete) > INCOMPLETE_COUNT_MAX:
            del self._incomplete[next(iter(self._incomplete))]
