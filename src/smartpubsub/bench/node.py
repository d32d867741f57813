"""`bench node`: real nodes beside lower bounds, bare libp2p and other systems."""

from __future__ import annotations

from collections.abc import Callable

import trio

from smartpubsub.bench import machine
from smartpubsub.bench.bare_echo import BareEcho, bare_echo
from smartpubsub.bench.brokers import ABSENT, nats_rate, zenoh_rate
from smartpubsub.bench.live_costs import measure_live, measure_simulated
from smartpubsub.bench.report import Ratio, Report
from smartpubsub.bench.requests import Requests
from smartpubsub.bench.three_hops import HOPS, three_hops
from smartpubsub.sim.kernel.collector import collector_off

Progress = Callable[[str], None]

REQUESTS = 500
REQUEST_BYTES = 200
PIPELINED = 32
EVENTS = 300
BROKER_EVENTS = 20_000
PAYLOAD_BYTES = 100
TRIES = 5
EVENT_TRIES = 3

THREE_HOPS = f"events over {HOPS} hops"


def run(progress: Progress) -> Report:
    """Measure everything."""
    report = Report(machine.describe())
    measure_live(report, progress)
    measure_simulated(report, progress)
    with collector_off():
        progress("requests on one stream")
        trio.run(_measure_requests, report)
        progress(f"events from node to node over {HOPS} hops")
        trio.run(_measure_events, report)
        for name, measure in (("zenoh", zenoh_rate), ("nats", nats_rate)):
            progress(f"events with {name}")
            _compare(report, name, measure(BROKER_EVENTS, PAYLOAD_BYTES))
    return report


async def _measure_requests(report: Report) -> None:
    with bare_echo(REQUESTS, REQUEST_BYTES) as echo:
        async with Requests(REQUESTS, REQUEST_BYTES).running() as requests:
            await _alternate(report, requests, echo)


async def _alternate(report: Report, requests: Requests, echo: BareEcho) -> None:
    bare = stream = pipelined = 0.0
    for _ in range(TRIES):  # In turn, so that other load on the machine affects all alike.
        bare = max(bare, echo.rate())
        stream = max(stream, await requests.rate())
        pipelined = max(pipelined, await requests.rate(PIPELINED))
    report.add("echo", bare, "requests/s")
    report.add("stream", stream, "requests/s")
    report.add(f"stream, {PIPELINED} at a time", pipelined, "requests/s")
    report.ratios.append(Ratio("stream/echo", stream / bare, at_least=0.7))


async def _measure_events(report: Report) -> None:
    async with three_hops() as nodes:
        rates = [await nodes.rate(EVENTS, PAYLOAD_BYTES) for _ in range(EVENT_TRIES)]
    report.add(THREE_HOPS, max(rates), "events/s")


def _compare(report: Report, name: str, rate: float | None) -> None:
    """Compare with another system, which may be faster because it promises less."""
    if rate is None:
        report.machine[name] = ABSENT
        return
    report.add(f"{name} events", rate, "events/s")
    report.add(f"{HOPS} hops/{name}", report.value(THREE_HOPS) / rate, "ratio")
