"""The tree of an attribute, with the path of one subscription through it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

from matplotlib.axes import Axes

from smartpubsub.reports.charts import chart
from smartpubsub.sim.experiments.route import Route

Places: TypeAlias = Mapping[str, tuple[float, float]]
"""The position of each node: horizontally, and in hops below the rendezvous."""

NODES_NAMED_MAX = 80
"""In a larger tree only the path has names."""
WIDTH_MAX = 20.0

_ORANGE, _BLUE, _GREEN, _GREY = "#d1762a", "#1b6ca8", "#5a9e4b", "#888888"


def places_in(rendezvous: str, parents: Mapping[str, str]) -> dict[str, tuple[float, float]]:
    """Place leaves side by side, and every other node above the middle of its children.

    >>> places_in("top", {"left": "top", "right": "top"})
    {'left': (0.0, 1), 'right': (1.0, 1), 'top': (0.5, 0)}
    """
    below: dict[str, list[str]] = {}
    for child, parent in parents.items():
        below.setdefault(parent, []).append(child)
    found: dict[str, tuple[float, float]] = {}
    leaf_count = 0
    pending = [(rendezvous, 0, False)]
    while pending:
        node, depth, is_below_done = pending.pop()
        children = below.get(node, [])
        if is_below_done:
            across = [found[child][0] for child in children]
            found[node] = ((min(across) + max(across)) / 2, depth)
        elif children:
            pending.append((node, depth, True))
            pending += [(child, depth + 1, False) for child in reversed(children)]
        else:
            found[node] = (float(leaf_count), depth)
            leaf_count += 1
    return found


def plot_route(route: Route, path: Path) -> None:
    """Draw the tree of the attribute that the predicate is kept under."""
    tree = route.tree
    way = [stop.node for stop in route.stops]
    # A node that has not subscribed is not in the tree, but has a path into it.
    parents = {**dict(pairwise(way)), **tree.parents}
    parents.pop(tree.rendezvous, None)
    places = places_in(tree.rendezvous, parents)
    width = min(WIDTH_MAX, max(8.0, len(places) / 5))
    with chart(path, width=width, height=6) as figure:
        panel = figure.subplots()
        edges = [(child, parent) for child, parent in parents.items() if child in places]
        _draw_lines(panel, places, edges, color="#cccccc", linewidth=1, label="child to parent")
        _draw_lines(
            panel, places, tree.shortcuts, color=_GREEN, linestyle="--", label="shortcut offered"
        )
        _draw_lines(panel, places, pairwise(way), color=_ORANGE, linewidth=3, label="the way up")
        subscribers = dict.fromkeys(tree.subscribers)
        relays = [node for node in places if node not in {*subscribers, tree.rendezvous}]
        _draw_dots(panel, places, relays, color=_GREY, label="passes on")
        _draw_dots(panel, places, list(subscribers), color=_BLUE, label="subscribed")
        x, y = places[tree.rendezvous]
        panel.plot([x], [y], "*", color=_ORANGE, markersize=18, label="rendezvous", zorder=4)
        _write_names(panel, places, parents, way)
        panel.invert_yaxis()
        panel.set_xticks([])
        panel.set_yticks(sorted({depth for _, depth in places.values()}))
        panel.set_ylabel("hops to the rendezvous")
        panel.set_title(f"{route.predicate} by {tree.attribute}", parse_math=False)
        panel.margins(y=0.15)
        panel.legend()


def _draw_lines(
    panel: Axes, places: Places, pairs: Iterable[tuple[str, str]], *, label: str, **style: Any
) -> None:
    drawn = [pair for pair in pairs if all(node in places for node in pair)]
    for pair in drawn:
        xs, ys = zip(*(places[node] for node in pair), strict=True)
        panel.plot(xs, ys, label=label if pair is drawn[0] else None, zorder=2, **style)


def _draw_dots(panel: Axes, places: Places, nodes: list[str], *, color: str, label: str) -> None:
    drawn = [places[node] for node in nodes if node in places]
    if drawn:
        xs, ys = zip(*drawn, strict=True)
        panel.plot(xs, ys, "o", color=color, markersize=6, label=label, zorder=3)


def _write_names(panel: Axes, places: Places, parents: Mapping[str, str], way: list[str]) -> None:
    inner = dict.fromkeys([*parents.values(), way[-1]])
    for node, place in places.items():
        if node in way or len(places) <= NODES_NAMED_MAX:
            weight = "bold" if node in way else "normal"
            if node in inner:  # Dots and names are drawn over lines.
                style: dict[str, Any] = {"xytext": (0, 9), "va": "bottom", "ha": "center"}
            else:
                style = {"xytext": (0, -7), "va": "top", "ha": "center", "rotation": 90}
            style |= {"textcoords": "offset points", "fontsize": 8, "fontweight": weight}
            panel.annotate(node, place, parse_math=False, **style)
