"""The chart of `sim study adversaries`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from smartpubsub.reports.charts import chart
from smartpubsub.sim.studies.adversaries import Withstood


def plot_adversaries(found: Sequence[Withstood], path: Path) -> None:
    """The share of events delivered in time under each attack, and the cost in messages."""
    attacks = list(dict.fromkeys(one.attack for one in found))
    systems = list(dict.fromkeys(f"{one.protocol}\n{one.resilience}" for one in found))
    runs = {(one.attack, f"{one.protocol}\n{one.resilience}"): one for one in found}
    calm = {system: run for (attack, system), run in runs.items() if attack == "none"}

    def share(attack: str, system: str) -> float:
        return 100 * runs[attack, system].share_within_30_s

    def cost(attack: str, system: str) -> float:
        return runs[attack, system].messages / max(1, calm[system].messages)

    with chart(path, width=3 + 1.8 * len(systems), height=2 + 0.4 * len(attacks)) as figure:
        panels = figure.subplots(1, 2, sharey=True)
        _draw(panels[0], share, attacks, systems, "{:.1f}", "Delivered in 30 s, %", 50, 100)
        title = "Messages, times those without an attack"
        _draw(panels[1], cost, attacks, systems, "{:.2g}", title, 10, 1)


def _draw(
    panel: Any,
    value: Callable[[str, str], float],
    attacks: Sequence[str],
    systems: Sequence[str],
    written: str,
    title: str,
    worst: float,
    best: float,
) -> None:
    """Draw a field for each run; greener is better."""
    values = [[value(attack, system) for system in systems] for attack in attacks]
    goodness = [[(one - worst) / (best - worst) for one in row] for row in values]
    panel.imshow(goodness, cmap="RdYlGn", vmin=-0.3, vmax=1.3, aspect="auto")
    for place, row in enumerate(values):
        for column, one in enumerate(row):
            panel.text(column, place, written.format(one), ha="center", va="center", fontsize=8)
    panel.set_xticks([*range(len(systems))], labels=systems, fontsize=8)
    panel.set_yticks([*range(len(attacks))], labels=attacks, fontsize=8)
    panel.set_title(title, fontsize=10)
