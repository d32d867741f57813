"""The result of a run on real nodes: the document of a simulated one, and resource use."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from smartpubsub.sim.experiments.experiment import Experiment
from smartpubsub.sim.judging import result as results
from smartpubsub.sim.judging.result import Result, judged
from smartpubsub.testbed.cluster import Member
from smartpubsub.testbed.run import RealRun

COMPARED = (
    "expected",
    "delivered",
    "wire_duplicates",
    "latency_ms",
    "subscription_latency_ms",
    "hops",
    "messages",
    "bytes",
)
"""The keys that compare the run with the simulated one."""


def run(real: RealRun, scenario: str, twin: Experiment | None) -> Result:
    """Run an experiment on real nodes, and judge it; then run it in the simulated world."""
    began = time.perf_counter()
    real.run()
    wall_s = time.perf_counter() - began
    verdict, findings = judged(real, scenario)
    simulated: dict[str, Any] | None = None
    if twin is not None and not real.was_interrupted:
        document = results.run(twin, scenario).document()
        if twin.was_interrupted:
            # Half a run is nothing to compare with. The real run keeps its figures.
            real.was_interrupted = True
        else:
            simulated = {name: document[name] for name in COMPARED}
    return Result(
        experiment=real,
        scenario=scenario,
        verdict=verdict,
        findings=findings,
        wall_s=wall_s,
        cpu_s=sum(member.cpu_s for member in real.members),
        peak_rss_mb=sum(member.rss_mb_max for member in real.members),
        more={
            "cpu_s_per_node": round(cpu_s_per_node(real.members), 3),
            "memory_mb_per_node": round(memory_mb_per_node(real.members), 3),
            "processes": len(real.members),
            "simulated": simulated,
        },
    )


def cpu_s_per_node(members: Iterable[Member]) -> float:
    """The mean resource use of a node, beyond that of its process before."""
    nodes: dict[int, None] = {}
    cpu_s = 0.0
    for member in members:
        nodes |= dict.fromkeys(member.nodes)
        cpu_s += member.cpu_s - (member.before.cpu_s if member.before else 0.0)
    return cpu_s / len(nodes) if nodes else 0.0


def memory_mb_per_node(members: Iterable[Member]) -> float:
    """The memory that a node adds to a shared process; if none is shared, to its own."""
    used = [member for member in members if member.before is not None]
    counted = [member for member in used if len(member.nodes) > 1] or used
    added = [m.rss_mb_max - m.before.rss_mb for m in counted if m.before]
    nodes = sum(len(member.nodes) for member in counted)
    return sum(added) / nodes if nodes else 0.0
