"""The processor time of a simulated message, beside the recorded time of an earlier version.

The unit is the time of one take and add on a bare heap in the same process, so a record of one
machine holds on another.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from statistics import median

from smartpubsub.bench.sim_peers import bare_heap
from smartpubsub.sim.experiments.experiment import Experiment
from smartpubsub.sim.experiments.options import SimOptions
from smartpubsub.sim.kernel.collector import collector_off

RECORDED = Path(__file__).with_name("sim_cost.json")
"""The recorded cost by protocol."""
RUNS = {
    "scoutsubs": SimOptions(nodes=60, scenario="event-burst", events=300),
    "fastdelivery": SimOptions(nodes=40, scenario="event-burst", events=300),
    "pulsarcast": SimOptions(nodes=25, scenario="reddit", events=300),
}
TRIES = 3
HEAP_ENTRIES = 1_000
HEAP_THOUSANDS = 100


def heap_operations_per_message(protocol: str) -> float:
    """The cost of a message of one protocol, including everything that nodes do because of it."""
    return min(_cost(protocol) for _ in range(TRIES))


def recorded(protocol: str) -> float:
    """The recorded cost."""
    found: float = json.loads(RECORDED.read_text(encoding="utf-8"))[protocol]
    return found


def _cost(protocol: str) -> float:
    chosen = RUNS[protocol]
    workload = chosen.load([protocol])
    experiment = Experiment(chosen.run_options(protocol, "", workload), workload)
    with collector_off():
        before = _heap_s()
        start = time.process_time()
        experiment.run()
        if experiment.was_interrupted:
            raise KeyboardInterrupt
        seconds = time.process_time() - start
        heap = median([before, _heap_s()])
    return seconds / experiment.world.sent_count / heap


def _heap_s() -> float:
    work = bare_heap(HEAP_ENTRIES, seed=1)
    start = time.process_time()
    work(HEAP_THOUSANDS)
    return (time.process_time() - start) / (HEAP_THOUSANDS * 1_000)
