"""Figures of counts: events and subscriptions of topics, messages, hops, duplicates."""

from __future__ import annotations

import math
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter, PercentFormatter

from smartpubsub.reports.hops_chart import log_fit
from smartpubsub.reports.latency_figures import Rows, labels_in, scenarios_in
from smartpubsub.reports.looks import INK, PAPER, QUIET, colour_of, legend_below, name_of
from smartpubsub.reports.papers import Paper

MILLION = 1_000_000

_PLAIN = FuncFormatter(lambda value, _: f"{value:,.0f}")


def best_compared(rows: Rows) -> int:
    """The number of nodes with which most protocols were run."""
    labels: dict[int, set[tuple[str, str | None]]] = {}
    for row in rows:
        labels.setdefault(row["nodes"], set()).add((row["protocol"], row["variant"]))
    return max(labels, key=lambda nodes: (len(labels[nodes]), -nodes))


def messages(rows: Rows) -> tuple[Any, float, float]:
    """Messages against deliveries while the runs go on."""
    scenarios = scenarios_in(rows)[:4]

    def paint(figure: Figure) -> None:
        panels = figure.subplots(1, len(scenarios), squeeze=False)[0]
        for panel, scenario in zip(panels, scenarios, strict=True):
            own = [row for row in rows if row["scenario"] == scenario]
            size = best_compared(own)
            for label in labels_in(own):
                mine = [
                    row
                    for row in own
                    if (row["protocol"], row["variant"]) == label and row["nodes"] == size
                ]
                if not mine:
                    continue
                came, sent, xs, ys = 0, 0, [0.0], [0.0]
                for row in mine:
                    came += row["arrived"]
                    sent += row["sent"]
                    xs.append(came)
                    ys.append(max(sent, 1))
                panel.plot(xs, ys, "-", color=colour_of(*label), label=name_of(*label))
                panel.plot(xs[-1], ys[-1], "o", color=colour_of(*label), markersize=4)
            panel.set(title=scenario, xlabel="deliveries so far")
            panel.set_yscale("symlog", linthresh=100)
            panel.yaxis.set_major_formatter(_PLAIN)
            panel.xaxis.set_major_formatter(_PLAIN)
            panel.set_ylim(bottom=0)
        panels[0].set_ylabel("messages so far, all nodes")
        legend_below(figure, panels)

    return paint, 3 + 2.6 * len(scenarios), 3.6


def with_crashes(rows: Rows) -> Rows:
    """The time windows of the groups in which a node crashed."""
    struck = {_group(row) for row in rows if row.get("crashed")}
    return [row for row in rows if _group(row) in struck]


def _group(row: dict[str, Any]) -> tuple[object, ...]:
    return row["scenario"], row["protocol"], row["variant"], row["nodes"]


def timeline(rows: Rows) -> tuple[Any, float, float]:
    """Deliveries over time, and when nodes crashed and returned."""
    scenarios = scenarios_in(rows)[:3]

    def paint(figure: Figure) -> None:
        panels = figure.subplots(len(scenarios), 1, squeeze=False)[:, 0]
        for panel, scenario in zip(panels, scenarios, strict=True):
            own = [row for row in rows if row["scenario"] == scenario]
            size = best_compared(own)
            own = [row for row in own if row["nodes"] == size]
            for label in labels_in(own):
                mine = [row for row in own if (row["protocol"], row["variant"]) == label]
                xs = [row["start_ms"] / 1000 for row in mine]
                ys = [row["arrived"] for row in mine]
                panel.step(xs, ys, where="post", color=colour_of(*label), label=name_of(*label))
            for name, mark, colour, what in (
                ("crashed", "v", PAPER, "a node crashes or leaves"),
                ("returned", "^", INK, "a node is started again"),
            ):
                times = sorted({row["start_ms"] / 1000 for row in own if row[name]})
                for at in times:
                    panel.axvline(at, color=colour, linewidth=0.7, alpha=0.5)
                if times:
                    marks = panel.plot(times, [1.04] * len(times), mark, color=colour, label=what)
                    marks[0].set(transform=panel.get_xaxis_transform(), clip_on=False)
                    marks[0].set_in_layout(False)
            panel.set_title(f"{scenario}, {size:,} nodes", pad=14)
            panel.set_ylim(bottom=0)
            panel.yaxis.set_major_formatter(_PLAIN)
            panel.set_ylabel("first deliveries")
        panels[-1].set_xlabel("seconds since the overlay was complete")
        legend_below(figure, panels)

    return paint, 9.5, 1 + 2.6 * len(scenarios)


