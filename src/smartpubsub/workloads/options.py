"""The options and inputs of all scenarios."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal, NamedTuple, TypeAlias

from smartpubsub.workloads.actions import Action
from smartpubsub.workloads.errors import ScenarioError

EVENTS_MAX = 10_000_000
PAYLOAD_BYTES = 80

Phases: TypeAlias = Sequence[Sequence[Action]]


@dataclass(frozen=True, kw_only=True)
class ScenarioOptions:
    """The options of a scenario; None means the scenario's default."""

    events: int | None = None
    """The number of events."""
    publishers: int | None = None
    """The number of nodes that publish them, in turn."""
    faults: int = 0
    """The number of nodes that crash."""
    crash: Literal["before", "mid"] = "before"
    """Whether they crash before the first event or while events are on their way."""
    pace_us: int | None = None
    """The interval between events."""
    ordered: bool = False
    """Whether topics are ordered."""

    def __post_init__(self) -> None:
        for what in ("events", "publishers", "pace_us"):
            number = getattr(self, what)
            if number is not None and not 1 <= number <= EVENTS_MAX:
                raise ScenarioError(f"{what} lies between 1 and {EVENTS_MAX}, found {number}")
        if self.faults < 0:
            raise ScenarioError(f"faults is 0 or more, found {self.faults}")
        if self.crash not in ("before", "mid"):
            raise ScenarioError(f"crash is 'before' or 'mid', found {self.crash!r}")


class Setting(NamedTuple):
    """The inputs of a scenario."""

    nodes: int
    rng: Random
    options: ScenarioOptions


def payload_of(number: int) -> bytes:
    """A unique payload of the common size.

    >>> payload_of(7)[:12], len(payload_of(7))
    (b'event 7 ....', 80)
    """
    return f"event {number} ".encode().ljust(PAYLOAD_BYTES, b".")
