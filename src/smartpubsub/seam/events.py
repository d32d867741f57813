"""What happens to a core."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from smartpubsub.seam.effects import Peer, Timer


class Started(NamedTuple):
    """The node is up, for the first time or again. Memory is empty, storage is not.

    The incarnation is larger than at any earlier start of this peer, also if its storage was lost.
    """

    incarnation: int = 0


class Received(NamedTuple):
    """A message that wants no answer, and where its sender can be reached, if that is known."""

    peer: Peer
    message: object
    addresses: tuple[bytes, ...] = ()


class Asked(NamedTuple):
    """A message that wants an answer, to be given under the same number."""

    peer: Peer
    message: object
    number: int
    addresses: tuple[bytes, ...] = ()


class Answered(NamedTuple):
    """The answer to what this core asked under a number."""

    peer: Peer
    message: object
    number: int


class TimerFired(NamedTuple):
    """The time that a timer was set to has come."""

    timer: Timer


class Loaded(NamedTuple):
    """What was stored under keys with a prefix, in the order of the keys."""

    prefix: bytes
    values: tuple[tuple[bytes, bytes], ...]


class Told(NamedTuple):
    """A core below, with the same owner, has delivered something."""

    item: object


class Connected(NamedTuple):
    """There is a connection now."""

    peer: Peer


class Disconnected(NamedTuple):
    """There is no connection any more, or none could be made."""

    peer: Peer


class Departed(NamedTuple):
    """A peer has left: it said goodbye, or its machine refuses connections to it."""

    peer: Peer


class Unknown(NamedTuple):
    """Something is to be sent to a peer, and nobody has said where it can be reached."""

    peer: Peer


Event: TypeAlias = (
    Started
    | Received
    | Asked
    | Answered
    | TimerFired
    | Loaded
    | Told
    | Connected
    | Disconnected
    | Departed
    | Unknown
)
