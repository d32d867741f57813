"""The chart of `bench matching`."""

from __future__ import annotations

from pathlib import Path

from smartpubsub.bench.report import Report
from smartpubsub.reports.charts import chart

_SIZES = {"1k": 1e3, "100k": 1e5, "1M": 1e6, "10M": 1e7}
_ENGINES = {
    "native batch": ("#1b6ca8", "o-"),
    "native single": ("#1b6ca8", "o--"),
    "pure single": ("#d1762a", "s--"),
    "duckdb batch": ("#5a9e4b", "^-"),
    "sqlite single": ("#8c6bb1", "v--"),
    "brute force single": ("#888888", "x--"),
    "roofline": ("#000000", ":"),
}


def plot_matching(report: Report, path: Path) -> None:
    """Time for an event against the number of subscriptions, one panel for each workload."""
    with chart(path, width=11, height=5) as figure:
        figure.suptitle(f"Matching one event, {report.machine['processor']}, one thread")
        panels = figure.subplots(1, 2, sharey=True)
        for panel, workload in zip(panels, ("W1", "W2"), strict=True):
            for engine, (colour, style) in _ENGINES.items():
                points = [
                    (count, 1e6 / report.value(f"{engine} {label} {workload}"))
                    for label, count in _SIZES.items()
                    if f"{engine} {label} {workload}" in report.figures
                ]
                panel.plot(*zip(*points, strict=True), style, color=colour, label=engine)
            panel.set(xscale="log", yscale="log", title=workload, xlabel="subscriptions")
            panel.grid(visible=True, which="major", alpha=0.3)
        panels[0].set_ylabel("microseconds for one event")
        figure.legend(
            *panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(_ENGINES)
        )
