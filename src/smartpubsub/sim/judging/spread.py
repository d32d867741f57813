"""Means, deviations and percentiles."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from statistics import fmean, pstdev


def spread(values: Sequence[float], *names: str) -> dict[str, float]:
    """Some of mean, sd, p50, p95, p99 and max; zeros without values.

    >>> spread([1, 2, 3, 10], "mean", "p50", "max")
    {'mean': 4, 'p50': 2, 'max': 10}
    """
    ordered = sorted(values) or [0]
    return {name: _figure(ordered, name) for name in names}


def _figure(ordered: Sequence[float], name: str) -> float:
    match name:
        case "mean":
            return _short(fmean(ordered))
        case "sd":
            return _short(pstdev(ordered))
        case "max":
            return _short(ordered[-1])
    share = int(name.removeprefix("p")) / 100
    return _short(ordered[ceil(len(ordered) * share) - 1])


def _short(value: float) -> float:
    """Round to three decimals, a microsecond in milliseconds; whole numbers stay integers."""
    rounded = round(value, 3)
    return int(rounded) if rounded == int(rounded) else rounded
