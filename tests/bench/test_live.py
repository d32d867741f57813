"""Processes of the benchmark that fail, and the systems that are measured without them."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from libp2p.network.stream.exceptions import StreamEOF

from smartpubsub.bench import live_costs
from smartpubsub.bench.live import GOSSIP, workers
from smartpubsub.bench.report import Report
from smartpubsub.errors import SmartPubSubError


def test_an_error_is_reported_with_its_place() -> None:
    with workers(1) as [worker], pytest.raises(SmartPubSubError, match=r"KeyError.* at .*\.py:\d+"):
        worker.do("start", "no such system", "", None)


class _Ended:
    """Raises py-libp2p's error for a stream that has ended, when a worker computes with it."""

    def __neg__(self) -> int:
        raise StreamEOF("the stream has ended")


def test_the_end_of_a_stream_is_no_end_of_the_commands() -> None:
    # It is an EOFError, as is the error of a pipe that the parent has closed.
    with workers(1) as [worker], pytest.raises(SmartPubSubError, match="StreamEOF"):
        worker.do("delays", _Ended())


def test_a_process_that_was_killed_is_named_with_its_end() -> None:
    with workers(1) as [worker]:
        worker.do("cpu_s")
        os.kill(worker._process.pid or 0, signal.SIGKILL)
        with pytest.raises(SmartPubSubError, match="has ended with code -9"):
            worker.do("cpu_s")


def test_a_crash_is_reported_with_what_the_process_wrote() -> None:
    with workers(1) as [worker]:
        worker.do("cpu_s")
        os.kill(worker._process.pid or 0, signal.SIGSEGV)
        with pytest.raises(SmartPubSubError, match=r"ended with code -11; it wrote: .*live_worker"):
            worker.do("cpu_s")


class _Failing:
    """A system whose first starts fail."""

    def __init__(self, failures: int) -> None:
        self.starts = 0
        self._failures = failures

    @contextmanager
    def live(self, *_: object) -> Iterator[Any]:
        self.starts += 1
        if self.starts <= self._failures:
            raise SmartPubSubError("a stream was reset")
        yield self

    def publish(self, *_: object) -> None:
        pass

    def cpu_us(self, *_: object) -> float:
        return 10.0


def test_another_system_that_fails_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    failing = _Failing(live_costs.PEER_STARTS_MAX - 1)
    monkeypatch.setattr(live_costs, "live", failing.live)
    cost = live_costs.measure_cost(GOSSIP, 1, floor_us=lambda: 2.0)
    assert (cost.floors, failing.starts) == (5.0, live_costs.PEER_STARTS_MAX)


def test_another_system_that_always_fails_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    failing = _Failing(1_000)
    monkeypatch.setattr(live_costs, "live", failing.live)
    report, said = Report({}), list[str]()
    live_costs._measure_gossip(report, said.append)
    assert report.machine == {GOSSIP: "not measured: a stream was reset"}
    assert "a stream was reset" in said[0]
    assert failing.starts == live_costs.PEER_STARTS_MAX
    assert not report.figures


def test_a_node_of_this_project_that_fails_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    failing = _Failing(1)
    monkeypatch.setattr(live_costs, "live", failing.live)
    with pytest.raises(SmartPubSubError, match="a stream was reset"):
        live_costs.measure_cost("scoutsubs", 1, floor_us=lambda: 2.0)
