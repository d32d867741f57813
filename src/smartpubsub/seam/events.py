"""The inputs of a core."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from smartpubsub.seam.effects import Peer, Timer


class Started(NamedTuple):
    """The node is up, for the first time or again. Memory is empty, storage is not.

    The incarnation is larger than at any earlier start of this peer, even if its storage was lost.
    """

    incarnation: int = 0
    clock_set_us: int = 0
    """By how much the node's clock was set since the last start; 0 if the host does not know it.

    The times that the node stored before are too low by this.
    """


class Received(NamedTuple):
    """A one-way message, with the addresses of its sender if known."""

    peer: Peer
    message: object
    addresses: tuple[bytes, ...] = ()


class Asked(NamedTuple):
    """A request, to be answered under the same number."""

    peer: Peer
    message: object
    number: int
    addresses: tuple[bytes, ...] = ()


class Answered(NamedTuple):
    """The response to this core's request with that number."""

    peer: Peer
    message: object
    number: int
    prefix: str = ""
    """The part of its address that the peer shares with its neighbours; empty if not known."""


class TimerFired(NamedTuple):
    """The time of a timer has come."""

    timer: Timer
    peer: Peer = b""
    """The peer whose work it is; empty if it is the node's own."""


class Loaded(NamedTuple):
    """The stored values under keys with a prefix, in the order of the keys."""

    prefix: bytes
    values: tuple[tuple[bytes, bytes], ...]


class Indication(NamedTuple):
    """A core below, with the same owner, has delivered something."""

    item: object


class Connected(NamedTuple):
    """A connection to the peer exists."""

    peer: Peer


class Disconnected(NamedTuple):
    """The connection has ended, or could not be made."""

    peer: Peer


class Departed(NamedTuple):
    """A peer has left: it said goodbye, or its machine refuses connections to it."""

    peer: Peer


class Unknown(NamedTuple):
    """A message is waiting for a peer whose address the host does not know."""

    peer: Peer


Event: TypeAlias = (
    Started
    | Received
    | Asked
    | Answered
    | TimerFired
    | Loaded
    | Indication
    | Connected
    | Disconnected
    | Departed
    | Unknown
)
