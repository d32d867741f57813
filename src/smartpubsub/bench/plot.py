"""Charts of benchmark reports."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from smartpubsub.bench.report import Report

FORMATS = (".png", ".svg")
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


def check_writable(path: Path) -> None:
    """Raise ValueError at once, not after a minute, if a chart cannot be written there."""
    if path.suffix.lower() not in FORMATS:
        raise ValueError(f"{path}: a chart is a file that ends in .png or .svg")
    try:
        path.open("ab").close()
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None


def plot_matching(report: Report, path: Path) -> None:
    """Time for an event against the number of subscriptions, one panel for each workload."""
    # Text stays text in SVG, and the same report gives the same file.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "smartpubsub"}):
        figure = Figure(figsize=(11, 5), layout="constrained")
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
        figure.savefig(path, dpi=120)
