"""Why this node refuses a descriptor."""

from __future__ import annotations

from enum import Enum

from smartpubsub.errors import SmartPubSubError


class Reason(Enum):
    """What is wrong with a descriptor, or with the moment of its arrival."""

    MALFORMED = "malformed"
    """It is not a descriptor, or not in canonical form."""
    OVERSIZED = "oversized"
    FORGED = "forged"
    """A signature is not that of the peer it names."""
    UNAUTHORISED = "unauthorised"
    """The topic does not allow this publisher, or requests of this author."""
    CYCLIC = "cyclic"
    """Its height is not one more than that of the events it links to."""
    REPLAYED = "replayed"
    """It is older than all retained events, or a second event with the same author and number."""
    FUTURE_DATED = "future-dated"
    NO_ROOM = "no room"
    """It is valid, but pinned topics fill the storage."""
    ROLLED_BACK = "rolled-back"
    """It is a version that does not follow the newest, or only an older version allows it."""


class RefusalError(SmartPubSubError):
    """A descriptor that this node refuses, with the reason."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(f"{reason.value}: {detail}")
        self.reason = reason
        self.detail = detail
