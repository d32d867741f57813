"""What FastDelivery delivers to the application, besides what every protocol delivers."""

from __future__ import annotations

from typing import NamedTuple

from smartpubsub.protocols.fastdelivery.messages import GroupId, Notice
from smartpubsub.protocols.pubsub import Subscription


class GroupOpened(NamedTuple):
    """A group is in its directories, and its events go out from now on."""

    group: GroupId


class GroupRefused(NamedTuple):
    """A group cannot be created as requested."""

    group: GroupId
    reason: str


class Overloaded(NamedTuple):
    """No member of a region can help, so the owner serves `served` members itself."""

    group: GroupId
    region: str
    served: int


class JoinRefused(NamedTuple):
    """The owner of a group refuses a subscription."""

    subscription: Subscription
    group: GroupId
    reason: str


class NotInForce(NamedTuple):
    """A limit keeps a subscription from being in force.

    The node tries again, and delivers `Subscribed` when it succeeds.
    """

    subscription: Subscription
    reason: str
    """The limit, and the remedy."""


class NotAdvertised(NamedTuple):
    """A group exists, but searches do not find it."""

    group: GroupId
    reason: str


class SearchResult(NamedTuple):
    """The groups that a search has found."""

    number: int
    notices: tuple[Notice, ...]
    problem: str
    """Why no keeper of the directory could answer; "" if one could."""
