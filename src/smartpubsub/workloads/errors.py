"""The error for a workload that cannot be read, written or generated."""

from __future__ import annotations

from pathlib import Path

from smartpubsub.errors import SmartPubSubError


class WorkloadError(SmartPubSubError, ValueError):
    """An invalid workload; the text names the problem, the file and the line."""

    def __init__(self, problem: str, *, path: Path | None = None, line: int | None = None) -> None:
        place = ":".join(str(part) for part in (path, line) if part is not None)
        super().__init__(f"{place}: {problem}" if place else problem)
        self.problem = problem
        self.path = path
        self.line = line


class ScenarioError(WorkloadError):
    """The options do not fit the scenario, or no scenario has the name."""

    is_usage_error = True
