"""Workloads: which node subscribes to what, publishes what, and when."""

from smartpubsub.workloads.errors import WorkloadError
from smartpubsub.workloads.files import read_workload, write_workload
from smartpubsub.workloads.options import ScenarioOptions
from smartpubsub.workloads.scenarios import SCENARIOS, scenario

__all__ = [
    "SCENARIOS",
    "ScenarioOptions",
    "WorkloadError",
    "read_workload",
    "scenario",
    "write_workload",
]
