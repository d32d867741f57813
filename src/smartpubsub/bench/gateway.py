"""`bench gateway`: many readers of Server-Sent Events on one node."""

from __future__ import annotations

import re
import resource
import time
from collections.abc import Callable
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

import trio

from smartpubsub.bench import machine
from smartpubsub.bench.node_process import NodeProcess, node_process
from smartpubsub.bench.report import Ratio, Report
from smartpubsub.client.connect import connect
from smartpubsub.errors import SmartPubSubError

OPEN_PER_S = 200
SPARE_FILES = 100
LAST_S_MAX = 60.0
MEMORY_MB_MAX = 400.0

_NUMBER = re.compile(rb'"predicate":"bench/number=(\d+)"')


def run(
    progress: Callable[[str], None], *, readers: int = 1_000, per_s: int = 10, seconds: int = 20
) -> Report:
    """Open readers, publish, and count the events that each reader gets."""
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = max(now, 2 * readers + SPARE_FILES)  # The gateway leaves some to its node.
    if most != resource.RLIM_INFINITY and most < wanted:
        raise SmartPubSubError(f"this needs {wanted} open files, and {most} are allowed: ulimit -n")
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
    report = Report(machine.describe())
    with (
        TemporaryDirectory(prefix="smartpubsub-bench-") as folder,
        node_process(folder, "--http", "127.0.0.1:0") as node,
    ):
        trio.run(_Measurement(node, report, progress, readers, per_s, seconds).run)
    return report


class _Measurement:
    def __init__(
        self,
        node: NodeProcess,
        report: Report,
        progress: Callable[[str], None],
        readers: int,
        per_s: int,
        seconds: int,
    ) -> None:
        self._node = node
        self._report = report
        self._progress = progress
        self._readers = readers
        self._per_s = per_s
        self._count = per_s * seconds
        self._got: list[list[int]] = [[] for _ in range(readers)]
        self._done = 0
        self._ready = 0
        self._all_done = trio.Event()

    async def run(self) -> None:
        node, report = self._node, self._report
        before_mb = node.resident_mb()
        self._progress(f"{self._readers:,} readers")
        async with trio.open_nursery() as nursery:
            for number in range(self._readers):
                nursery.start_soon(self._read, number)
                await trio.sleep(1 / OPEN_PER_S)
            while self._ready < self._readers:
                await trio.sleep(0.05)
            self._progress(f"{self._count:,} events, {self._per_s} a second")
            used, start = node.cpu_s(), time.perf_counter()
            most_mb = await self._publish(start)
            with trio.move_on_after(LAST_S_MAX):
                await self._all_done.wait()
            took = time.perf_counter() - start
            report.add("node, memory with no readers", before_mb, "MB")
            report.add("node, memory at most", max(most_mb, node.resident_mb()), "MB")
            report.add("node, processor", (node.cpu_s() - used) / took, "cores")
            nursery.cancel_scope.cancel()
        self._judge()

    async def _publish(self, start: float) -> float:
        most_mb = 0.0
        async with connect(url=self._node.said["http"]) as client:
            for number in range(self._count):
                await trio.sleep(max(0.0, start + number / self._per_s - time.perf_counter()))
                await client.publish(f"bench/number={number}", wait="nothing")
                most_mb = max(most_mb, self._node.resident_mb())
        return most_mb

    async def _read(self, reader: int) -> None:
        at = urlsplit(self._node.said["http"])
        got, left = self._got[reader], b""
        stream = await trio.open_tcp_stream(at.hostname or "", at.port or 0)
        async with stream:
            await stream.send_all(
                b"GET /v1/events?filter=bench HTTP/1.0\r\nHost: localhost\r\n\r\n"
            )
            while piece := await stream.receive_some():
                if not left and not got and b"\r\n\r\n" in piece:
                    self._ready += 1
                frames = (left + piece).split(b"\n\n")
                left = frames.pop()
                for frame in frames:
                    got += map(int, _NUMBER.findall(frame))
                if len(got) >= self._count:
                    self._done += 1
                    if self._done == self._readers:
                        self._all_done.set()
                    return

    def _judge(self) -> None:
        report, expected = self._report, self._count * self._readers
        unique = sum(len(set(got)) for got in self._got)
        report.add("readers", self._readers, "")
        report.add("events", self._count, "")
        report.add("deliveries", unique, "")
        report.add("lost", expected - unique, "")
        report.add("repeated", sum(map(len, self._got)) - unique, "")
        report.ratios.append(Ratio("deliveries/expected deliveries", unique / expected, 1.0))
        memory = report.value("node, memory at most")
        report.ratios.append(Ratio("node/1 MB memory", memory, at_most=MEMORY_MB_MAX))
