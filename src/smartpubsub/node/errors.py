"""Errors of a node."""

from __future__ import annotations

from smartpubsub.errors import SmartPubSubError
from smartpubsub.predicates import Predicate

UNPUBLISHED = "unpublished"
"""The state in the error of a publish that made no event."""


class NodeError(SmartPubSubError):
    """An operation that a node could not do."""


class NodeClosedError(NodeError):
    """A node that does not run."""


class EventRefusedError(NodeError):
    """A request that the network refused."""


class NotInTimeError(NodeError):
    """A request that was not acknowledged in time; it may still be."""


class PublishError(NodeError):
    """A publish that failed, with the event's id and state if there is an event."""

    def __init__(self, reason: str, id: str | None = None, state: str = UNPUBLISHED) -> None:
        super().__init__(reason)
        self.reason = reason
        self.id = id
        """None if no event was published. `Node.event` tells how the state goes on."""
        self.state = state
        """`pending`, `acknowledged`, `refused`, or `unpublished` if there is no event."""


class PublishRefusedError(PublishError, EventRefusedError):
    """An event that the network refused."""


class PublishNotInTimeError(PublishError, NotInTimeError):
    """An event that was not acknowledged in time; the node goes on trying."""


class TooFewReplicasError(PublishError):
    """An event that is published and acknowledged, with fewer replicas than were asked for."""

    def __init__(self, id: str, replicas: int, replicas_min: int, state: str) -> None:
        reason = (
            f"the event is published as {id}, but only {replicas} of the {replicas_min}"
            " replicas asked for could be made, as there are not more live nodes; the network keeps"
            " it, so do not publish it again; start more nodes, or ask for fewer replicas"
        )
        super().__init__(reason, id, state)


class OverflowedError(NodeError):
    """Events that a subscription with the policy `error` has dropped; the reader can go on."""

    def __init__(self, predicate: Predicate, lost: int, buffer_count_max: int) -> None:
        events = "1 event" if lost == 1 else f"{lost:,} events"
        super().__init__(
            f"the subscription {predicate} has lost {events}: more than"
            f" {buffer_count_max:,} waited; read faster, or set buffer_count_max higher"
        )
        self.lost = lost
        """The number of events lost."""


class ChoiceError(NodeError, ValueError):
    """A text that is not among the allowed ones."""


class KeyConflictError(PublishError):
    """A publication key that was used for an event with another content."""


class NoSubscriptionError(NodeError):
    """A number that no subscription has."""


class NotOwnerError(NodeError):
    """An operation that only the owner of a group or topic can do."""


class LimitError(NodeError):
    """A request that would exceed one of the node's limits."""


class NotPromisedError(NodeError):
    """A guarantee that the network's protocol does not give."""
