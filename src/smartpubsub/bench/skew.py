"""`bench pipeline`: `match` where a third of all subscriptions name one attribute.

Some events match a tenth of all subscriptions. The command runs as a process, and the benchmark
measures the memory of the processes that it starts: Java with the only executor, and its Python
workers.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from smartpubsub.bench.comparison import DisagreementError
from smartpubsub.bench.processes import descendants, memory_mb
from smartpubsub.bench.report import Ratio, Report
from smartpubsub.errors import SmartPubSubError

EXECUTOR_MB_MAX = 2048
HEAP_MB = 1024
PRICES = 1_000
"""The number of ranges in subscriptions to the popular attribute."""
LOOK_EVERY_S = 0.2
_ROWS_PER_GROUP = 100_000


class Skew(NamedTuple):
    """The sizes of the workload."""

    subscriptions: int = 1_000_000
    popular_events: int = 100
    """Events that a tenth of the subscriptions match."""
    other_events: int = 10_000
    """Events that have only the popular attribute."""


def measure_skew(report: Report, folder: Path, skew: Skew) -> None:
    """Run the command, and add its speed and memory."""
    folder.mkdir(parents=True)
    count = _write_tables(folder, skew)
    words = ["--events", "e", "--subscriptions", "s", "--out", "m", "--memory-mb", str(HEAP_MB)]
    command = [sys.executable, "-m", "smartpubsub", "pipeline", "match", *words]
    start = time.perf_counter()
    driver_mb, executor_mb = _peaks(command, folder)
    seconds = time.perf_counter() - start
    files = (folder / "m").glob("*.parquet")
    found = sum(pq.ParquetFile(file).metadata.num_rows for file in files)
    if found != count:
        raise DisagreementError(f"match found {found:,} pairs of {count:,}; please report this")
    report.add("skew: matches", count, "pairs")
    report.add("skew: whole command", seconds, "s")
    report.add("skew: matches/s", count / seconds, "pairs/s")
    report.add("skew: memory of the driver", driver_mb, "MB")
    report.add("skew: memory of the executor", executor_mb, "MB")
    report.ratios.append(Ratio("skew: MB of the executor", executor_mb, at_most=EXECUTOR_MB_MAX))


def _write_tables(folder: Path, skew: Skew) -> int:
    """Write events and subscriptions; return the number of matches."""
    total, named, wanted = skew.subscriptions, skew.subscriptions // 3, skew.subscriptions // 10
    prices = np.arange(named) % PRICES
    texts = [f"price[{price},{price + 1}]" for price in prices.tolist()]
    texts += ["news"] * wanted
    texts += [f"topic-{number}" for number in range(total - named - wanted)]
    _write(folder / "s", "subscription_id", texts)
    asked = np.arange(skew.popular_events + skew.other_events) % PRICES
    said = [f"price={price}" for price in asked.tolist()]
    said[: skew.popular_events] = [f"news/{text}" for text in said[: skew.popular_events]]
    _write(folder / "e", "event_id", said)
    # A price meets the range that begins with it, and the one that ends with it.
    per_price = np.bincount(prices, minlength=PRICES)
    return int((per_price[asked] + np.where(asked > 0, per_price[asked - 1], 0)).sum()) + (
        wanted * skew.popular_events
    )


def _write(folder: Path, key: str, texts: list[str]) -> None:
    folder.mkdir()
    table = pa.table({key: np.arange(len(texts)), "predicate": texts})
    pq.write_table(table, folder / "0.parquet", row_group_size=_ROWS_PER_GROUP)


def _peaks(command: list[str], folder: Path) -> tuple[float, float]:
    """Run a command; return the peak memory of its own process, and of all others, in MB."""
    driver = executor = 0.0
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:
            driver = max(driver, memory_mb(process.pid))
            executor = max(executor, sum(map(memory_mb, descendants(process.pid))))
            time.sleep(LOOK_EVERY_S)
    if process.returncode:
        raise SmartPubSubError(f"{' '.join(command)} failed with the code {process.returncode}")
    return driver, executor
