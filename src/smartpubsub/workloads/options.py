"""What can be chosen about a scenario, and what all scenarios have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal, NamedTuple, TypeAlias

from smartpubsub.workloads.actions import Action
from smartpubsub.workloads.errors import WorkloadError

EVENTS_MAX = 10_000_000
PAYLOAD_BYTES = 80

Phases: TypeAlias = Sequence[Sequence[Action]]


@dataclass(frozen=True, kw_only=True)
class ScenarioOptions:
    """What can be chosen about a scenario; what is None is for the scenario to say."""

    events: int | None = None
    """How many events there are in all."""
    publishers: int | None = None
    """How many nodes publish them, in turn."""
    faults: int = 0
    """How many nodes crash."""
    crash: Literal["before", "mid"] = "before"
    """Whether they crash before the first event or while events are on their way."""
    pace_us: int | None = None
    """The time from one event to the next."""
    ordered: bool = False
    """Whether the topics that are created keep the order of their events."""

    def __post_init__(self) -> None:
        for what in ("events", "publishers", "pace_us"):
            number = getattr(self, what)
            if number is not None and not 1 <= number <= EVENTS_MAX:
                raise WorkloadError(f"{what} lies between 1 and {EVENTS_MAX}, found {number}")
        if self.faults < 0:
            raise WorkloadError(f"faults is 0 or more, found {self.faults}")
        if self.crash not in ("before", "mid"):
            raise WorkloadError(f"crash is 'before' or 'mid', found {self.crash!r}")


class Setting(NamedTuple):
    """What a scenario is made from."""

    nodes: int
    rng: Random
    options: ScenarioOptions


def payload_of(number: int) -> bytes:
    """A payload that no other event has, of the size that all have.

    >>> payload_of(7)[:12], len(payload_of(7))
    (b'event 7 ....', 80)
    """
    return f"event {number} ".encode().ljust(PAYLOAD_BYTES, b".")
