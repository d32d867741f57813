"""The cost of events on real nodes, beside its lower bounds."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import NamedTuple

from smartpubsub.bench.floors import flush_s, signature_us
from smartpubsub.bench.live import GOSSIP, WARM_UP, LiveSystem, live
from smartpubsub.bench.report import Ratio, Report
from smartpubsub.bench.sim_cost import RUNS, heap_operations_per_message, recorded
from smartpubsub.errors import SmartPubSubError
from smartpubsub.matching.native_engine import is_available

Progress = Callable[[str], None]

PAYLOAD_BYTES = 100
AT_ONCE = 64
EVENTS = 600
TRIES = 3
MANY = 10
MANY_EVENTS = 150
GOSSIP_EVENTS = 200
SEQUENTIAL = 100
ECHOES = 500

PEER_STARTS_MAX = 3
"""How often another system is started that fails, for example by a stream that was reset."""

FLOOR = "crypto floor"


def measure_live(report: Report, progress: Progress) -> None:
    """Measure the processor time of events, and the latency of events one after the other."""
    progress("signatures")
    report.add(FLOOR, two_nodes_us(), "us of CPU per event")
    at_most = {"scoutsubs": 4.0 if is_available() else 5.0, "fastdelivery": 2.0, "pulsarcast": 3.5}
    for name, most in at_most.items():
        progress(f"events from node to node: {name}")
        quotient = _cost(report, f"cpu {name}", name, EVENTS)
        report.ratios.append(Ratio(f"cpu {name}/{FLOOR}", quotient, at_most=most))
    progress(f"events to {MANY} subscribers")
    what = f"cpu per delivery, {MANY} subscribers, scoutsubs"
    quotient = _cost(report, what, "scoutsubs", MANY_EVENTS, MANY, delivery_us)
    report.ratios.append(Ratio(f"{what}/{FLOOR}", quotient, at_most=3))
    progress(f"events from node to node: {GOSSIP}")
    _measure_gossip(report, progress)
    progress("events one after the other")
    _measure_latency(report)


def _measure_gossip(report: Report, progress: Progress) -> None:
    """Compare with another system, whose failure must not cost the figures of this one."""
    try:
        _cost(report, f"cpu {GOSSIP}", GOSSIP, GOSSIP_EVENTS)
    except SmartPubSubError as error:
        progress(f"{GOSSIP} is not measured: {error}")
        report.machine[GOSSIP] = f"not measured: {error}"
        return
    quotient = report.value(f"cpu {GOSSIP}") / report.value("cpu scoutsubs")
    name = f"scoutsubs/{GOSSIP} events per CPU second"
    report.ratios.append(Ratio(name, quotient, at_least=5))


def two_nodes_us() -> float:
    """The least that a signed event costs two nodes."""
    sign_us, verify_us = signature_us()
    return sign_us + 2 * verify_us


def delivery_us() -> float:
    """The least that a delivery costs: a verification."""
    return signature_us()[1]


class Cost(NamedTuple):
    """The cost of an event, or of a delivery if there are several subscribers."""

    us: float
    floors: float
    """The cost divided by the floor."""


def measure_cost(
    system: str,
    events: int,
    subscribers: int = 1,
    at_once: int = AT_ONCE,
    *,
    floor_us: Callable[[], float],
) -> Cost:
    """Measure a system of one publisher and some subscribers.

    The floor is measured before and after each try, because other load slows both down. Another
    system that fails is started again; a failure of this project's nodes is an error at once.
    """
    for _ in range(PEER_STARTS_MAX - 1 if system == GOSSIP else 0):
        with suppress(SmartPubSubError):
            return _measured_once(system, events, subscribers, at_once, floor_us)
    return _measured_once(system, events, subscribers, at_once, floor_us)


def _measured_once(
    system: str, events: int, subscribers: int, at_once: int, floor_us: Callable[[], float]
) -> Cost:
    costs, quotients = [], []
    with live(system, subscribers) as nodes:
        nodes.publish(WARM_UP, PAYLOAD_BYTES, at_once)
        after_us = floor_us()
        for _ in range(TRIES):
            before_us = after_us
            costs.append(nodes.cpu_us(events, PAYLOAD_BYTES, at_once) / subscribers)
            after_us = floor_us()
            quotients.append(costs[-1] / ((before_us + after_us) / 2))
    return Cost(median(costs), median(quotients))


def _cost(
    report: Report,
    what: str,
    system: str,
    events: int,
    subscribers: int = 1,
    floor_us: Callable[[], float] = two_nodes_us,
) -> float:
    """Report the cost of a delivery; return it divided by its floor."""
    cost = measure_cost(system, events, subscribers, floor_us=floor_us)
    report.add(what, cost.us, "us of CPU per event")
    return cost.floors


def _measure_latency(report: Report) -> None:
    with live("scoutsubs, one attribute") as system, TemporaryDirectory() as folder:
        system.publish(SEQUENTIAL // 4, PAYLOAD_BYTES, 1)
        echo, flush = [], []
        acknowledged: list[float] = []
        delivered: list[float] = []
        for _ in range(TRIES):  # In turn, so that other load on the machine affects all alike.
            echo.append(_echo_s(system))
            flush.append(flush_s(Path(folder)))
            acknowledged += system.publish(SEQUENTIAL, PAYLOAD_BYTES, 1)
            delivered += system.delays(SEQUENTIAL)
    for name, seconds, floor, floor_s, at_most in (
        ("sequential delivery", median(delivered), "tcp echo", median(echo), 12),
        ("sequential acknowledgement", median(acknowledged), "disk flush", median(flush), 4),
    ):
        report.add(name, seconds * 1e3, "ms")
        report.add(floor, floor_s * 1e3, "ms")
        report.ratios.append(Ratio(f"{name}/{floor}", seconds / floor_s, at_most=at_most))


def _echo_s(system: LiveSystem) -> float:
    port = system.subscribers[0].do("serve_echo")
    took: list[float] = system.publisher.do("echo", port, ECHOES, PAYLOAD_BYTES)
    return median(took)


def measure_simulated(report: Report, progress: Progress) -> None:
    """Measure the processor time of simulated messages, beside the recorded one."""
    quotients = []
    for protocol in RUNS:
        progress(f"simulated messages: {protocol}")
        cost = heap_operations_per_message(protocol)
        report.add(f"sim CPU per message, {protocol}", cost, "heap operations")
        quotients.append(cost / recorded(protocol))
    mean = sum(quotients) / len(quotients)
    report.ratios.append(Ratio("sim CPU per simulated message", mean, at_most=0.6))
