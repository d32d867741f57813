"""`bench client`: publishing from a shell beside an empty Python program, and an idle node."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from smartpubsub.bench import machine
from smartpubsub.bench.report import Ratio, Report
from smartpubsub.errors import SmartPubSubError

TRIES = 20
PUB_OVER_PASS_MAX = 3.0
IDLE_MB_MAX = 100.0
SETTLE_S = 3.0
COMMAND = "import sys; from smartpubsub.cli.main import main; sys.exit(main())"


def run(progress: Callable[[str], None]) -> Report:
    """Measure everything."""
    report = Report(machine.describe())
    with TemporaryDirectory(prefix="smartpubsub-bench-") as folder, _node(folder) as process:
        progress("an idle node")
        time.sleep(SETTLE_S)
        report.add("memory of an idle node", _resident_mb(process.pid), "MB")
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


@contextmanager
def _node(folder: str) -> Iterator[subprocess.Popen[str]]:
    arguments = ["node", "run", "--json", "--data", folder, "--listen", "/ip4/127.0.0.1/tcp/0"]
    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        if not json.loads(process.stdout.readline() or "{}").get("ready"):
            raise SmartPubSubError("the node of the benchmark has not started; run it again")
        yield process
    finally:
        process.terminate()
        process.communicate()


def _run(command: Sequence[str]) -> tuple[float, float]:
    """The elapsed and the processor time of a program."""
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    elapsed, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return elapsed, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _resident_mb(process: int) -> float:
    for line in Path(f"/proc/{process}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1_024 / 1_000_000
    raise SmartPubSubError("the memory of a process is not told on this system")
