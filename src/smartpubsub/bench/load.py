"""`bench load`: the cost of an event as load grows, and of a delivery as subscribers grow."""

from __future__ import annotations

from collections.abc import Callable

from smartpubsub.bench import machine
from smartpubsub.bench.live import GOSSIP
from smartpubsub.bench.live_costs import AT_ONCE, delivery_us, measure_cost, two_nodes_us
from smartpubsub.bench.report import Report
from smartpubsub.errors import SmartPubSubError

Progress = Callable[[str], None]

SYSTEMS = ("scoutsubs", "fastdelivery", "pulsarcast", GOSSIP)
OUTSTANDING = (1, 8, 64, 512)
SUBSCRIBERS = (1, 10, 50)
EVENTS_PER_OUTSTANDING = 8
EVENTS_MIN, EVENTS_MAX = 64, 1024
DELIVERIES = 500
"""The deliveries of each try, over all subscribers."""


def by_outstanding(system: str, count: int) -> str:
    """The name of a figure."""
    return f"{system}, {count} outstanding"


def by_subscribers(system: str, count: int) -> str:
    """The name of a figure."""
    return f"{system}, {count} subscribers"


def run(progress: Progress) -> Report:
    """Measure everything, in crypto floors."""
    report = Report(machine.describe())
    for system in SYSTEMS:
        for count in OUTSTANDING:
            events = min(max(EVENTS_MIN, EVENTS_PER_OUTSTANDING * count), EVENTS_MAX)
            name = by_outstanding(system, count)
            progress(name)
            try:
                cost = measure_cost(system, events, at_once=count, floor_us=two_nodes_us)
            except SmartPubSubError as error:
                if system != GOSSIP:
                    raise
                progress(f"{name}: {error}")
                continue
            report.add(name, cost.floors, "crypto floors per event")
        for count in SUBSCRIBERS:
            name = by_subscribers(system, count)
            progress(name)
            events = max(AT_ONCE // 4, DELIVERIES // count)
            try:
                cost = measure_cost(system, events, count, floor_us=delivery_us)
            except SmartPubSubError as error:  # Other systems may not carry so many subscribers.
                progress(f"{name}: {error}")
                continue
            report.add(name, cost.floors, "verifications per delivery")
    return report
