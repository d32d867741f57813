"""Why a descriptor is not taken."""

from __future__ import annotations

from enum import Enum

from smartpubsub.errors import SmartPubSubError


class Reason(Enum):
    """What can be wrong with a descriptor, or with its coming now."""

    MALFORMED = "malformed"
    """It is no descriptor, or not written in the one way there is."""
    OVERSIZED = "oversized"
    FORGED = "forged"
    """A signature is not that of whom it should be."""
    UNAUTHORISED = "unauthorised"
    """The topic does not allow this publisher, or this author's request."""
    CYCLIC = "cyclic"
    """It does not lie above what it links to."""
    REPLAYED = "replayed"
    """It is older than what is still taken, or another event of the same author and number."""
    FUTURE_DATED = "future-dated"
    NO_ROOM = "no room"
    """There is nothing wrong with it, but nothing can be let go in its place."""
    ROLLED_BACK = "rolled-back"
    """It is a version of a topic that does not follow the newest, or relies on one that is past."""


class RefusalError(SmartPubSubError):
    """A descriptor that is not taken, and why."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(f"{reason.value}: {detail}")
        self.reason = reason
        self.detail = detail
