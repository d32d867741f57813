"""The report of a soak: the resource use of each node over time, on one page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from smartpubsub.reports.looks import MORE_COLOURS, draw, legend_below
from smartpubsub.reports.page import Card, Section, page, table

PAGE = "soak.html"
FIGURE = "usage"
_PANELS = {
    "rss_mb": "Resident memory, MB",
    "files": "Open files",
    "threads": "Threads",
    "disk_mb": "Disk, MB",
}
_DASHES = ("-", "--", ":", "-.")


def write_soak_report(found: dict[str, Any], folder: Path) -> Path:
    """Write the page and the chart of a soak's document; return the path of the page."""
    drawn = draw(folder, FIGURE, lambda figure: _paint(figure, found), width=11, height=7.5)
    sections = [
        Section(
            name=FIGURE,
            title="Resource use of each node",
            text="Each line is a node; it has a gap where the node's process was replaced.",
            body=drawn,
        ),
        Section(
            name="growth",
            title="Growth",
            text=f"In an hour, for the longest-lived process of each node, from"
            f" {found['warm_up_s']:,.0f} s after its start: the median of the slopes between all"
            " pairs of samples.",
            body=_growth_table(found),
        ),
        Section(name="faults", title="Faults", text=_faults_text(found), body=_faults_table(found)),
        Section(
            name="violations",
            title="Violations",
            text="Violations of invariants.",
            body=table(
                ("node", "what"),
                [(str(v["node"]), v["what"]) for v in found["violations"]] or [("-", "none")],
                paper="paper",
            ),
        ),
    ]
    text = page(
        title=f"Soak of {found['nodes']} nodes",
        about=f"{found['protocol']}, {found['seconds']:,} s, {found['rate']:,} events a second.",
        cards=_cards(found),
        sections=sections,
        notes=f"seed {found['seed']}; full disks: {found['disks']}",
    )
    path = folder / PAGE
    path.write_text(text, encoding="utf-8")
    return path


def _cards(found: dict[str, Any]) -> list[Card]:
    grown = [usage["rss_mb"]["growth_per_hour"] for usage in found["usage"]]
    known = [one for one in grown if one is not None]
    return [
        Card(value=f"{found['missing']:,}", what=f"of {found['expected']:,} deliveries missing"),
        Card(value=f"{len(found['violations']):,}", what="violations"),
        Card(value=f"{found['publish_ms']['p99']:,} ms", what="to acknowledge an event, p99"),
        Card(
            value=f"{max(known):+.2f} MB" if known else "-",
            what="an hour: the largest growth of memory",
        ),
    ]


def _paint(figure: Figure, found: dict[str, Any]) -> None:
    panels = figure.subplots(2, 2, sharex=True).flat
    columns = found["samples"]["columns"]
    for (name, title), panel in zip(_PANELS.items(), panels, strict=True):
        place = columns.index(name)
        for number, (node, taken) in enumerate(found["samples"]["nodes"].items()):
            minutes: list[float] = []
            values: list[float] = []
            for before, one in zip([taken[0], *taken], taken, strict=False):
                if before[1] != one[1]:  # A new process begins here.
                    minutes.append(one[0] / 60)
                    values.append(float("nan"))
                minutes.append(one[0] / 60)
                values.append(one[place])
            colour = MORE_COLOURS[number % len(MORE_COLOURS)][0]
            dashes = _DASHES[number // len(MORE_COLOURS) % len(_DASHES)]
            panel.plot(minutes, values, color=colour, linestyle=dashes, label=f"node {node}")
        panel.set_title(title)
        if name != "rss_mb":  # Most memory is shared, so only its growth matters.
            panel.set_ylim(bottom=0)
        panel.set_xlabel("minutes")
    legend_below(figure, figure.axes, columns=5)


def _growth_table(found: dict[str, Any]) -> str:
    rows = []
    for usage in found["usage"]:
        grown = (usage[name]["growth_per_hour"] for name in _PANELS)
        texts = ("-" if one is None else f"{one:+,.2f}" for one in grown)
        over = f"{usage['growth_over_s']:,.0f}"
        rows.append((str(usage["node"]), str(usage["starts"]), *texts, over))
    return table(("node", "starts", *_PANELS.values(), "over s"), rows, paper="paper")


def _faults_text(found: dict[str, Any]) -> str:
    without = ", ".join(found["without"])
    return f"Left out: {without}." if without else "All kinds were injected."


def _faults_table(found: dict[str, Any]) -> str:
    rows = [(kind, f"{times:,}") for kind, times in found["faults"].items()]
    return table(("kind", "times"), rows or [("none", "-")], paper="paper")
