"""Run protocols in random worlds, one after the other, and check the invariants.

Each run has the next number as its seed, so that any run can be repeated by itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from smartpubsub.protocols.spec import DEFAULT_RESILIENCE
from smartpubsub.sim.adversaries.kinds import Adversary
from smartpubsub.sim.experiments.experiment import Experiment
from smartpubsub.sim.experiments.invariants import place_of
from smartpubsub.sim.experiments.random_worlds import RandomWorld, random_world
from smartpubsub.sim.judging import result
from smartpubsub.sim.judging.checkers import Findings, check_same_trace
from smartpubsub.sim.judging.checkers.violation import Violation
from smartpubsub.sim.kernel.streams import stream

TWICE_SHARE = 0.2
"""The share of runs that are repeated, to check determinism."""
RAN_TO_THE_END = 0
"""The number of an invariant that is not in the list: no run fails by an exception."""


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A run with violations."""

    seed: int
    protocol: str
    violations: list[Violation]
    adversaries: tuple[Adversary, ...] = ()
    resilience: str = DEFAULT_RESILIENCE

    @property
    def command(self) -> str:
        """The command that repeats the run."""
        command = f"smartpubsub sim fuzz --seed {self.seed} --runs 1 --protocol {self.protocol}"
        more = [f"--adversary {one}" for one in self.adversaries]
        if self.resilience != DEFAULT_RESILIENCE:
            more.append(f"--resilience {self.resilience}")
        return " ".join([command, *more])

    def document(self) -> dict[str, object]:
        """The failure as a JSON document."""
        return {
            "seed": self.seed,
            "command": self.command,
            "violations": [violation.document() for violation in self.violations],
        }


@dataclass(kw_only=True)
class Report:
    """The runs so far, and their findings."""

    seed: int
    runs: int = 0
    failures: list[Failure] = field(default_factory=list)
    counts: Findings = field(default_factory=Findings)
    """How many cases the checkers judged and excused in all runs."""
    wall_s: float = 0.0
    was_interrupted: bool = False

    def document(self) -> dict[str, object]:
        """The report as a JSON document."""
        return {
            "runs": self.runs,
            "seed": self.seed,
            "failures": [failure.document() for failure in self.failures],
            **self.counts.counts(),
            "wall_s": round(self.wall_s, 3),
        }


def fuzz(
    seed: int,
    runs: int,
    protocols: Sequence[str],
    *,
    adversaries: tuple[Adversary, ...] = (),
    resilience: str = DEFAULT_RESILIENCE,
    time_s_max: float | None = None,
    check_stride: int = 1,
    on_progress: Callable[[Report], None] = lambda _: None,
) -> Report:
    """Run so often, or until the time is over or the user interrupts.

    The state of each node is checked after every `check_stride` inputs; not at all if that is 0.
    """
    report, began = Report(seed=seed), time.monotonic()
    try:
        for number in range(seed, seed + runs):
            # From its own random stream, so that the choice of protocols does not change the world.
            protocol = stream(number, "fuzz", "protocol").choice(protocols)
            world = random_world(number, protocol, has_long_faults=True, may_fail_late=True)
            world = world.among(adversaries, resilience)
            findings = findings_of(world, check_stride=check_stride)
            if findings is None:
                report.was_interrupted = True
                break
            report.runs += 1
            report.wall_s = time.monotonic() - began
            report.counts.add_counts(findings)
            if findings.violations:
                found = Failure(
                    seed=number,
                    protocol=protocol,
                    violations=findings.violations,
                    adversaries=adversaries,
                    resilience=resilience,
                )
                report.failures.append(found)
            on_progress(report)
            if time_s_max is not None and report.wall_s >= time_s_max:
                break
    except KeyboardInterrupt:
        report.was_interrupted = True
    report.wall_s = time.monotonic() - began
    return report


def violations_of(world: RandomWorld) -> list[Violation] | None:
    """The violations in a world, for tests; None if the user interrupted."""
    findings = findings_of(world, check_stride=10)
    return None if findings is None else findings.violations


def findings_of(world: RandomWorld, *, check_stride: int = 1) -> Findings | None:
    """The findings of the checkers in a world; None if the user interrupted."""
    findings = Findings()
    digests = []
    options = replace(
        world.options, checks_invariants=check_stride > 0, check_stride=max(1, check_stride)
    )
    for _ in range(_times(world.options.seed)):
        experiment = Experiment(
            options, world.workload, world.faults, fault_phase=world.fault_phase
        )
        try:
            findings = result.run(experiment, world.scenario).findings
        except Exception as error:  # A run that fails by any exception is a finding.
            broken = experiment.state_violations
            return Findings(violations=[*broken, _breakdown(experiment, error)])
        if experiment.was_interrupted:
            return None
        digests.append(experiment.trace.digest())
    findings.violations += check_same_trace(digests[0], digests[-1])
    findings.judged["determinism"] += len(digests) - 1
    return findings


def _times(seed: int) -> int:
    return 2 if stream(seed, "fuzz", "twice").random() < TWICE_SHARE else 1


def _breakdown(experiment: Experiment, error: Exception) -> Violation:
    what = f"the run broke down: {type(error).__name__}: {error} ({place_of(error)})"
    return Violation(RAN_TO_THE_END, experiment.world.now, -1, what)
