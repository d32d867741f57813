"""Figures by topic, and of coverage."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter, PercentFormatter

from smartpubsub.reports.latency_figures import Rows, labels_in, scenarios_in
from smartpubsub.reports.looks import INK, PAPER, QUIET, colour_of, legend_below, name_of
from smartpubsub.reports.papers import Label, Paper

TOPICS_MAX = 25
SCENARIOS_MAX = 4

_PLAIN = FuncFormatter(lambda value, _: f"{value:,.0f}")


def is_slow(row: dict[str, Any]) -> bool:
    """Whether a run is over slow links, as the papers define them."""
    return bool(row.get("link_jitter_ms"))


def busiest(rows: Rows) -> list[dict[str, Any]]:
    """The rows of the scenario and number of nodes with the most rows."""
    amounts: dict[tuple[str, int], int] = {}
    for row in rows:
        key = row["scenario"], row["nodes"]
        amounts[key] = amounts.get(key, 0) + row["injected"]
    best = max(amounts, key=lambda key: (amounts[key], key))
    return [row for row in rows if (row["scenario"], row["nodes"]) == best]


def topics(rows: Rows) -> tuple[Any, float, float]:
    """Events, subscriptions and copies of each topic."""
    mine = busiest(rows)
    label = labels_in(mine)[0]
    one = [row for row in mine if _label(row) == label]
    one = sorted(one, key=lambda row: (-row["injected"], -row["subscriptions"]))[:TOPICS_MAX]
    kinds = {
        "injected": "Events of a topic",
        "subscriptions": "Subscriptions to it",
        "copies": "Copies that nodes received",
    }

    def paint(figure: Figure) -> None:
        panels = figure.subplots(1, len(kinds), sharey=True)
        names = [row["topic"] for row in one]
        for panel, (key, title) in zip(panels, kinds.items(), strict=True):
            values = [row[key] / row["runs"] for row in one]
            panel.set_title(title)
            panel.grid(visible=False, axis="y")
            # The length of a bar says nothing where equal distances are equal factors.
            if max(values) > 50 * max(1, min(values)):
                panel.plot(values, names, "o", color=colour_of(*label))
                panel.set_xscale("symlog", linthresh=1)
                panel.xaxis.set_minor_formatter(NullFormatter())
            else:
                panel.barh(names, values, color=colour_of(*label), height=0.65)
            panel.xaxis.set_major_formatter(_PLAIN)
            for name, value in zip(names, values, strict=True):
                panel.annotate(
                    f"{value:,.0f}",
                    (value, name),
                    xytext=(4, 0),
                    textcoords="offset points",
                    va="center",
                    fontsize=8,
                )
            panel.margins(x=0.18)
        panels[0].tick_params(axis="y", labelcolor=INK)
        panels[0].set_ylim(len(names) - 0.4, -0.6)

    return paint, 9.5, 1.2 + 0.3 * len(one)


def coverage(rows: Rows) -> tuple[Any, float, float]:
    """The expected deliveries of each topic, and the share that was made, for every protocol."""
    size = busiest(rows)[0]["nodes"]
    mine = [row for row in rows if row["nodes"] == size]
    scenarios = scenarios_in(mine)[:SCENARIOS_MAX]
    labels = labels_in(mine)
    owed: dict[str, float] = {}
    for row in mine:
        owed[row["topic"]] = max(owed.get(row["topic"], 0), row["expected"] / row["runs"])
    wanted = sorted((topic for topic in owed if owed[topic]), key=lambda t: -owed[t])[:TOPICS_MAX]

    def paint(figure: Figure) -> None:
        first, *panels = figure.subplots(
            1, 1 + len(scenarios), sharey=True, width_ratios=[0.8, *[1.0] * len(scenarios)]
        )
        first.plot([owed[topic] for topic in wanted], range(len(wanted)), "o", color=QUIET)
        first.set(title="Owed", xscale="log", xlabel="deliveries in a run")
        first.xaxis.set_major_formatter(_PLAIN)
        first.xaxis.set_minor_formatter(NullFormatter())
        first.grid(visible=False, axis="y")
        first.set_yticks(range(len(wanted)), wanted, color=INK)
        first.set_ylim(len(wanted) - 0.4, -0.6)
        for panel, scenario in zip(panels, scenarios, strict=True):
            for number, label in enumerate(labels):
                own = {
                    r["topic"]: r for r in mine if (r["scenario"], _label(r)) == (scenario, label)
                }
                shift = (number - (len(labels) - 1) / 2) * min(0.16, 0.8 / len(labels))
                panel.plot(
                    [_share(own.get(topic)) for topic in wanted],
                    [place + shift for place in range(len(wanted))],
                    "o",
                    color=colour_of(*label),
                    label=name_of(*label),
                )
            panel.set(title=scenario, xlim=(-0.03, 1.05), xlabel="delivered, of the expected")
            panel.xaxis.set_major_formatter(PercentFormatter(1.0))
        legend_below(figure, panels)

    return paint, 4 + 2.4 * len(scenarios), 1.7 + 0.36 * len(wanted)


def _share(row: dict[str, Any] | None) -> float:
    return row["delivered"] / row["expected"] if row and row["expected"] else float("nan")


def coverage_beside(runs: Rows, paper: Paper) -> tuple[Any, float, float]:
    """Coverage beside the paper's."""
    labels = labels_in(runs)
    kinds = {False: "Fast links", True: "Slow links"}

    def paint(figure: Figure) -> None:
        panels = figure.subplots(1, len(kinds), sharey=True)
        for panel, (slow, title) in zip(panels, kinds.items(), strict=True):
            for place, label in enumerate(reversed(labels)):
                mine = [row for row in runs if _label(row) == label and is_slow(row) == slow]
                theirs = paper.coverage_of(label, slow)
                if theirs is not None:
                    _bar(panel, theirs.injected, place + 0.2, PAPER)
                if mine:
                    expected = sum(row["expected"] for row in mine)
                    delivered = sum(row["delivered"] for row in mine)
                    share = delivered / expected if expected else 1.0
                    _bar(panel, share, place - 0.2, colour_of(*label))
            panel.set(title=title, xlim=(0, 1.18))
            panel.set_xticks([0, 0.25, 0.5, 0.75, 1])
            panel.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
            panel.set_yticks(
                range(len(labels)), [name_of(*label) for label in reversed(labels)], color=INK
            )
            panel.grid(visible=False, axis="y")

    return paint, 9.5, 1 + 0.6 * len(labels)


def _bar(panel: Any, share: float, place: float, colour: str) -> None:
    panel.barh(place, share, height=0.34, color=colour)
    text = "100%" if share == 1 else f"{min(share, 0.9999):.2%}" if share > 0.99 else f"{share:.0%}"
    panel.annotate(
        text,
        (share, place),
        xytext=(3, 0),
        textcoords="offset points",
        va="center",
        fontsize=8,
        color=PAPER if colour == PAPER else INK,
    )


def _label(row: dict[str, Any]) -> Label:
    return row["protocol"], row["variant"]
