"""Parameters that are one of a few words: an enum's member, or its text."""

from __future__ import annotations

from enum import Enum
from typing import TypeVar

from smartpubsub.node.errors import ChoiceError

Choice = TypeVar("Choice", bound=Enum)


def choice(kind: type[Choice], value: Choice | str, parameter: str) -> Choice:
    """Convert a parameter to the enum's member.

    >>> from smartpubsub.node.api.calls import Wait
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
