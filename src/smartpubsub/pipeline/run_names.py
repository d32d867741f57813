"""The names of runs in figures: runs that differ only in their seed share one."""

from __future__ import annotations

from typing import Any, TypeAlias

from smartpubsub.protocols.registry import PROTOCOLS

Rows: TypeAlias = list[dict[str, Any]]

ORDERED = "ordered"
"""The variant of protocols with topics in which topics keep one order."""
_LINKS = ("link_latency_ms", "link_jitter_ms", "link_loss")


def named_apart(rows: Rows) -> Rows:
    """Rename rows: slower links make another scenario, ordered topics another variant.

    The fastest links of a scenario are not named; runs without link data count as such.
    """
    quickest: dict[str, tuple[float, ...]] = {}
    for row in rows:
        name, links = row["scenario"], _links_of(row)
        quickest[name] = min(links, quickest.get(name, links))
    return [
        {
            **row,
            "scenario": row["scenario"] + _links_text(row, quickest[row["scenario"]]),
            "variant": _variant_of(row),
        }
        for row in rows
    ]


def _links_of(row: dict[str, Any]) -> tuple[float, ...]:
    return tuple(row.get(name) or 0.0 for name in _LINKS)


def _links_text(row: dict[str, Any], quickest: tuple[float, ...]) -> str:
    links = _links_of(row)
    if links == quickest:
        return ""
    latency, jitter, loss = links
    times = f"{latency:g} to {latency + jitter:g} ms" if jitter else f"{latency:g} ms"
    return f", {times}" + (f", {loss:.3g} lost" if loss else "")


def _variant_of(row: dict[str, Any]) -> str | None:
    spec = PROTOCOLS.specs.get(row["protocol"])  # It may not be registered now.
    if spec is not None and spec.has_only_topics and row.get("ordered"):
        return ORDERED
    variant: str | None = row["variant"]
    return variant
