"""The look of all figures of a report, on a light or a dark page.

Figures are drawn in the colours of the light page. In the page itself, every colour is replaced by
a variable that has another value in the dark scheme.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from io import StringIO
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

INK, QUIET, GRID, PAPER = "#1f2430", "#6b7280", "#d9dde4", "#c2410c"

COLOURS: dict[tuple[str, str | None], tuple[str, str]] = {
    ("scoutsubs", "redirect-reliable"): ("#1d5fbf", "#6ea8ff"),
    ("scoutsubs", "redirect-unreliable"): ("#5b9bd5", "#9cc7f5"),
    ("scoutsubs", "base-reliable"): ("#0f766e", "#4fd1c5"),
    ("scoutsubs", "base-unreliable"): ("#59a89c", "#9be3d8"),
    ("fastdelivery", None): ("#7c3aed", "#b79bff"),
    ("pulsarcast", None): ("#be185d", "#f48fb9"),
    ("pulsarcast", "ordered"): ("#831843", "#fbcfe3"),
    ("gossipsub", None): ("#4d7c0f", "#a8d65c"),
    ("floodsub", None): ("#8a8f98", "#a9afba"),
}
"""The colours of a protocol and variant, on a light page and on a dark one."""
MORE_COLOURS = (
    ("#1d5fbf", "#6ea8ff"),
    ("#0f766e", "#4fd1c5"),
    ("#7c3aed", "#b79bff"),
    ("#b45309", "#f3b05a"),
    ("#be185d", "#f48fb9"),
)
"""For lines that are not protocols."""

_NAMED = {
    INK: ("ink", "#e6e9ef"),
    QUIET: ("quiet", "#9aa3b2"),
    GRID: ("grid", "#343b49"),
    PAPER: ("paper", "#ff9b66"),
    **{
        light: (f"c{n}", dark) for n, (light, dark) in enumerate([*COLOURS.values(), *MORE_COLOURS])
    },
}

PIXELS_PER_INCH_MAX = 122

_STYLE: Any = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9.5,
    "text.color": INK,
    "axes.labelcolor": QUIET,
    "axes.edgecolor": GRID,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "xtick.color": QUIET,
    "ytick.color": QUIET,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "xtick.minor.size": 0,
    "ytick.minor.size": 0,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "lines.linewidth": 1.8,
    "lines.markersize": 5,
    "savefig.transparent": True,
}


def variables(*, dark: bool) -> str:
    """The colours as variables of a style sheet."""
    return "".join(f"--{name}:{there if dark else here};" for here, (name, there) in _NAMED.items())


def colour_of(protocol: str, variant: str | None) -> str:
    """The colour that a protocol has in all figures."""
    return COLOURS.get((protocol, variant), (QUIET, QUIET))[0]


def name_of(protocol: str, variant: str | None) -> str:
    """The name of a protocol in a figure.

    >>> name_of("scoutsubs", "base-reliable"), name_of("pulsarcast", "ordered")
    ('Base, reliable', 'Pulsarcast, ordered')
    """
    if variant is not None and protocol != "scoutsubs":
        return f"{name_of(protocol, None)}, {variant}"
    if variant is not None:
        return variant.capitalize().replace("-", ", ")
    return {"gossipsub": "GossipSub", "fastdelivery": "FastDelivery"}.get(
        protocol, protocol.capitalize()
    )


def draw(
    folder: Path, name: str, paint: Callable[[Figure], None], *, width: float, height: float
) -> str:
    """Paint a figure, write it as PNG and SVG, and return it for the page."""
    with mpl.rc_context({**_STYLE, "svg.hashsalt": name}):
        figure = Figure(figsize=(width, height), layout="constrained")
        paint(figure)
        text = StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None})
        (folder / f"{name}.svg").write_text(text.getvalue(), encoding="utf-8")
        figure.savefig(folder / f"{name}.png", dpi=150, transparent=False, facecolor="white")
    return for_page(text.getvalue(), name, width)


def for_page(svg: str, name: str, width: float) -> str:
    """A figure as part of a page: with named colours and unique ids.

    It fills the page, unless its letters would become larger than the page's text.
    """
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r'(width|height)="[\d.]+pt"', "", svg, count=2)
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', svg)
    svg = re.sub(r'(href="#|url\(#)', rf"\1{name}-", svg)
    for colour, (variable, _) in _NAMED.items():
        svg = svg.replace(colour, f"var(--{variable})")
    svg = re.sub(r"font: ([^;\"]*)'DejaVu Sans'[^;\"]*", r"font: \1var(--font)", svg)
    size = f'style="max-width:{width * PIXELS_PER_INCH_MAX:.0f}px"'
    return svg.replace("<svg ", f'<svg role="img" aria-labelledby="{name}-title" {size} ', 1)


def legend_below(figure: Figure, panels: Iterable[Axes], columns: int = 4) -> None:
    """One legend for all panels, where it hides nothing."""
    named: dict[str, Any] = {}
    for panel in panels:
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            named.setdefault(label, handle)
    figure.legend(list(named.values()), list(named), loc="outside lower center", ncols=columns)
