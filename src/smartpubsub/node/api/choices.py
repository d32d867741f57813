"""Parameters that are one of a few words: an enum's member, or its text."""

from __future__ import annotations

from enum import Enum
from typing import Literal, TypeAlias, TypeVar

from smartpubsub.node.errors import ChoiceError

BUFFER_COUNT_MAX = 1_000
"""Events that wait in memory for one subscription, unless the application says otherwise."""
ACKNOWLEDGE_S_MAX = 60.0
"""How long a request waits for its acknowledgement, unless the application says otherwise."""

Choice = TypeVar("Choice", bound=Enum)


class Wait(Enum):
    """What a publish waits for."""

    NOTHING = "nothing"
    RENDEZVOUS = "rendezvous"
    """The rendezvous of each attribute, with its replicas, has acknowledged the event."""
    ALL = "all"
    """All subscribers have confirmed the event."""


class Overflow(Enum):
    """What happens to the events of a subscription that is not read fast enough.

    Other subscriptions, publishing and other nodes are not affected. A subscription that is kept
    always has its events on disk.
    """

    DROP_OLDEST = "drop-oldest"
    """Drop the oldest event in memory, and count it: `Event.dropped_before`."""
    ERROR = "error"
    """Drop the oldest event, and raise `OverflowedError` where it was; the reader can go on."""
    BLOCK = "block"
    """Withhold acknowledgements: an event stays on disk until the reader asks for the next one.

    Beyond the limits of kept subscriptions, the oldest are dropped.
    """


WaitName: TypeAlias = Literal["nothing", "rendezvous", "all"]
OverflowName: TypeAlias = Literal["drop-oldest", "error", "block"]
LinkingName: TypeAlias = Literal["last-seen", "custom"]


def choice(kind: type[Choice], value: Choice | str, parameter: str) -> Choice:
    """Convert a parameter to the enum's member.

    >>> choice(Wait, "all", "wait")
    <Wait.ALL: 'all'>
    >>> choice(Wait, "some", "wait")
    Traceback (most recent call last):
    ...
    smartpubsub.node.errors.ChoiceError: wait='some'; allowed are 'nothing', 'rendezvous', 'all'
    """
    if isinstance(value, kind):
        return value
    for member in kind:
        if member.value == value:
            return member
    allowed = ", ".join(repr(member.value) for member in kind)
    raise ChoiceError(f"{parameter}={value!r}; allowed are {allowed}")


def at_least_one(value: int, parameter: str) -> int:
    """Check a number of events."""
    if type(value) is not int or value < 1:
        raise ChoiceError(f"{parameter}={value!r}; expected a whole number from 1 on")
    return value
