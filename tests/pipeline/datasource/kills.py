"""Kills a driver, its workers and the node at random points; no event is lost or comes twice.

.venv/bin/python -m tests.pipeline.datasource.kills --points 100 --seed 7
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from random import Random
from typing import NamedTuple

from smartpubsub import BlockingClient
from smartpubsub.pipeline.sessions import SessionOptions, spark_session
from tests.cli.running import commands
from tests.pipeline.conftest import QUICK
from tests.pipeline.datasource.killed import (
    PATIENCE_S,
    KilledDriver,
    KilledNode,
    each_once,
    kill_executor,
)
from tests.pipeline.datasource.nodes import batch_of, numbers_in
from tests.pipeline.standalone import Cluster, cluster

KINDS = ("driver", "worker", "node")
EVENTS_PER_POINT = 7
DELAY_S_MAX = 1.0
WATCHDOG_S_PER_POINT = 2 * PATIENCE_S
"""A node that is not killed runs until the end, even if each point takes as long as it may."""


class Outcome(NamedTuple):
    """What a run has shown."""

    kills: dict[str, int]
    published: int
    starts: int
    """How often the driver was started."""
    problem: str
    """Empty if all is well."""


def run(
    folder: Path,
    kinds: list[str],
    rng: Random,
    *,
    is_topic: bool,
    checks_replay: bool = False,
    machines: Cluster | None = None,
    progress: Callable[[str], None] = lambda _kind: None,
) -> Outcome:
    """Relay events while processes are killed, one kind after the other.

    `progress` is told the kind of each process that was killed.
    """
    master = "local[1,3]" if machines is None else machines.url
    with commands(watchdog_s=WATCHDOG_S_PER_POINT * (len(kinds) + 1)) as running:
        node = KilledNode(running, folder / "node")
        source_id = node.ask(lambda client: client.create_topic("in").id)
        target = node.ask(lambda client: client.create_topic("out").id)
        source = {
            "node": str(node.folder),
            "startingOffsets": "earliest",
            "maxEventsPerTrigger": "5",
        }
        source |= {"topic": source_id} if is_topic else {"predicate": "in"}
        checkpoint = folder / "checkpoint"
        driver = KilledDriver(
            folder / "driver.log",
            *("-m", "tests.pipeline.datasource.relay", master, str(node.folder)),
            *(json.dumps(source), target, str(checkpoint)),
        )

        def relayed() -> int:
            return node.ask(lambda client: client.topic(target).stock()).event_count

        def has_relayed(count: int) -> bool:
            return relayed() >= count

        def killed(kind: str) -> bool:
            """Kill a process; return whether there was one."""
            if kind == "driver":
                driver.kill()
            elif kind == "node":
                node.kill()
            elif machines is None:
                return driver.kill_worker()
            else:
                return kill_executor([process.pid for process in machines.processes])
            return True

        count = 0
        kills = dict.fromkeys(KINDS, 0)
        try:
            for kind in kinds:
                before = relayed()
                for _ in range(EVENTS_PER_POINT):
                    count += 1
                    node.ask(partial(_publish, topic=source_id if is_topic else None, number=count))
                driver.wait_until(partial(has_relayed, before + 1))
                time.sleep(rng.uniform(0, DELAY_S_MAX))
                driver.wait_until(partial(killed, kind))
                kills[kind] += 1
                progress(kind)
            driver.wait_until(partial(has_relayed, count))
        finally:
            driver.end()
        entries = node.ask(lambda client: client.topic(target).history())
        found = [json.loads(entry.payload)["number"] for entry in entries]
        problem = each_once(found, range(1, count + 1))
        if checks_replay and is_topic:
            problem = problem or _replayed(node.folder, source_id, checkpoint, count)
        return Outcome(kills, count, driver.start_count, problem)


def _publish(client: BlockingClient, topic: str | None, number: int) -> None:
    if topic is not None:
        client.topic(topic).publish(json={"number": number}, key=str(number))
    else:
        client.publish("in", json={"number": number}, key=str(number))


def _replayed(node: Path, topic: str, checkpoint: Path, count: int) -> str:
    """Read each batch again by its offsets; together they have each event once."""
    found: list[int] = []
    files = sorted((checkpoint / "offsets").glob("[0-9]*"), key=lambda file: int(file.name))
    ends = [file.read_text(encoding="utf-8").splitlines()[-1] for file in files]
    with spark_session(SessionOptions(memory_mb=1024, settings=QUICK)) as spark:
        for start, end in zip(["earliest", *ends], ends, strict=False):
            batch = batch_of(spark, node, topic=topic, startingOffsets=start, endingOffsets=end)
            once, again = numbers_in(batch.collect()), numbers_in(batch.collect())
            if once != again:
                return f"a batch had {once} at first, and then {again}"
            found += once
    return each_once(found, range(1, count + 1))


class Progress:
    """Writes a line for each kill to standard error."""

    def __init__(self) -> None:
        self._count = 0
        self._last = time.monotonic()

    def __call__(self, kind: str) -> None:
        self._count += 1
        now = time.monotonic()
        print(f"{self._count}: killed the {kind} after {now - self._last:.1f} s", file=sys.stderr)  # noqa: T201
        self._last = now


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=100)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--cluster", action="store_true", help="kill executors, not workers")
    given = parser.parse_args()
    rng = Random(given.seed)
    left, rounds = given.points, 0
    progress = Progress()
    while left:
        kinds = [rng.choice(KINDS) for _ in range(min(left, 20))]
        left, rounds = left - len(kinds), rounds + 1
        with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
            here = Path(folder)
            machines = stack.enter_context(cluster(here)) if given.cluster else None
            is_topic = rounds % 2 == 0
            outcome = run(
                here,
                kinds,
                rng,
                is_topic=is_topic,
                checks_replay=True,
                machines=machines,
                progress=progress,
            )
        print(json.dumps({"seed": given.seed, **outcome._asdict()}), flush=True)  # noqa: T201
        if outcome.problem:
            raise SystemExit(1)


if __name__ == "__main__":
    main()
