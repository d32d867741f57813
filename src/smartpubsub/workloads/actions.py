"""What applications do, as values, and a workload made of them.

Nodes are numbers here; a workload knows what they are called. A workload is a series of phases.
The times of a phase count from its beginning, and the next one begins when this one is over and all
that was asked for has been acknowledged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from smartpubsub.predicates import Predicate


class Subscribe(NamedTuple):
    """A node's application subscribes."""

    at_us: int
    node: int
    predicate: Predicate


class Unsubscribe(NamedTuple):
    """A node's application ends the oldest of its subscriptions with this predicate."""

    at_us: int
    node: int
    predicate: Predicate


class Publish(NamedTuple):
    """A node's application publishes."""

    at_us: int
    node: int
    predicate: Predicate
    payload: bytes


class CreateTopic(NamedTuple):
    """A node's application makes a topic, which only Pulsarcast needs."""

    at_us: int
    node: int
    name: str
    ordered: bool


class CreateGroup(NamedTuple):
    """A node's application makes a group to publish in, which only FastDelivery needs."""

    at_us: int
    node: int
    predicate: Predicate


class CrashNode(NamedTuple):
    """A node crashes, and keeps its storage."""

    at_us: int
    node: int


class LeaveNode(NamedTuple):
    """A node says goodbye and stops; it keeps its storage."""

    at_us: int
    node: int


class RestartNode(NamedTuple):
    """A node that has left or crashed starts again."""

    at_us: int
    node: int


Action: TypeAlias = (
    Subscribe
    | Unsubscribe
    | Publish
    | CreateTopic
    | CreateGroup
    | CrashNode
    | LeaveNode
    | RestartNode
)


@dataclass(frozen=True, kw_only=True)
class Workload:
    """What happens in an experiment."""

    names: tuple[str, ...]
    """What the nodes are called, in the order of their numbers."""
    phases: tuple[tuple[Action, ...], ...]
    """Each in the order of time."""
    pace_us: int = 0
    """The time from one event to the next, where it was chosen for the network; otherwise 0."""

    def actions(self) -> list[Action]:
        """All actions of all phases."""
        return [action for phase in self.phases for action in phase]
