"""`bench hostile`: how much one hostile peer delays the events of other nodes.

Three nodes in processes of their own publish to each other, and a peer in a fourth attacks them.
Each attack is compared with the quiet time just before it, so that other load on the machine
affects both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from smartpubsub.bench import machine
from smartpubsub.bench.live import LiveSystem, Worker, workers
from smartpubsub.bench.report import Ratio, Report
from smartpubsub.testbed.hostile.attacks import ATTACKS

Progress = Callable[[str], None]

SYSTEM = "scoutsubs"
SUBSCRIBERS = 2
EVENTS = 50
PAYLOAD_BYTES = 100
ROUNDS = 2
SETTLE_S = 1.0
"""How long an attack runs before the measurement, and how long nodes recover after it."""
FACTOR_MAX = 2.0


def run(progress: Progress, names: Sequence[str] = ()) -> Report:
    """Measure the attacks with these names, or all."""
    report = Report(machine.describe())
    with TemporaryDirectory() as folder, workers(SUBSCRIBERS + 2) as members:
        *nodes, attacker = members
        system = LiveSystem(SYSTEM, nodes, Path(folder))
        system.publish(EVENTS, PAYLOAD_BYTES, 1)  # To warm up.
        for name in names or ATTACKS:
            progress(name.replace("-", " "))
            _measure(report, name, system, attacker)
    return report


def _measure(report: Report, name: str, system: LiveSystem, attacker: Worker) -> None:
    quiet: list[float] = []
    attacked: list[float] = []
    for _ in range(ROUNDS):
        quiet += system.publish(EVENTS, PAYLOAD_BYTES, 1)
        attacker.do("attack", name, system.addresses, SETTLE_S)
        attacked += system.publish(EVENTS, PAYLOAD_BYTES, 1)
        attacker.do("cease", SETTLE_S)
    report.add(f"{name}: quiet", 1_000 * median(quiet), "ms")
    report.add(f"{name}: under attack", 1_000 * median(attacked), "ms")
    ratio = median(attacked) / median(quiet)
    report.ratios.append(Ratio(f"{name}/quiet latency", ratio, at_most=FACTOR_MAX))
