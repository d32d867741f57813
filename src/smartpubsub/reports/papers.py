"""The papers' measurements, to show beside ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple, TypeVar

Label = tuple[str, str | None]
"""A protocol and its variant."""


class Latency(NamedTuple):
    """The latency of events in milliseconds."""

    mean: float
    max: float


class Usage(NamedTuple):
    """The mean resource use of a node."""

    memory_mb: float
    cpu_s: float


class Coverage(NamedTuple):
    """Coverage, the network's traffic, and a node's memory."""

    label: Label
    is_slow: bool
    """Whether links had 500 ms of latency and 300 ms of jitter."""
    injected: float
    published: float
    network_mib: float
    memory_gib: float
    """The mean over nodes."""


@dataclass(frozen=True, kw_only=True)
class Paper:
    """The figures of one paper."""

    name: str
    nodes: int
    latency: Mapping[tuple[str, Label], Latency] = field(default_factory=dict)
    """The latency by scenario and label."""
    duplicates: Mapping[tuple[str, Label], float] = field(default_factory=dict)
    """Duplicates at the application, as a share of deliveries."""
    usage: Mapping[tuple[str, Label], Usage] = field(default_factory=dict)
    delivered: Mapping[tuple[str, int], tuple[float, float]] = field(default_factory=dict)
    """The range of the papers' shares, by scenario and number of nodes."""
    coverage: tuple[Coverage, ...] = ()

    def coverage_of(self, label: Label, is_slow: bool) -> Coverage | None:
        """The coverage of a run, if it was measured."""
        found = (c for c in self.coverage if (c.label, c.is_slow) == (label, is_slow))
        return next(found, None)


_VARIANTS = ("base-unreliable", "base-reliable", "redirect-unreliable", "redirect-reliable")

Figure = TypeVar("Figure")


def _by_variant(rows: Mapping[str, Sequence[Figure]]) -> dict[tuple[str, Label], Figure]:
    return {
        (scenario, ("scoutsubs", variant)): figure
        for scenario, row in rows.items()
        for variant, figure in zip(_VARIANTS, row, strict=True)
    }


SMARTPUBSUB = Paper(
    name="SmartPubSub (2021)",
    nodes=60,
    latency={
        **_by_variant(
            {
                "normal": [
                    Latency(202, 373),
                    Latency(209, 427),
                    Latency(254, 599),
                    Latency(212, 359),
                ],
                "sub-burst": [
                    Latency(202, 369),
                    Latency(221, 534),
                    Latency(250, 576),
                    Latency(219, 405),
                ],
                "event-burst": [
                    Latency(1788, 6489),
                    Latency(2505, 9730),
                    Latency(1954, 6572),
                    Latency(2313, 8464),
                ],
                "fault": [
                    Latency(206, 527),
                    Latency(210, 470),
                    Latency(269, 620),
                    Latency(212, 504),
                ],
            }
        ),
        ("normal", ("fastdelivery", None)): Latency(212, 472),
    },
    duplicates={
        **_by_variant(
            {
                "normal": [0.1697, 0.1072, 0.1161, 0.09822],
                "sub-burst": [0.1697, 0.1072, 0.1161, 0.09822],
                "event-burst": [0.06954, 0.1233, 0.04611, 0.06728],
                "fault": [0.1667, 0.08334, 0.1204, 0.08334],
            }
        ),
        ("normal", ("fastdelivery", None)): 0.0,
    },
    usage=_by_variant(
        {
            "normal": [Usage(57.3, 4.01), Usage(99.2, 6.54), Usage(117, 8.13), Usage(108, 8.31)],
            "sub-burst": [Usage(36.0, 2.36), Usage(62, 3.88), Usage(26.7, 3.82), Usage(37, 3.61)],
            "event-burst": [
                Usage(173, 11.45),
                Usage(310, 20.21),
                Usage(179, 14.62),
                Usage(268, 21.38),
            ],
            "fault": [Usage(19.5, 1.94), Usage(22.5, 3.46), Usage(5.1, 2.15), Usage(21.5, 3.84)],
        }
    ),
    delivered={
        **{(name, 60): (1.0, 1.0) for name in ("normal", "sub-burst", "event-burst", "fault")},
        ("normal", 250): (0.65, 0.75),
        ("event-burst", 250): (0.45, 0.55),
    },
)
PULSARCAST = Paper(
    name="Pulsarcast (2021)",
    nodes=100,
    coverage=(
        Coverage(("pulsarcast", None), False, 0.9999, 0.9999, 2238, 0.319),
        Coverage(("pulsarcast", "ordered"), False, 0.37, 0.80, 1050, 0.178),
        Coverage(("floodsub", None), False, 0.41, 0.41, 6552, 0.21),
        Coverage(("pulsarcast", None), True, 0.51, 0.86, 3423, 0.36),
        Coverage(("pulsarcast", "ordered"), True, 0.32, 0.62, 1596, 0.20),
        Coverage(("floodsub", None), True, 0.31, 0.31, 6475, 0.16),
    ),
)

PAPERS: Mapping[str, Paper] = MappingProxyType(
    {"smartpubsub-2021": SMARTPUBSUB, "pulsarcast-2021": PULSARCAST}
)
"""The papers, by their names in plans."""
