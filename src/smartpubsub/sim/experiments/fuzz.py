"""Run after run in worlds that chance has made, each checked for all that must always hold.

Every run has a seed of its own, the next number, so that any of them can be had again by itself.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from smartpubsub.sim.experiments.chance import Chance, chance
from smartpubsub.sim.experiments.experiment import Experiment
from smartpubsub.sim.judging import result
from smartpubsub.sim.judging.checkers import check_same_trace
from smartpubsub.sim.judging.checkers.violation import Violation
from smartpubsub.sim.kernel.streams import stream

TWICE_SHARE = 0.2
"""How many runs are done twice, to see whether the same happens again."""
RAN_TO_THE_END = 0
"""The number of an invariant that no list needs to have: nothing in a run fails by an exception."""


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A run in which something happened that must not."""

    seed: int
    protocol: str
    violations: list[Violation]

    @property
    def command(self) -> str:
        """What to call to see it again."""
        return f"smartpubsub sim fuzz --seed {self.seed} --runs 1 --protocol {self.protocol}"

    def document(self) -> dict[str, object]:
        """The failure as JSON has it."""
        return {
            "seed": self.seed,
            "command": self.command,
            "violations": [violation.document() for violation in self.violations],
        }


@dataclass(kw_only=True)
class Report:
    """What has come of it so far."""

    seed: int
    runs: int = 0
    failures: list[Failure] = field(default_factory=list)
    wall_s: float = 0.0
    was_interrupted: bool = False

    def document(self) -> dict[str, object]:
        """The report as JSON has it."""
        return {
            "runs": self.runs,
            "seed": self.seed,
            "failures": [failure.document() for failure in self.failures],
            "wall_s": round(self.wall_s, 3),
        }


def fuzz(
    seed: int,
    runs: int,
    protocols: Sequence[str],
    *,
    time_s_max: float | None = None,
    told: Callable[[Report], None] = lambda _: None,
) -> Report:
    """Run so often, or until the time is over or somebody interrupts."""
    report, began = Report(seed=seed), time.monotonic()
    try:
        for number in range(seed, seed + runs):
            # From a stream of its own: the world is the same whichever protocols there are.
            protocol = stream(number, "fuzz", "protocol").choice(protocols)
            violations = violations_of(chance(number, protocol))
            if violations is None:
                report.was_interrupted = True
                break
            report.runs += 1
            report.wall_s = time.monotonic() - began
            if violations:
                found = Failure(seed=number, protocol=protocol, violations=violations)
                report.failures.append(found)
            told(report)
            if time_s_max is not None and report.wall_s >= time_s_max:
                break
    except KeyboardInterrupt:
        report.was_interrupted = True
    report.wall_s = time.monotonic() - began
    return report


def violations_of(world: Chance) -> list[Violation] | None:
    """What happens in a world that must not; None if somebody interrupted."""
    found: list[Violation] = []
    digests = []
    for _ in range(_times(world.options.seed)):
        experiment = Experiment(world.options, world.workload, world.faults)
        try:
            found = result.run(experiment, world.scenario).violations
        except Exception as error:  # Whatever it is, it is what was looked for.
            return [_breakdown(experiment, error)]
        if experiment.was_interrupted:
            return None
        digests.append(experiment.trace.digest())
    return found + check_same_trace(digests[0], digests[-1])


def _times(seed: int) -> int:
    return 2 if stream(seed, "fuzz", "twice").random() < TWICE_SHARE else 1


def _breakdown(experiment: Experiment, error: Exception) -> Violation:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{Path(frame.filename).name}, line {frame.lineno}"
    what = f"the run broke down: {type(error).__name__}: {error} ({place})"
    return Violation(RAN_TO_THE_END, experiment.world.now, -1, what)
