"""Errors of a node, and how they cross to the programs of its user."""

from __future__ import annotations

from smartpubsub.errors import SmartPubSubError

TYPE_CHECKING = False  # Clients import this, and importing typing takes longer than all of them.
if TYPE_CHECKING:
    from typing import Any

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
    """A request that was not acknowledged in time; the acknowledgement may still come."""


class PublishError(NodeError):
    """A publish that failed, with the event's id and state if there is an event."""

    def __init__(self, reason: str, id: str | None = None, state: str = UNPUBLISHED) -> None:
        super().__init__(reason)
        self.reason = reason
        self.id = id
        """None if no event was published. `Node.event` reports later states."""
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
            f" {buffer_count_max:,} waited; read faster, or let more wait: set buffer_count_max"
            " higher, or overflow to block"
        )
        self.lost = lost
        """The number of events lost."""


class ChoiceError(NodeError, ValueError):
    """A parameter with a value that is not allowed."""

    is_usage_error = True


class KeyConflictError(PublishError):
    """A publication key that was used for an event with another content."""

    def __init__(self, key: str, known: str) -> None:
        super().__init__(
            f"{key} belongs to the event {known}, which has another content; publish this event"
            " by another key"
        )
        self.known = known
        """The id of that event."""

    def called(self, key: str) -> KeyConflictError:
        """The same error with the caller's name of the key."""
        return KeyConflictError(key, self.known)


class NoSubscriptionError(NodeError):
    """A number that no subscription has."""


class NoTopicError(NodeError):
    """A topic that the network does not have."""


class NotOwnerError(NodeError):
    """An operation that only the owner of a group or topic can do."""


class LimitError(NodeError):
    """A request that would exceed one of the node's limits."""


class NotPromisedError(NodeError):
    """A request for a guarantee that the protocol does not give."""


class ControlError(NodeError):
    """A running node that cannot be reached, or that does not understand a request."""


class NoNodeError(ControlError):
    """A data folder in which no node runs."""


class LostNodeError(ControlError):
    """A node that has ended, or does not answer; the result of the request is unknown."""


def error_document(error: SmartPubSubError) -> dict[str, Any]:
    """Convert to JSON: the text, the class, and the attributes that are text or numbers."""
    known = {
        name: value
        for name, value in vars(error).items()
        if value is None or isinstance(value, str | int)
    }
    if error.is_usage_error:  # A client may not have the class.
        known["is_usage_error"] = True
    return {"error": str(error), "kind": type(error).__name__, "attributes": known}


def error_of(document: dict[str, Any]) -> SmartPubSubError:
    """Convert from JSON; an error of a class that is not known here is a `ControlError`."""
    kind = next((k for k in _kinds(SmartPubSubError) if k.__name__ == document.get("kind")), None)
    error = (kind or ControlError).__new__(kind or ControlError)
    Exception.__init__(error, str(document["error"]))
    vars(error).update(document.get("attributes", {}))
    return error


def _kinds(kind: type[SmartPubSubError]) -> list[type[SmartPubSubError]]:
    return [kind, *(each for sub in kind.__subclasses__() for each in _kinds(sub))]
