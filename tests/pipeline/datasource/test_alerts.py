"""examples/spark_alerts.py on two nodes, with its driver killed in the middle."""

from __future__ import annotations

import json
from collections import defaultdict
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

import smartpubsub
from smartpubsub import BlockingClient, Event, NotInTimeError
from tests.cli.running import commands
from tests.pipeline.datasource.killed import PATIENCE_S, KilledDriver, KilledNode
from tests.tidy.source import CHECKOUT

WINDOW_S = 1
CITIES = ("lisbon", "porto")
NO_READINGS = ("weather/temp=20", "weather/porto/temp[20,30]", "weather/porto/temp")


def past(client: BlockingClient, predicate: str) -> list[Event]:
    with client.subscribe(predicate, since="1d") as events:
        return [events.get(timeout_s=PATIENCE_S) for _ in range(events.recalled)]


def window_of(event: Event) -> int:
    assert event.created is not None
    return int(event.created.timestamp() // WINDOW_S * WINDOW_S)


def oracle(readings: list[Event], before: int) -> dict[tuple[str, int], tuple[float, int]]:
    """The average and the number of readings by city and window, of windows before a time."""
    found: defaultdict[tuple[str, int], list[float]] = defaultdict(list)
    for event in readings:
        if str(event.predicate) in NO_READINGS:
            continue
        [_, city, _] = event.predicate.attributes
        interval = event.predicate.attributes["temp"]
        assert interval is not None
        if window_of(event) < before:
            found[city, window_of(event)].append(float(str(interval.lo)))
    return {key: (sum(temps) / len(temps), len(temps)) for key, temps in found.items()}


def key_of(row: dict[str, Any]) -> tuple[str, int]:
    start = row["start"]
    at = start if isinstance(start, datetime) else datetime.fromisoformat(start)
    return row["city"], int(at.replace(tzinfo=at.tzinfo or UTC).timestamp())


def rows_in(out: Path) -> list[dict[str, Any]]:
    table = DeltaTable(str(out / "table")).to_pyarrow_table()
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def test_the_example_publishes_each_average_once(tmp_path: Path) -> None:
    with commands() as running:
        node = KilledNode(running, tmp_path / "a")
        other = KilledNode(running, tmp_path / "b", node.address)
        out = tmp_path / "out"
        program = str(CHECKOUT / "examples" / "spark_alerts.py")
        driver = KilledDriver(
            tmp_path / "driver.log",
            *(program, "--node", str(node.folder), "--out", str(out), "--seconds", str(WINDOW_S)),
        )
        with (
            smartpubsub.connect(data=other.folder) as publisher,
            publisher.subscribe("alert") as live,
        ):
            number = 0
            found: list[Event] = []

            def publish() -> None:
                nonlocal number
                number += 1
                publisher.publish(f"weather/{CITIES[number % 2]}/temp={20 + number % 7}.5")

            def has_alerts(count: int) -> bool:
                publish()
                with suppress(NotInTimeError):
                    while True:
                        found.append(live.get(timeout_s=0.3))
                return len(found) >= count

            for text in NO_READINGS:
                publisher.publish(text)
            try:
                driver.wait_until(lambda: has_alerts(1))
                driver.kill()
                before = len(found)
                for _ in range(5):
                    publish()
                driver.start()
                driver.wait_until(lambda: has_alerts(before + 3))
                # Later readings end the windows before the last one.
                readings = past(publisher, "weather")
                wanted = oracle(readings, max(map(window_of, readings)))
                driver.wait_until(
                    lambda: has_alerts(len(wanted)) and len(rows_in(out)) >= len(wanted)
                )
            finally:
                driver.end()
            alerts = [json.loads(event.payload) for event in past(publisher, "alert")]

    for given in (alerts, rows_in(out)):
        keys = [key_of(row) for row in given]
        assert len(keys) == len({*keys}), "an average that came twice"
        averages = {
            key: (row["average"], row["readings"]) for key, row in zip(keys, given, strict=True)
        }
        assert {key: averages.get(key) for key in wanted} == wanted
    assert driver.start_count >= 2
