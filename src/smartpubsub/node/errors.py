"""What can go wrong for whoever uses a node."""

from __future__ import annotations

from smartpubsub.errors import SmartPubSubError


class NodeError(SmartPubSubError):
    """Something that a node could not do."""


class NodeClosedError(NodeError):
    """A node that is not running, or not any more."""


class EventRefusedError(NodeError):
    """An event that the network did not take, and why."""


class NotInTimeError(NodeError):
    """Something that was not acknowledged in time; it may still happen."""


class OverflowedError(NodeError):
    """A subscription whose buffer was full and that was to say so."""


class NoSubscriptionError(NodeError):
    """A number that no subscription has."""


class NotOwnerError(NodeError):
    """Something that only the owner of a group can do."""


class LimitError(NodeError):
    """Something that would be beyond one of the node's limits."""


class NotPromisedError(NodeError):
    """Something that the network's protocol does not promise."""
