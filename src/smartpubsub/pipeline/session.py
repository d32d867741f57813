"""The Spark session: one function that makes it, with a reason for every setting."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from smartpubsub.pipeline.errors import PipelineError, told_plainly
from smartpubsub.pipeline.interrupts import stopping_when_interrupted
from smartpubsub.pipeline.java import find_java, use_java

MEMORY_MB_MIN, MEMORY_MB_MAX = 1024, 8192
MEMORY_SHARE = 1 / 4
TASK_TRIES = 3
FILE_PARTS = 8
"""Into how many parts a file is shared out, if they have neither much less than 4 MiB nor more than
128. Every part of a table that is written is a file, which costs as much as some thousand rows."""
CONF_FOLDER = Path(__file__).parent / "conf"

_ON_THIS_MACHINE = re.compile(r"local(\[.*\])?|(local-cluster\[.*\])")
_LOOPBACK = re.compile(r"spark://(127\.0\.0\.1|localhost)(:.*)?")


@dataclass(frozen=True, kw_only=True)
class SessionOptions:
    """What can be chosen about a session."""

    master: str | None = None
    """Where Spark runs: any Spark master; None stands for all cores of this machine."""
    memory_mb: int | None = None
    """The memory of the driver, in which local tasks run too; None for a quarter of the machine's
    within limits."""
    settings: tuple[tuple[str, str], ...] = ()
    """Further settings of Spark, which win over ours."""

    def __post_init__(self) -> None:
        if self.memory_mb is not None and self.memory_mb < MEMORY_MB_MIN:
            raise PipelineError(f"Spark needs {MEMORY_MB_MIN} MB or more, not {self.memory_mb}")


@contextmanager
def spark_session(options: SessionOptions | None = None) -> Iterator[SparkSession]:
    """A session that is stopped in the end; one that is there already is used, and left as it is.

    A process can have only one at a time.
    """
    running = SparkSession.getActiveSession()
    if running is not None:
        yield running
        return
    spark = start_session(options or SessionOptions())
    try:
        with stopping_when_interrupted(spark):
            yield spark
    except KeyboardInterrupt:
        # It is stopped already, and calls from this thread would get answers to earlier ones.
        raise
    except BaseException:
        spark.stop()
        raise
    spark.stop()


def start_session(options: SessionOptions) -> SparkSession:
    """Start Spark; raise an error of one line if that cannot be done."""
    master = options.master or f"local[{core_count()},{TASK_TRIES}]"
    use_java(find_java())
    _set_environment(master)
    builder = SparkSession.builder.master(master).appName("smartpubsub")
    for name, value in {**settings_for(options), **dict(options.settings)}.items():
        builder = builder.config(name, value)
    with told_plainly():
        return builder.getOrCreate()


def settings_for(options: SessionOptions) -> dict[str, str]:
    """Our settings of Spark."""
    cores = core_count()
    return {
        # The driver builds indexes and, on one machine, runs the tasks too.
        "spark.driver.memory": f"{options.memory_mb or default_memory_mb()}m",
        # Subscriptions are collected to build an index; memory is the limit, not a setting.
        "spark.driver.maxResultSize": "0",
        # Nobody asked for a web server, and its port may be taken.
        "spark.ui.enabled": "false",
        # Progress is ours, see progress.py.
        "spark.ui.showConsoleProgress": "false",
        # 200 partitions, the default, are for clusters: on two cores most of them would be empty.
        "spark.sql.shuffle.partitions": str(max(2 * cores, 4)),
        # How a file is shared out among tasks depends on the file, not on how many cores there are:
        # events are numbered by it.
        "spark.sql.files.minPartitionNum": str(FILE_PARTS),
        # Times mean the same on every machine.
        "spark.sql.session.timeZone": "UTC",
        # Writing a part of a table again replaces that part and leaves the others.
        "spark.sql.sources.partitionOverwriteMode": "dynamic",
        # The folder `source=2007` is for the source called 2007, not for a number.
        "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
        # As everybody else writes times; the default is a type that is on its way out.
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        # Half the size of snappy, the default, at the same speed.
        "spark.sql.parquet.compression.codec": "zstd",
        # State of streams outside the heap, so that it can be larger than memory.
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
        # Python processes that are not needed any more say nothing about it.
        "spark.python.daemon.module": "smartpubsub.pipeline.worker_daemon",
        # A task that runs Python costs 8 ms instead of 25.
        "spark.python.unix.domain.socket.enabled": "true",
        # Conditions reach our own sources, which then read less.
        "spark.sql.python.filterPushdown.enabled": "true",
        # DataFrames from and to Arrow without a row at a time in between.
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # Tables are Parquet only: no checksums of our own beside what Parquet has, no markers but
        # those that begin with an underscore.
        "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    }


def core_count() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def default_memory_mb() -> int:
    """A quarter of the machine's memory, but neither very little nor very much."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    return int(min(max(total * MEMORY_SHARE, MEMORY_MB_MIN), MEMORY_MB_MAX))


def _set_environment(master: str) -> None:
    is_local = _ON_THIS_MACHINE.fullmatch(master) is not None
    if is_local or _LOOPBACK.fullmatch(master):
        # Spark would look for a name of this machine, which it may not be able to reach.
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
        # Workers would take whatever python3 is on the path.
        os.environ["PYSPARK_PYTHON"] = sys.executable
    else:
        # On other machines it is for whoever set them up to say.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_CONF_DIR", str(CONF_FOLDER))
