"""Figures of latency."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from smartpubsub.reports.looks import GRID, INK, MORE_COLOURS, PAPER, QUIET, colour_of, name_of
from smartpubsub.reports.papers import Label, Paper

Rows: TypeAlias = Sequence[dict[str, Any]]

_PLAIN = FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}")


def labels_in(rows: Rows) -> list[Label]:
    """The protocols and variants in rows, in the order of figures.

    >>> labels_in([{"protocol": name, "variant": None} for name in ("toy", "floodsub")])
    [('floodsub', None), ('toy', None)]
    """
    order = ["scoutsubs", "fastdelivery", "pulsarcast", "gossipsub", "floodsub"]
    variants = [
        "redirect-reliable",
        "redirect-unreliable",
        "base-reliable",
        "base-unreliable",
        None,
        "ordered",
    ]
    found = {(row["protocol"], row["variant"]): None for row in rows}
    # Protocols of other packages come last, in the order of their names.
    order += sorted({protocol for protocol, _ in found} - {*order})
    variants += sorted({str(variant) for _, variant in found} - {*map(str, variants)})
    return sorted(found, key=lambda label: (order.index(label[0]), variants.index(label[1])))


def scenarios_in(rows: Rows) -> list[str]:
    """The scenarios in rows, those of the papers first."""
    known = ["normal", "sub-burst", "event-burst", "fault", "replication", "reddit", "power-law"]
    found = {row["scenario"]: None for row in rows}
    # The same scenario over other links is shown beside it.
    return sorted(found, key=lambda name: (_place(name.partition(",")[0], known), name))


def _place(name: str, known: Sequence[str]) -> int:
    return known.index(name) if name in known else len(known)


def histograms(rows: Rows, paper: Paper | None) -> tuple[Any, float, float]:
    """A panel for each scenario and protocol: how many deliveries took how long."""
    labels, scenarios = labels_in(rows), scenarios_in(rows)
    counts: dict[tuple[str, Label], dict[int, int]] = {}
    for row in rows:
        panel = counts.setdefault((row["scenario"], (row["protocol"], row["variant"])), {})
        panel[row["ms"]] = panel.get(row["ms"], 0) + row["count"]
    top = max(row["ms"] for row in rows)
    high = max([top + 1, *(p.max for p in paper.latency.values())] if paper else [top + 1]) * 1.4
    edges = np.geomspace(1, max(high, 10), 60)

    def paint(figure: Figure) -> None:
        panels = figure.subplots(
            len(labels), len(scenarios), sharex=True, squeeze=False, gridspec_kw={"hspace": 0.06}
        )
        for r, label in enumerate(labels):
            for c, scenario in enumerate(scenarios):
                panel = panels[r][c]
                panel.set_xscale("log")
                panel.set_yticks([])
                panel.spines["left"].set_visible(False)
                panel.grid(visible=False, axis="y")
                panel.xaxis.set_major_formatter(_PLAIN)
                panel.xaxis.set_minor_formatter(NullFormatter())
                found = counts.get((scenario, label))
                if found:
                    ms = np.array([max(one, 1) for one in found])
                    panel.hist(
                        ms, edges, weights=list(found.values()), color=colour_of(*label), alpha=0.9
                    )
                    mean = float(np.average([m + 0.5 for m in found], weights=list(found.values())))
                    panel.axvline(mean, color=INK, linewidth=1)
                    middle = median(found)
                    panel.axvline(middle, color=INK, linewidth=1, linestyle=":")
                    panel.annotate(
                        f"{mean:,.0f} ms\nmedian {middle:,.0f}",
                        (mean, 0.97),
                        xycoords=("data", "axes fraction"),
                        xytext=(4, 0),
                        textcoords="offset points",
                        va="top",
                        fontsize=8,
                    )
                else:
                    panel.annotate(
                        "not run", (0.5, 0.4), xycoords="axes fraction", ha="center", color=QUIET
                    )
                theirs = paper.latency.get((scenario, label)) if paper else None
                if theirs:
                    panel.plot(
                        [theirs.mean, theirs.max], [0, 0], color=PAPER, linewidth=2, clip_on=False
                    )
                    panel.axvline(theirs.mean, color=PAPER, linewidth=1.2, linestyle=(0, (3, 2)))
                    panel.annotate(
                        f"{theirs.mean:,.0f}",
                        (theirs.mean, 0.97),
                        xycoords=("data", "axes fraction"),
                        xytext=(3, 0),
                        textcoords="offset points",
                        va="top",
                        fontsize=8,
                        color=PAPER,
                    )
                if r == 0:
                    panel.set_title(scenario)
                if c == 0:
                    panel.set_ylabel(
                        name_of(*label), rotation=0, ha="right", va="center", color=INK
                    )
        figure.supxlabel("milliseconds from publish to delivery", fontsize=9, color=QUIET)

    return paint, 3 + 2.1 * len(scenarios), 1 + 0.85 * len(labels)


def median(counts: dict[int, int]) -> int:
    """The median of values that were counted.

    >>> median({10: 3, 500: 2})
    10
    """
    left = sum(counts.values()) / 2
    for value in sorted(counts):
        left -= counts[value]
        if left <= 0:
            return value
    return 0


def against_paper(runs: Rows, paper: Paper) -> tuple[Any, float, float]:
    """Mean latencies beside the paper's, a line from theirs to ours."""
    scenarios = [name for name in scenarios_in(runs) if any(s == name for s, _ in paper.latency)]
    ours: dict[tuple[str, Label], list[float]] = {}
    for row in runs:
        if row["nodes"] == paper.nodes or all(r["nodes"] != paper.nodes for r in runs):
            key = row["scenario"], (row["protocol"], row["variant"])
            ours.setdefault(key, []).append(row["latency_ms_mean"])

    def paint(figure: Figure) -> None:
        panels = figure.subplots(1, len(scenarios), sharey=True, squeeze=False)[0]
        shown = [label for label in labels_in(runs) if any(k[1] == label for k in ours)]
        for panel, scenario in zip(panels, scenarios, strict=True):
            for place, label in enumerate(reversed(shown)):
                values = ours.get((scenario, label))
                theirs = paper.latency.get((scenario, label))
                mean = sum(values) / len(values) if values else None
                if theirs and mean:
                    panel.plot([mean, theirs.mean], [place, place], color=GRID, linewidth=3)
                if theirs:
                    panel.plot(theirs.mean, place, "o", color=PAPER, markersize=7)
                    panel.annotate(
                        f"{theirs.mean:,.0f}",
                        (theirs.mean, place),
                        xytext=(0, 7),
                        textcoords="offset points",
                        ha="center",
                        fontsize=8,
                        color=PAPER,
                    )
                if mean:
                    panel.plot(mean, place, "o", color=colour_of(*label), markersize=8)
                    panel.annotate(
                        f"{mean:,.0f}",
                        (mean, place),
                        xytext=(0, 7),
                        textcoords="offset points",
                        ha="center",
                        fontsize=8,
                    )
            panel.set(xscale="log", title=scenario, xlim=(8, 6000), ylim=(-0.6, len(shown) - 0.3))
            panel.xaxis.set_major_formatter(_PLAIN)
            panel.xaxis.set_minor_formatter(NullFormatter())
            panel.set_yticks(
                range(len(shown)), [name_of(*label) for label in reversed(shown)], color=INK
            )
            panel.grid(visible=False, axis="y")
        figure.supxlabel("mean milliseconds from publish to delivery", fontsize=9, color=QUIET)

    return paint, 2.5 + 2.3 * len(scenarios), 1.1 + 0.45 * len(labels_in(runs))


def replication(stages: Rows) -> tuple[Any, float, float]:
    """The cost of more backups, while subscriptions increase."""
    backups = sorted({row["backups"] for row in stages})

    def paint(figure: Figure) -> None:
        panels = figure.subplots(1, 2)
        titles = ("Events: publish to delivery", "Subscriptions: subscribe to in force")
        for panel, key, title in zip(panels, ("event_ms", "subscription_ms"), titles, strict=True):
            for (colour, _), copies in zip(MORE_COLOURS, backups, strict=False):
                mine = [r for r in stages if r["backups"] == copies and r[key] is not None]
                panel.plot(
                    [row["stage"] for row in mine],
                    [row[key] for row in mine],
                    "o-",
                    color=colour,
                    label=f"f = {copies}",
                )
            panel.set(title=title, xlabel="subscriptions of a subscriber", ylabel="ms, mean")
            highest = max((row[key] or 0 for row in stages), default=0)
            panel.set_ylim(0, 1.15 * highest or 1)
            panel.set_xticks(sorted({row["stage"] for row in stages}))
        panels[0].legend()

    return paint, 9.5, 3.4
