"""Results of runs on real nodes as text."""

from __future__ import annotations

from typing import Any

from smartpubsub.cli.sim.text import lines_of, table
from smartpubsub.sim.judging.result import Result


def result_text(result: Result) -> str:
    """The result of a run on real nodes in a few lines, beside the simulator's."""
    found: dict[str, Any] = result.document()
    took = (
        f"{found['wall_s']:,} s in {found['processes']:,} processes; for each node"
        f" {found['cpu_s_per_node']:,} s of a core and {found['memory_mb_per_node']:,} MB"
    )
    text = lines_of(found, took, result.violations)
    return f"{text}\n\n{_comparison(found)}" if found["simulated"] else text


def _comparison(found: dict[str, Any]) -> str:
    head = ("", "delivered", "mean ms", "p95 ms", "hops", "messages", "bytes")
    return table(head, [("real", *_figures(found)), ("simulated", *_figures(found["simulated"]))])


def _figures(found: dict[str, Any]) -> list[str]:
    latency = found["latency_ms"]
    figures = (found["delivered"], latency["mean"], latency["p95"])
    return [f"{n:,}" for n in (*figures, found["hops"]["mean"], found["messages"], found["bytes"])]
