"""What a node can want of the overlay, and what it is told in the end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.lookup import Lookup
from smartpubsub.kademlia.messages import Kind, Message


class Found(NamedTuple):
    """The peers closest to a name, the closest first, and how many steps it took to hear of it."""

    number: int
    name: bytes
    closest: tuple[Contact, ...]
    hops: int


class Put(NamedTuple):
    """How many peers, this one included, hold a value now."""

    number: int
    name: bytes
    copies: int


class Got(NamedTuple):
    """A value that proved itself, or None if nobody had one."""

    number: int
    name: bytes
    value: bytes | None


class Provided(NamedTuple):
    """How many peers were told that this one provides something."""

    number: int
    name: bytes
    told: int


class Providers(NamedTuple):
    """Who provides something."""

    number: int
    name: bytes
    providers: tuple[Contact, ...]


class Joined(NamedTuple):
    """The node has found its place; how many peers it knows."""

    known: int


class Goal(Enum):
    """What a query is for, and the kind of message that it asks with."""

    CLOSEST = Kind.FIND_NODE
    PUT = "put"
    GET = Kind.GET_VALUE
    PROVIDE = "provide"
    PROVIDERS = Kind.GET_PROVIDERS
    JOIN = "join"
    REFRESH = "refresh"

    @property
    def kind(self) -> Kind:
        """What its lookup asks with."""
        return self.value if isinstance(self.value, Kind) else Kind.FIND_NODE


@dataclass(slots=True)
class Query:
    """Something that is wanted, and how far it has come."""

    number: int
    goal: Goal
    name: bytes
    lookup: Lookup
    value: bytes = b""
    copies: int = 0
    open_puts: int = 0
    providers: dict[bytes, Contact] = field(default_factory=dict)
    question: Message = field(init=False)
    """What everybody is asked."""

    def __post_init__(self) -> None:
        self.question = Message(self.goal.kind, self.name)

    def hear_of_providers(self, providers: Iterable[Contact]) -> None:
        """Somebody says who provides what is wanted."""
        for provider in providers:
            self.providers[provider.peer] = provider

    def found(self, own: Contact, k: int) -> Found:
        """The result of a lookup, in which the node that did it has its place too."""
        closest = self.lookup.closest()
        own_distance = own.key ^ self.lookup.target
        nearer = sum(candidate.distance < own_distance for candidate in closest)
        contacts = [candidate.contact for candidate in closest]
        contacts.insert(nearer, own)
        return Found(self.number, self.name, tuple(contacts[:k]), closest[0].hops if nearer else 0)
