"""A large overlay in its own process, so that its memory can be measured.

python -m smartpubsub.bench.sim_large NODES LOOKUPS SEED
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from smartpubsub.errors import SmartPubSubError
from smartpubsub.kademlia.core import Kademlia
from smartpubsub.kademlia.settings import MINUTE
from smartpubsub.sim.kernel.collector import collector_off
from smartpubsub.sim.kernel.overlay import Overlay
from smartpubsub.sim.kernel.streams import stream
from smartpubsub.sim.traces.trace import Trace

AT_ONCE = 50
INTERRUPTED = 130


@dataclass(frozen=True)
class Cost:
    """The cost of joining, settling and looking up."""

    seconds: float
    messages: int
    peak_bytes: int

    @property
    def us_per_message(self) -> float:
        """Microseconds of processor time for each message."""
        return self.seconds / self.messages * 1e6


def cost_of(nodes: int, lookups: int, seed: int) -> Cost:
    """Measure an overlay in another process."""
    arguments = [str(number) for number in (nodes, lookups, seed)]
    done = subprocess.run(
        [sys.executable, "-m", __name__, *arguments], stdout=subprocess.PIPE, text=True
    )
    if done.returncode == INTERRUPTED:
        raise KeyboardInterrupt
    if done.returncode:
        raise SmartPubSubError(f"the overlay of {nodes:,} nodes ended with {done.returncode}")
    return Cost(**json.loads(done.stdout))


def measure(nodes: int, lookups: int, seed: int) -> Cost:
    """Measure an overlay in this process."""
    with collector_off():
        start = time.process_time()
        overlay = Overlay(nodes, seed, trace=Trace())
        overlay.join_all(lambda text: click.echo(text, err=True))
        overlay.world.run(overlay.world.now + MINUTE)
        _look_up(overlay, lookups)
        seconds = time.process_time() - start
    messages = sum(host.sent_count for host in overlay.world.hosts)
    return Cost(seconds, messages, peak_bytes())


def _look_up(overlay: Overlay, count: int) -> None:
    rng = stream(overlay.seed, "bench")
    nodes = range(len(overlay.world.hosts))
    for start in range(0, count, AT_ONCE):
        names = [b"lookup/%d" % number for number in range(start, min(count, start + AT_ONCE))]
        asked = [overlay.ask(rng.choice(nodes), Kademlia.find_closest, name) for name in names]
        overlay.settle(asked)


def peak_bytes() -> int:
    """The peak memory of this process."""
    try:
        # Unlike getrusage, this begins with the program and not with its parent process.
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) << 10
    except OSError:
        pass
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak << 10


def main(arguments: list[str]) -> int:
    """Measure, and print the result as JSON."""
    try:
        nodes, lookups, seed = map(int, arguments)
        click.echo(json.dumps(asdict(measure(nodes, lookups, seed))))
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
