"""A protocol whose doings differ from process to process is found."""

import os
import subprocess
import sys

from smartpubsub.kademlia.settings import SECOND
from smartpubsub.protocols.baselines.floodsub import Floodsub
from smartpubsub.sim.judging.checkers import check_same_trace
from tests.sim.checkers.broken import Unsorted
from tests.sim.checkers.world import Protocol, SmallWorld
from tests.tidy.source import CHECKOUT


def digest(protocol: Protocol) -> str:
    world = SmallWorld(protocol)
    world.subscribe(1, "surf")
    world.publish(0, "surf")
    world.run(SECOND)
    return world.trace.digest()


def digest_in_another_process(protocol: Protocol, hash_seed: str) -> str:
    name = protocol.__name__
    program = f"from tests.sim.checkers import test_determinism as t; print(t.digest(t.{name}))"
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=CHECKOUT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()


def test_same_trace() -> None:
    honest, unsorted = (
        [digest_in_another_process(protocol, hash_seed) for hash_seed in ("1", "2")]
        for protocol in (Floodsub, Unsorted)
    )

    assert check_same_trace(*honest) == []
    (violation,) = check_same_trace(*unsorted)
    assert violation.invariant == 10
