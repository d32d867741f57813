"""The actions of applications, as values, and a workload made of them.

Nodes are numbers here; a workload knows their names. A workload is a series of phases. The times of
a phase count from its beginning; the next phase begins when this one is over and every call has
been acknowledged.
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
    """A node's application creates a topic; only Pulsarcast needs this."""

    at_us: int
    node: int
    name: str
    ordered: bool


class CreateGroup(NamedTuple):
    """A node's application creates a group to publish in; only FastDelivery needs this."""

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
    """The actions of an experiment."""

    names: tuple[str, ...]
    """The names of the nodes, in the order of their numbers."""
    phases: tuple[tuple[Action, ...], ...]
    """The actions of each phase, in the order of time."""
    pace_us: int = 0
    """The interval between events, where it was chosen to fit the network; otherwise 0."""

    def actions(self) -> list[Action]:
        """All actions of all phases."""
        return [action for phase in self.phases for action in phase]
