"""What a core asks of whoever runs it.

Effects are plain values. A core returns them in the order in which they are to be carried out, and
never learns how.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple, TypeAlias

Peer: TypeAlias = bytes
"""A libp2p peer id, as bytes."""

Timer: TypeAlias = Hashable
"""What a core calls one of its timers; setting a timer that is set moves it."""


class Send(NamedTuple):
    """Send a message, to arrive once, later, or never."""

    peer: Peer
    message: object


class Ask(NamedTuple):
    """Send a message that wants an answer. What comes is `Answered`, or nothing.

    The addresses are where the peer is said to be, for a host that has no connection to it yet.
    """

    peer: Peer
    message: object
    number: int
    addresses: tuple[bytes, ...] = ()


class Answer(NamedTuple):
    """Answer what was asked under this number."""

    peer: Peer
    message: object
    number: int


class SetTimer(NamedTuple):
    """Have `TimerFired` come at a time, in microseconds on the node's own clock."""

    timer: Timer
    at: int


class CancelTimer(NamedTuple):
    """Forget a timer; if it is not set nothing happens."""

    timer: Timer


class Deliver(NamedTuple):
    """Hand something to the application."""

    item: object


class Store(NamedTuple):
    """Keep a value through crashes; None removes it. Nothing later is done before it is kept."""

    key: bytes
    value: bytes | None


class Load(NamedTuple):
    """Have every stored value whose key begins with a prefix come as `Loaded`."""

    prefix: bytes


class Connect(NamedTuple):
    """Try to have a connection; what comes is `Connected` or `Disconnected`."""

    peer: Peer
    addresses: tuple[bytes, ...]


Effect: TypeAlias = Send | Ask | Answer | SetTimer | CancelTimer | Deliver | Store | Load | Connect
