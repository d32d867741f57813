"""What a core asks of its host.

Effects are plain values. The host performs them in the order in which the core returns them.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple, TypeAlias

Peer: TypeAlias = bytes
"""A libp2p peer id, as bytes."""

Timer: TypeAlias = Hashable
"""The name of a timer; setting a timer again moves it."""


class Send(NamedTuple):
    """Send a one-way message; it may arrive late, or never."""

    peer: Peer
    message: object


class Ask(NamedTuple):
    """Send a request. What follows is `Answered`, or nothing.

    The addresses of the peer, as far as known, are for a host that has no connection to it yet.
    """

    peer: Peer
    message: object
    number: int
    addresses: tuple[bytes, ...] = ()


class Answer(NamedTuple):
    """Respond to the request with this number."""

    peer: Peer
    message: object
    number: int


class SetTimer(NamedTuple):
    """Request `TimerFired` at a time, in microseconds on the node's own clock."""

    timer: Timer
    at: int
    may_be_early: bool = False
    """Whether it may fire earlier, when the node has handled all other inputs."""
    peer: Peer = b""
    """The peer whose work the timer is: it fires in that peer's turn, and counts as that peer's
    input. It may fire after it was cancelled."""


class CancelTimer(NamedTuple):
    """Cancel a timer; without effect if it is not set."""

    timer: Timer


class Deliver(NamedTuple):
    """Hand something to the application."""

    item: object


class Store(NamedTuple):
    """Store a value durably; None removes it. Later effects wait until it is on disk."""

    key: bytes
    value: bytes | None
    may_be_late: bool = False
    """Whether no effect waits for it, and a crash soon after may undo it: the host stores it
    together with later values."""


class Load(NamedTuple):
    """Request all stored values whose keys begin with a prefix, as `Loaded`."""

    prefix: bytes


class Connect(NamedTuple):
    """Try to connect; what follows is `Connected` or `Disconnected`."""

    peer: Peer
    addresses: tuple[bytes, ...]


Effect: TypeAlias = Send | Ask | Answer | SetTimer | CancelTimer | Deliver | Store | Load | Connect
