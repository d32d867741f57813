"""What FastDelivery tells an application, beside what every protocol tells it."""

from __future__ import annotations

from typing import NamedTuple

from smartpubsub.protocols.fastdelivery.parts import GroupId, Notice
from smartpubsub.protocols.pubsub import Subscription


class GroupOpened(NamedTuple):
    """A group is known wherever it is searched for, and its events go out from now on."""

    group: GroupId


class GroupRefused(NamedTuple):
    """A group cannot be had as it was asked for, and why."""

    group: GroupId
    reason: str


class Overloaded(NamedTuple):
    """A region of a group has nobody who can help, so the owner serves so many itself."""

    group: GroupId
    region: str
    served: int


class JoinRefused(NamedTuple):
    """The owner of a group does not want a subscription in it, and why."""

    subscription: Subscription
    group: GroupId
    reason: str


class NotInForce(NamedTuple):
    """A limit keeps a subscription from being in force: which, and what can be done.

    It is tried again; `Subscribed` comes when there was room.
    """

    subscription: Subscription
    reason: str


class NotAdvertised(NamedTuple):
    """A group is there, but searches do not find it, and why."""

    group: GroupId
    reason: str


class SearchResult(NamedTuple):
    """The groups that a search has found."""

    number: int
    notices: tuple[Notice, ...]
    problem: str
    """Why nobody could say, if nobody could."""
