"""What some protocols offer beyond publishing and subscribing.

A protocol's spec says which of these its core offers, and returns the object that implements it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, runtime_checkable

from smartpubsub.predicates import Predicate
from smartpubsub.protocols.blocks import Cid
from smartpubsub.seam import Effect, Peer


@runtime_checkable
class HasNeighbours(Protocol):
    """Depends on some peers: parents, children, replicas. Hosts keep the connections to them."""

    def neighbours(self) -> Iterable[Peer]:
        """The peers that the node depends on, or that depend on it."""
        ...


@runtime_checkable
class Convicts(Protocol):
    """Convicts nodes of lies, by evidence that any node can verify."""

    def convicted(self) -> Mapping[Peer, str]:
        """The nodes that this one has convicted, and what each of them has signed."""
        ...


@runtime_checkable
class Gathers(Protocol):
    """Can hold messages back while a host hands it several inputs in a row."""

    def gather(self) -> None:
        """Hold messages back until `release`."""
        ...

    def release(self, now: int) -> list[Effect]:
        """Send the messages that were held back, those to one peer together."""
        ...


class HasGroups(Protocol):
    """Owns groups: a publisher's own network of subscribers."""

    def create_group(self, predicate: Predicate, now: int) -> list[Effect]:
        """Own a group from now on; `GroupOpened` comes when its events can go out."""
        ...


class HasTopics(Protocol):
    """Creates topics, which subscriptions and events then name by their content id."""

    def create_topic(
        self, name: str, now: int, *, ordered_by: Peer | None = None
    ) -> tuple[Cid, list[Effect]]:
        """Create a topic of this node; `TopicStored` comes when other nodes can find it.

        If a peer orders the topic, it alone publishes in it; other nodes ask it to publish.
        """
        ...


class HasReplay(Protocol):
    """Delivers past events to a new subscription."""

    def recall(self, number: int, past: Any, now: int) -> list[Effect]:
        """Begin a subscription with past events; `CaughtUp` comes after them."""
        ...
