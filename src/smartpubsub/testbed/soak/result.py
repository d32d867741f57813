"""The result of a soak as one document."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from smartpubsub.sim.experiments.running import protocol_of
from smartpubsub.sim.judging.checkers.violation import Violation
from smartpubsub.sim.judging.result import Result, judged
from smartpubsub.sim.judging.spread import spread
from smartpubsub.testbed.soak.run import Soak
from smartpubsub.testbed.soak.samples import MEASURES, Sample

_OF_RUNS = (
    "injected",
    "published",
    "expected",
    "delivered",
    "missing",
    "unexpected",
    "app_duplicates",
    "latency_ms",
    "judged",
    "excused",
)
"""The keys that the result of any run has."""
SCENARIO = "soak"


@dataclass(frozen=True, kw_only=True)
class SoakResult:
    """A soak that is over, and judged."""

    soak: Soak
    result: Result

    @property
    def violations(self) -> list[Violation]:
        """All violations of invariants."""
        return [*self.soak.failures, *self.result.violations]

    def document(self) -> dict[str, Any]:
        """The result as a JSON document."""
        soak, options, wanted = self.soak, self.soak.options, self.soak.wanted
        found = self.result.document()
        return {
            "protocol": options.protocol,
            "variant": protocol_of(soak).variant_of(options.protocol_options),
            "nodes": options.nodes,
            "seed": options.seed,
            "backups": options.protocol_options.backups,
            "rate": wanted.rate,
            "limits": dict(options.protocol_options.limits),
            "seconds": round(soak.soaked_s, 1),
            "wall_s": round(self.result.wall_s, 1),
            "faults": dict(soak.faults),
            "without": sorted(kind.value for kind in wanted.without),
            "disks": soak.disks_are,
            **{name: found[name] for name in _OF_RUNS},
            "publish_ms": spread(soak.publish_ms, "p50", "p99", "max"),
            "errors": dict(soak.errors),
            "violations": [violation.document() for violation in self.violations],
            "interrupted": soak.was_ended_early,
            "warm_up_s": wanted.warm_up_s,
            "usage": [self._usage(node) for node in range(options.nodes)],
            "samples": {
                "columns": list(Sample._fields),
                "nodes": {node: list(taken) for node, taken in soak.samples.by_node.items()},
            },
        }

    def _usage(self, node: int) -> dict[str, Any]:
        soak = self.soak
        taken = soak.samples.by_node.get(node, [])
        growth = soak.samples.growth(node, soak.wanted.warm_up_s)
        return {
            "node": node,
            "starts": sum(node in member.nodes for member in soak.members),
            **{
                name: {
                    "max": max((getattr(one, name) for one in taken), default=None),
                    "last": getattr(taken[-1], name) if taken else None,
                    "growth_per_hour": growth.per_hour[name],
                }
                for name in MEASURES
            },
            "growth_over_s": growth.over_s,
            "core_restarts": soak.core_restarts[node],
            "contained": dict(soak.contained.get(node, {})),
        }


def run(soak: Soak) -> SoakResult:
    """Run a soak, and judge it."""
    began = time.perf_counter()
    soak.run()
    verdict, findings = judged(soak, SCENARIO)
    result = Result(
        experiment=soak,
        scenario=SCENARIO,
        verdict=verdict,
        findings=findings,
        wall_s=time.perf_counter() - began,
        cpu_s=sum(member.cpu_s for member in soak.members),
        peak_rss_mb=sum(member.rss_mb_max for member in soak.members),
    )
    return SoakResult(soak=soak, result=result)
