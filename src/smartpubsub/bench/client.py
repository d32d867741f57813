"""`bench client`: publishing from a shell beside an empty Python program, and an idle node."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from tempfile import TemporaryDirectory

from smartpubsub.bench import machine
from smartpubsub.bench.node_process import COMMAND, node_process
from smartpubsub.bench.report import Ratio, Report

TRIES = 20
PUB_OVER_PASS_MAX = 3.0
IDLE_MB_MAX = 100.0
SETTLE_S = 3.0


def run(progress: Callable[[str], None]) -> Report:
    """Measure everything."""
    report = Report(machine.describe())
    with TemporaryDirectory(prefix="smartpubsub-bench-") as folder, node_process(folder) as node:
        progress("an idle node")
        time.sleep(SETTLE_S)
        report.add("memory of an idle node", node.resident_mb(), "MB")
        progress(f"{TRIES} times pub, and an empty program")
        empty = [sys.executable, "-c", "pass"]
        pub = [sys.executable, "-c", COMMAND, "pub", "bench/n=1", "x", "--data", folder]
        seconds: dict[str, list[tuple[float, float]]] = {"python -c pass": [], "pub": []}
        for _ in range(TRIES):  # In turn, so that other load on the machine affects both alike.
            seconds["python -c pass"].append(_run(empty))
            seconds["pub"].append(_run(pub))
    for name, tries in seconds.items():
        report.add(f"{name}, elapsed", min(elapsed for elapsed, _ in tries) * 1_000, "ms")
        report.add(f"{name}, processor", min(used for _, used in tries) * 1_000, "ms")
    for what in ("elapsed", "processor"):
        value = report.value(f"pub, {what}") / report.value(f"python -c pass, {what}")
        name = f"pub/python -c pass {what} time"
        report.ratios.append(Ratio(name, value, at_most=PUB_OVER_PASS_MAX))
    idle = report.value("memory of an idle node")
    report.ratios.append(Ratio("idle node/1 MB", idle, at_most=IDLE_MB_MAX))
    return report


def _run(command: Sequence[str]) -> tuple[float, float]:
    """The elapsed and the processor time of a program."""
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    elapsed, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return elapsed, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
