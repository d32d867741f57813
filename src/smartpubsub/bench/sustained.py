"""`bench sustained`: events at a steady rate for some time, and then more than the nodes can carry.

Latency and memory should not grow, and no acknowledged event may be lost. The rate is a part of the
maximum of this machine, which is measured first.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from math import ceil
from statistics import median, quantiles

from smartpubsub.bench import machine
from smartpubsub.bench.live import WARM_UP, LiveSystem, live
from smartpubsub.bench.report import Ratio, Report

Progress = Callable[[str], None]

SYSTEM = "scoutsubs, short history"
PAYLOAD_BYTES = 100
AT_ONCE = 64
FIRST_EVENTS = 1_000
"""The number of events for measuring the maximum rate."""
STEADY_SHARE = 0.8
STEADY_DEADLINE_S = 60.0
WINDOW_S_MAX = 30.0
WINDOWS_MIN = 4
"""The least number of windows in which latency and memory are measured."""
OVERLOAD = 2
OVERLOAD_S = 20.0
OVERLOAD_AT_ONCE = 512
OVERLOAD_DEADLINE_S = 5.0


def run(progress: Progress, minutes: float, subscribers: int) -> Report:
    """Measure one publisher and some subscribers."""
    report = Report(machine.describe())
    with live(SYSTEM, subscribers) as system:
        progress("the maximum rate")
        rate = _maximum_rate(system)
        report.add("maximum rate", rate, "events/s")
        _stay_steady(report, progress, system, STEADY_SHARE * rate, 60 * minutes)
        progress(f"{OVERLOAD} times the maximum rate")
        _overload(report, system, OVERLOAD * rate)
    return report


def _maximum_rate(system: LiveSystem) -> float:
    system.publish(WARM_UP, PAYLOAD_BYTES, AT_ONCE)
    began_at = time.perf_counter()
    system.publish(FIRST_EVENTS, PAYLOAD_BYTES, AT_ONCE)
    return FIRST_EVENTS / (time.perf_counter() - began_at)


def _stay_steady(
    report: Report, progress: Progress, system: LiveSystem, rate: float, seconds: float
) -> None:
    count = max(WINDOWS_MIN, ceil(seconds / WINDOW_S_MAX))
    late_ms, memory_mb = [], []
    sent = lost = 0
    for number in range(count):
        progress(f"{rate:,.0f} events/s, part {number + 1} of {count}")
        outcome = system.publish_at(rate, seconds / count, AT_ONCE**2, STEADY_DEADLINE_S)
        sent += len(outcome.acknowledged)
        lost += outcome.lost + outcome.late + outcome.refused
        late_ms.append(1_000 * quantiles(system.delays(len(outcome.acknowledged)), n=100)[-1])
        memory_mb.append(system.memory_mb())
    report.add("steady rate", sent / seconds, "events/s")
    half = count // 2
    for what, values, unit, at_most in (
        ("latency p99", late_ms, "ms", 1.5),
        ("memory of all nodes", memory_mb, "MB", 1.1),
    ):
        first, last = median(values[:half]), median(values[half:])
        report.add(f"{what}, first half", first, unit)
        report.add(f"{what}, second half", last, unit)
        report.ratios.append(
            Ratio(f"{what}, second half/first half", last / first, at_most=at_most)
        )
    report.ratios.append(Ratio("steady: events lost, late or refused", lost, at_most=0))


def _overload(report: Report, system: LiveSystem, rate: float) -> None:
    outcome = system.publish_at(rate, OVERLOAD_S, OVERLOAD_AT_ONCE, OVERLOAD_DEADLINE_S)
    report.add("overload: wanted", rate, "events/s")
    report.add("overload: acknowledged", len(outcome.acknowledged) / outcome.took_s, "events/s")
    report.add("overload: not in time", outcome.late, "events")
    report.add("overload: refused", outcome.refused, "events")
    report.ratios.append(Ratio("overload: acknowledged events lost", outcome.lost, at_most=0))
