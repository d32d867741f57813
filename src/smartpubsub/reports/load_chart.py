"""The chart of `bench load`."""

from __future__ import annotations

from pathlib import Path

from smartpubsub.bench.live import GOSSIP
from smartpubsub.bench.load import OUTSTANDING, SUBSCRIBERS, by_outstanding, by_subscribers
from smartpubsub.bench.report import Report
from smartpubsub.reports.charts import chart

_STYLES = {
    "scoutsubs": ("#1b6ca8", "o-"),
    "fastdelivery": ("#d1762a", "s-"),
    "pulsarcast": ("#5a9e4b", "^-"),
    GOSSIP: ("#888888", "x--"),
}


def plot_load(report: Report, path: Path) -> None:
    """Costs against the events outstanding, and against the number of subscribers."""
    with chart(path, width=11, height=5) as figure:
        figure.suptitle(f"Processor time of all nodes, {report.machine['processor']}")
        panels = figure.subplots(1, 2)
        for panel, counts, name_of, title in (
            (panels[0], OUTSTANDING, by_outstanding, "events outstanding"),
            (panels[1], SUBSCRIBERS, by_subscribers, "subscribers"),
        ):
            for system, (colour, style) in _STYLES.items():
                known = [count for count in counts if name_of(system, count) in report.figures]
                costs = [report.value(name_of(system, count)) for count in known]
                panel.plot(known, costs, style, color=colour, label=system)
            panel.set(xscale="log", yscale="log", xlabel=title)
            panel.set_xticks(counts, [str(count) for count in counts])
            panel.grid(visible=True, which="major", alpha=0.3)
        panels[0].set_ylabel("crypto floors for one event")
        panels[1].set_ylabel("verifications for one delivery")
        figure.legend(
            *panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(_STYLES)
        )