def loads(rows: Rows) -> tuple[Any, float, float]:
    """The messages that nodes send, from the busiest to the least busy."""
    scenarios = scenarios_in(rows)[:4]

    def paint(figure: Figure) -> None:
        panels = figure.subplots(1, len(scenarios), sharey=True, squeeze=False)[0]
        for panel, scenario in zip(panels, scenarios, strict=True):
            own = [row for row in rows if row["scenario"] == scenario]
            size = best_compared(own)
            for row in own:
                if row["nodes"] != size:
                    continue
                label = row["protocol"], row["variant"]
                panel.plot(
                    range(101),
                    [max(value, 1) for value in reversed(row["sent"])],
                    color=colour_of(*label),
                    label=name_of(*label),
                )
            panel.set(title=f"{scenario}, {size:,} nodes", yscale="log")
            panel.set_xlabel("% of nodes, busiest first")
            panel.yaxis.set_major_formatter(_PLAIN)
            panel.yaxis.set_minor_formatter(NullFormatter())
        panels[0].set_ylabel("messages that a node sends")
        legend_below(figure, panels)

    return paint, 3 + 2.6 * len(scenarios), 3.6


def hops(runs: Rows) -> tuple[Any, float, float]:
    """Hops against the number of nodes, with the fit drawn on to a million nodes."""
    points = hop_means(runs)
    offset, slope = log_fit(points)
    predicted = offset + slope * math.log2(MILLION)

    def paint(figure: Figure) -> None:
        panel = figure.subplots()
        own = [row for row in runs if row["nodes"] in points and is_default(row)]
        colour = colour_of("scoutsubs", "redirect-reliable")
        panel.plot(
            [row["nodes"] for row in own],
            [row["hops_max"] for row in own],
            "_",
            color=QUIET,
            markersize=12,
            label="the longest path in a run",
        )
        panel.plot(
            list(points), list(points.values()), "o", color=colour, label="mean of all paths"
        )
        sizes = [min(points), MILLION]
        panel.plot(
            sizes,
            [offset + slope * math.log2(size) for size in sizes],
            "--",
            color=colour,
            linewidth=1.2,
            label=f"{slope:.2f} hops more with every doubling",
        )
        panel.plot(MILLION, predicted, "D", color=colour, markersize=8, fillstyle="none")
        panel.annotate(
            f"{predicted:.1f} hops at a million nodes",
            (MILLION, predicted),
            xytext=(-10, 10),
            textcoords="offset points",
            ha="right",
            fontweight="bold",
        )
        panel.set(xscale="log", xlabel="nodes", ylabel="hops from publisher to subscriber")
        panel.xaxis.set_major_formatter(_PLAIN)
        panel.set_ylim(0, max([predicted, *(row["hops_max"] for row in own)]) * 1.25)
        panel.legend(loc="lower right")

    return paint, 9.5, 3.8


def is_default(row: dict[str, Any]) -> bool:
    """Whether a run is of ScoutSubs with the default variant, in the scenario normal."""
    return (row["protocol"], row["variant"], row["scenario"]) == (
        "scoutsubs",
        "redirect-reliable",
        "normal",
    )


def hop_means(runs: Rows) -> dict[int, float]:
    """By the number of nodes, the mean of the hops."""
    found: dict[int, list[float]] = {}
    for row in runs:
        if is_default(row):
            found.setdefault(row["nodes"], []).append(row["hops_mean"])
    return {nodes: sum(means) / len(means) for nodes, means in sorted(found.items())}


def duplicates(runs: Rows, paper: Paper) -> tuple[Any, float, float]:
    """Copies to nodes that already had one, beside the paper's duplicates."""
    scenarios = [name for name in scenarios_in(runs) if any(s == name for s, _ in paper.duplicates)]
    labels = [label for label in labels_in(runs) if any(k == label for _, k in paper.duplicates)]

    def paint(figure: Figure) -> None:
        panels = figure.subplots(1, len(scenarios), sharey=True, squeeze=False)[0]
        for panel, scenario in zip(panels, scenarios, strict=True):
            for place, label in enumerate(reversed(labels)):
                mine = [
                    row
                    for row in runs
                    if (row["protocol"], row["variant"], row["scenario"]) == (*label, scenario)
                ]
                delivered = sum(row["delivered"] for row in mine)
                ours = sum(r["wire_duplicates"] for r in mine) / delivered if delivered else 0.0
                theirs = paper.duplicates.get((scenario, label))
                if theirs is not None:
                    panel.barh(place + 0.2, theirs, height=0.34, color=PAPER)
                    _percent(panel, theirs, place + 0.2, PAPER)
                if mine:
                    panel.barh(place - 0.2, ours, height=0.34, color=colour_of(*label))
                    _percent(panel, ours, place - 0.2, INK)
            panel.set(title=scenario, xlim=(0, 0.24))
            panel.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
            panel.set_yticks(
                range(len(labels)), [name_of(*label) for label in reversed(labels)], color=INK
            )
            panel.grid(visible=False, axis="y")

    return paint, 2.5 + 2.3 * len(scenarios), 1 + 0.55 * len(labels)


def _percent(panel: Any, share: float, place: float, colour: str) -> None:
    panel.annotate(
        f"{share:.1%}",
        (share, place),
        xytext=(3, 0),
        textcoords="offset points",
        va="center",
        fontsize=8,
        color=colour,
    )
