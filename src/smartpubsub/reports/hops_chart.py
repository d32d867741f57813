"""The hops of a lookup against the number of nodes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

from smartpubsub.reports.charts import chart
from smartpubsub.sim.experiments.lookups import Result


def log_fit(points: Mapping[int, float]) -> tuple[float, float]:
    """The offset and the slope per doubling of the line closest to the points over log2 n.

    >>> log_fit({100: 1.0, 200: 1.5, 400: 2.0})[1]
    0.5
    """
    xs = [math.log2(nodes) for nodes in points]
    ys = list(points.values())
    x_mean, y_mean = sum(xs) / len(xs), sum(ys) / len(ys)
    spread = sum((x - x_mean) ** 2 for x in xs)
    together = sum((x - x_mean) * (y - y_mean) for x, y in zip(xs, ys, strict=True))
    slope = round(together / spread, 12) if spread else 0.0
    return y_mean - slope * x_mean, slope


def plot_hops(results: Mapping[int, Result], path: Path) -> None:
    """Mean, 99th percentile and maximum for each number of nodes, and the fit to the means."""
    hops = {nodes: result.hop_figures() for nodes, result in results.items()}
    means = {nodes: figures["mean"] for nodes, figures in hops.items()}
    offset, slope = log_fit(means)
    with chart(path, width=8, height=5) as figure:
        panel = figure.subplots()
        for name, style in (("mean", "o"), ("p99", "^"), ("max", "x")):
            panel.plot(list(hops), [figures[name] for figures in hops.values()], style, label=name)
        fitted = [offset + slope * math.log2(nodes) for nodes in hops]
        panel.plot(list(hops), fitted, "-", label=f"mean: {slope:.2f} more with every doubling")
        panel.set(xscale="log", xlabel="nodes", ylabel="hops", title="Hops of a lookup")
        panel.set_xticks(list(hops), labels=[f"{nodes:,}" for nodes in hops])
        panel.minorticks_off()
        panel.set_ylim(bottom=0)
        panel.grid(visible=True, alpha=0.3)
        panel.legend()
