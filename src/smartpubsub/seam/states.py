"""State diagrams, drawn from the transition tables that the code uses."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TypeVar

S = TypeVar("S", bound=Enum)


def drawing(transitions: Mapping[tuple[S, str], S]) -> str:
    """A table of transitions as a Mermaid state diagram.

    >>> class Door(Enum):
    ...     OPEN = "open"
    ...     SHUT = "shut"
    >>> print(drawing({(Door.OPEN, "push"): Door.SHUT}))
    stateDiagram-v2
        open --> shut: push
    """
    lines = [
        f"    {_word(before)} --> {_word(after)}: {trigger}"
        for (before, trigger), after in transitions.items()
    ]
    return "\n".join(["stateDiagram-v2", *lines])


def _word(state: Enum) -> str:
    return str(state.value).replace(" ", "_")
