"""The result of a soak as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from smartpubsub.cli.sim.text import count_lines, percent, table, violation_lines
from smartpubsub.sim.judging.checkers.violation import Violation

ERRORS_SHOWN = 3


def soak_text(found: dict[str, Any], violations: Sequence[Violation]) -> str:
    """The result in a few lines, and the resource use of each node."""
    protocol = " ".join(filter(None, (found["protocol"], found["variant"])))
    share = found["delivered"] / found["expected"] if found["expected"] else 1.0
    publish = found["publish_ms"]
    faults = ", ".join(f"{kind} {times:,}" for kind, times in found["faults"].items())
    lines = [
        ("ran", f"{protocol}, {found['nodes']:,} nodes, seed {found['seed']}"),
        ("soaked", f"{found['seconds']:,} s, {found['rate']:,} events a second"),
        ("faults", f"{faults or 'none'}; full disks: {found['disks']}"),
        ("events", f"{found['injected']:,} published, {found['published']:,} acknowledged"),
        (
            "delivered",
            f"{found['delivered']:,} of {found['expected']:,} ({percent(share)}),"
            f" {found['missing']:,} missing, {found['unexpected']:,} unexpected,"
            f" {found['app_duplicates']:,} twice",
        ),
        (
            "publishing",
            f"p50 {publish['p50']:,}, p99 {publish['p99']:,}, max {publish['max']:,} ms",
        ),
        ("errors", f"{sum(found['errors'].values()):,} calls"),
    ]
    text = [f"{name:<14}{value}" for name, value in lines]
    text += [
        f"  {times:,} x {error}" for error, times in list(found["errors"].items())[:ERRORS_SHOWN]
    ]
    text += count_lines(found["judged"], found["excused"])
    if found["interrupted"]:
        text.append(f"{'interrupted':<14}this is the result until then")
    text += violation_lines(violations)
    return "\n".join([*text, "", usage_table(found)])


def usage_table(found: dict[str, Any]) -> str:
    """The resource use of each node: the last value, and the growth in an hour."""
    measures = ("RSS MB", "files", "threads", "disk MB")
    grown = (text for name in measures for text in (name, "per h"))
    head = ("node", "starts", "failures", "core restarts", *grown, "over s")
    rows = [
        (
            str(usage["node"]),
            str(usage["starts"]),
            f"{sum(usage['contained'].values()):,}",
            f"{usage['core_restarts']:,}",
            *(
                text
                for name in ("rss_mb", "files", "threads", "disk_mb")
                for text in (_number(usage[name]["last"]), _change(usage[name]["growth_per_hour"]))
            ),
            f"{usage['growth_over_s']:,.0f}",
        )
        for usage in found["usage"]
    ]
    below = f"growth of the longest-lived process, from {found['warm_up_s']:,.0f} s after its start"
    return f"{table(head, rows)}\n{below}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"


def _change(value: float | None) -> str:
    return "-" if value is None else f"{value:+,.2f}"
