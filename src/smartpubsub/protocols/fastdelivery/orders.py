"""What the book of a group wants done."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from smartpubsub.seam import Peer


class Serve(NamedTuple):
    """A member has its place, a new one or as it now wants it: it can be told, and sent events."""

    peer: Peer


class TurnAway(NamedTuple):
    """There is no place for a new member."""

    peer: Peer


class AskToHelp(NamedTuple):
    """Ask a candidate whether it would serve so many."""

    peer: Peer
    term: int
    wanted: int


class HandOver(NamedTuple):
    """Tell a helper to serve members as they are now."""

    helper: Peer
    term: int
    peers: tuple[Peer, ...]


class TakeBack(NamedTuple):
    """Tell a helper to serve somebody no longer."""

    helper: Peer
    term: int
    peer: Peer


class Dismiss(NamedTuple):
    """Tell a helper that it is not needed any more."""

    helper: Peer
    term: int


class Overload(NamedTuple):
    """A region has more members than are served directly, and nobody in it can help."""

    region: str
    served: int


Order: TypeAlias = Serve | TurnAway | AskToHelp | HandOver | TakeBack | Dismiss | Overload
