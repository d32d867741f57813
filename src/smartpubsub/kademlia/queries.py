"""The queries of a node, and their results."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.lookup import Lookup
from smartpubsub.kademlia.messages import Kind, Message


class Found(NamedTuple):
    """The peers closest to a name, the closest first, and the number of steps to the closest."""

    number: int
    name: bytes
    closest: tuple[Contact, ...]
    hops: int


class Put(NamedTuple):
    """How many peers hold a value now, including this one."""

    number: int
    name: bytes
    copies: int


class Got(NamedTuple):
    """A valid value, or None if no peer had one."""

    number: int
    name: bytes
    value: bytes | None


class Provided(NamedTuple):
    """How many peers were informed that this one provides something."""

    number: int
    name: bytes
    informed: int


class Providers(NamedTuple):
    """The providers of a name."""

    number: int
    name: bytes
    providers: tuple[Contact, ...]


class Lost(NamedTuple):
    """A peer that a core suspected has answered no ping; it is out of the table."""

    peer: bytes


class Joined(NamedTuple):
    """The node has joined; the number of peers that it knows."""

    known: int


class Goal(Enum):
    """The purpose of a query."""

    CLOSEST = Kind.FIND_NODE
    PUT = "put"
    GET = Kind.GET_VALUE
    PROVIDE = "provide"
    PROVIDERS = Kind.GET_PROVIDERS
    JOIN = "join"
    REFRESH = "refresh"

    @property
    def kind(self) -> Kind:
        """The kind of the lookup's messages."""
        return self.value if isinstance(self.value, Kind) else Kind.FIND_NODE


@dataclass(slots=True)
class Query:
    """A query and its progress."""

    number: int
    goal: Goal
    name: bytes
    lookup: Lookup
    value: bytes = b""
    copies: int = 0
    open_puts: int = 0
    providers: dict[bytes, Contact] = field(default_factory=dict)
    question: Message = field(init=False)
    """The message to every candidate."""

    def __post_init__(self) -> None:
        self.question = Message(self.goal.kind, self.name)

    def hear_of_providers(self, providers: Iterable[Contact]) -> None:
        """Add providers that a peer has named."""
        for provider in providers:
            self.providers[provider.peer] = provider

    def found(self, own: Contact, k: int) -> Found:
        """The result of a lookup, which may include this node."""
        closest = self.lookup.closest()
        own_distance = own.key ^ self.lookup.target
        nearer = sum(candidate.distance < own_distance for candidate in closest)
        contacts = [candidate.contact for candidate in closest]
        contacts.insert(nearer, own)
        return Found(self.number, self.name, tuple(contacts[:k]), closest[0].hops if nearer else 0)
