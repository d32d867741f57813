"""The Spark session: one function that makes it, with a reason for every setting."""

from __future__ import annotations

import os
import re
import socket
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from pyspark.sql import SparkSession

from smartpubsub.extras import remedy
from smartpubsub.matching.storage import SECRET_VARIABLE, seal_key
from smartpubsub.pipeline.errors import PipelineError, plain_errors
from smartpubsub.pipeline.interrupts import not_logging_interrupts, stopping_when_interrupted
from smartpubsub.pipeline.java import LAUNCHER, find_java, use_java
from smartpubsub.pipeline.little import CHOSEN, JAVA

MEMORY_MB_MIN, MEMORY_MB_MAX = 1024, 8192
MEMORY_SHARE = 1 / 4
TASK_TRIES = 3
FILE_PARTS = 8
"""The number of parts of a file, if these are between about 4 and 128 MiB. Every part of a
written table is a file, which costs as much as some thousand rows."""
CONF_FOLDER = Path(__file__).parent / "conf"

LAUNCHED_VARIABLE = "PYTHON_FOR_SMARTPUBSUB"
"""Names the Python that the launcher starts."""
REACHED_S_MAX = 10.0
IN_SESSION = (
    "spark.sql.files.minPartitionNum",
    "spark.sql.session.timeZone",
    "spark.sql.sources.partitionOverwriteMode",
    "spark.sql.sources.partitionColumnTypeInference.enabled",
    "spark.sql.parquet.outputTimestampType",
    "spark.sql.parquet.compression.codec",
    "spark.sql.python.filterPushdown.enabled",
)
"""The settings that a client of Spark Connect can choose; the others are the server's."""

_SERVER = re.compile(r"sc://(?P<host>[^/:;]+|\[[^]]+\])(:(?P<port>\d{1,5}))?(/.*)?")
_ON_THIS_MACHINE = re.compile(r"local(\[.*\])?|(local-cluster\[.*\])")
_JAVA_ENDED = "JAVA_GATEWAY_EXITED"
_MASTER = re.compile(r"local(\[.+\])?|local-cluster\[.+\]|yarn|(spark|k8s)://.+")
_STANDALONE = re.compile(r"(?P<host>[^][/:,]+|\[[^]]+\]):(?P<port>\d{1,5})")
_LOOPBACK = re.compile(r"spark://(127\.0\.0\.1|localhost)(:.*)?")


@dataclass(frozen=True, kw_only=True)
class SessionOptions:
    """The options of a session."""

    master: str | None = None
    """The Spark master; None stands for all cores of this machine."""
    remote: str | None = None
    """The URL of a server of Spark Connect, instead of a master."""
    memory_mb: int | None = None
    """The memory of the driver, in which local tasks run too; None for a quarter of the machine's
    within limits."""
    settings: tuple[tuple[str, str], ...] = ()
    """Further Spark settings, which override ours."""
    is_short: bool = False
    """Whether the session ends before Java's optimising compiler would pay."""

    def __post_init__(self) -> None:
        if self.memory_mb is not None and self.memory_mb < MEMORY_MB_MIN:
            raise PipelineError(f"Spark needs {MEMORY_MB_MIN} MB or more, not {self.memory_mb}")
        if self.remote is not None and self.master is not None:
            raise PipelineError("a server of Spark Connect has its master; name one of the two")
        if self.master is not None and not _MASTER.fullmatch(self.master):
            raise PipelineError(
                f"{self.master!r} is no Spark master; name one such as spark://host:7077, local[2],"
                " yarn or k8s://https://host:443"
            )


@contextmanager
def spark_session(options: SessionOptions | None = None) -> Iterator[SparkSession]:
    """A session that is stopped at the end; an existing one is reused and left running.

    A process can have only one at a time.
    """
    running = SparkSession.getActiveSession()
    if running is not None:
        yield running
        return
    with not_logging_interrupts():
        spark = start_session(options or SessionOptions())
    try:
        with stopping_when_interrupted(spark):
            yield spark
    except KeyboardInterrupt:
        # The session is already stopped, and calls from this thread would get answers to earlier
        # calls.
        raise
    except BaseException:
        spark.stop()
        raise
    spark.stop()


def session(
    *,
    master: str | None = None,
    remote: str | None = None,
    memory_mb: int | None = None,
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """The Spark session of this process, for notebooks and programs.

    The first call starts it, and later ones return it. It runs until `stop()`, or until the end of
    the block if it is used in `with`, or until the process ends.
    """
    chosen = tuple((settings or {}).items())
    options = SessionOptions(master=master, remote=remote, memory_mb=memory_mb, settings=chosen)
    return SparkSession.getActiveSession() or start_session(options)


def start_session(options: SessionOptions) -> SparkSession:
    """Start Spark, or connect to it; raise a one-line error if that fails."""
    if options.remote is not None:
        return _connected(options.remote, options)
    master = options.master or f"local[{core_count()},{TASK_TRIES}]"
    check_reachable(master)
    use_java(find_java())
    _set_environment(master)
    builder = SparkSession.builder.master(master).appName("smartpubsub")
    for name, value in {**settings_for(options), **dict(options.settings)}.items():
        builder = builder.config(name, value)
    builder = builder.config(CHOSEN, ",".join(name for name, _ in options.settings))
    try:
        with plain_errors():
            return builder.getOrCreate()
    except PipelineError as error:
        if _JAVA_ENDED not in str(error):
            raise
        raise PipelineError(
            "Spark did not start, for the reason that Java gives above; correct the settings"
            " (--set), or see smartpubsub doctor"
        ) from None


def check_reachable(master: str) -> None:
    """Raise an error if no master of a standalone cluster answers; that of Spark names none."""
    places = [*_STANDALONE.finditer(master)] if master.startswith("spark://") else []
    problem: Exception | None = None
    for place in places:
        problem = _problem_at(place["host"].strip("[]"), int(place["port"]))
        if problem is None:
            return
    if problem is not None:
        raise PipelineError(
            f"{master}: no Spark master answers ({problem}); start one with sbin/start-master.sh of"
            " Spark, or name another"
        )


def _problem_at(host: str, port: int) -> Exception | None:
    """Why no program answers at a place; None if one does."""
    try:
        socket.create_connection((host, port), REACHED_S_MAX).close()
    except (OSError, UnicodeError) as error:  # UnicodeError: no host can have this name.
        return error
    return None


def _connected(url: str, options: SessionOptions) -> SparkSession:
    """A session on a server of Spark Connect, with the settings that a client may choose."""
    for module in ("grpc", "grpc_status"):
        if find_spec(module) is None:
            raise PipelineError(remedy(ModuleNotFoundError(name=module)))
    for name, _ in options.settings:
        if not name.startswith(("spark.sql.", "spark.smartpubsub.")):
            raise PipelineError(f"{name} is chosen where the server of Spark Connect is started")
    host, port = _server_of(url)
    # Spark would try silently for ten minutes.
    problem = _problem_at(host, port)
    if problem is not None:
        raise PipelineError(
            f"{url}: no server of Spark Connect answers at {host}:{port} ({problem}); start one"
            " with sbin/start-connect-server.sh of Spark"
        )
    ours = {name: value for name, value in settings_for(options).items() if name in IN_SESSION}
    # Hides warnings about whole tables that one task orders, which is intended.
    warnings.filterwarnings("ignore", message="WARN WindowExpression")
    builder = SparkSession.builder.remote(url)
    for name, value in {**ours, **dict(options.settings)}.items():
        builder = builder.config(name, value)
    builder = builder.config(CHOSEN, ",".join(name for name, _ in options.settings))
    with plain_errors():
        return builder.getOrCreate()


def _server_of(url: str) -> tuple[str, int]:
    """The host and the port of a server.

    >>> _server_of("sc://host"), _server_of("sc://host:1/;user_id=a")
    (('host', 15002), ('host', 1))
    """
    found = _SERVER.fullmatch(url)
    if found is None:
        raise PipelineError(f"{url!r} is not the URL of a server such as sc://host:15002")
    return found["host"].strip("[]"), int(found["port"] or 15002)


def settings_for(options: SessionOptions) -> dict[str, str]:
    """Our Spark settings."""
    cores, key = core_count(), seal_key()
    return {
        # Workers map the index that the driver saves.
        **({} if key is None else {f"spark.executorEnv.{SECRET_VARIABLE}": key.hex()}),
        # Executors of a cluster on this machine start our launcher.
        f"spark.executorEnv.{LAUNCHED_VARIABLE}": sys.executable,
        # The driver builds indexes and, on one machine, runs the tasks too.
        "spark.driver.memory": f"{options.memory_mb or default_memory_mb()}m",
        # Subscriptions are collected to build an index; memory is the limit, not a setting.
        "spark.driver.maxResultSize": "0",
        # The web UI is not needed, and its port may be taken.
        "spark.ui.enabled": "false",
        # Spark would record the line of code of each column, which takes longer than making it.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        # progress.py shows the progress instead.
        "spark.ui.showConsoleProgress": "false",
        # 200 partitions, the default, are for clusters: on two cores most of them would be empty.
        "spark.sql.shuffle.partitions": str(max(2 * cores, 4)),
        # How a file is divided among tasks depends on the file, not on the number of cores, because
        # events are numbered by it.
        "spark.sql.files.minPartitionNum": str(FILE_PARTS),
        # Times mean the same on every machine.
        "spark.sql.session.timeZone": "UTC",
        # Writing a part of a table again replaces that part and leaves the others.
        "spark.sql.sources.partitionOverwriteMode": "dynamic",
        # The folder `source=2007` is for the source called 2007, not for a number.
        "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
        # As other tools write times; the default is a deprecated type.
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        # Half the size of snappy, the default, at the same speed.
        "spark.sql.parquet.compression.codec": "zstd",
        **({"spark.driver.extraJavaOptions": JAVA} if options.is_short else {}),
        # Idle Python processes end silently.
        "spark.python.daemon.module": "smartpubsub.pipeline.worker_daemon",
        # A task that runs Python costs 8 ms instead of 25.
        "spark.python.unix.domain.socket.enabled": "true",
        # Conditions reach our own sources, which then read less.
        "spark.sql.python.filterPushdown.enabled": "true",
        # DataFrames from and to Arrow without a row at a time in between.
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # Tables are Parquet only: no checksum files, and no markers except those that begin with an
        # underscore. With it, streams keep their state in memory: RocksDB's needs checksum files.
        "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    }


def core_count() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def default_memory_mb() -> int:
    """A quarter of the machine's memory, within limits."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    return int(min(max(total * MEMORY_SHARE, MEMORY_MB_MIN), MEMORY_MB_MAX))


def _set_environment(master: str) -> None:
    is_local = _ON_THIS_MACHINE.fullmatch(master) is not None
    if is_local or _LOOPBACK.fullmatch(master):
        # Otherwise Spark uses a host name of this machine that may be unreachable.
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
        # Otherwise workers use the first python3 on the path.
        os.environ["PYSPARK_PYTHON"] = sys.executable
        # Spark plans reads of data sources with the driver's Python; these processes end silently,
        # too. Tasks that read or write a data source use the same file.
        os.environ[LAUNCHED_VARIABLE] = sys.executable
        os.environ["PYSPARK_DRIVER_PYTHON"] = str(LAUNCHER / "bin" / "python")
    else:
        # On other machines, the administrator chooses the Python, and may not have our launcher.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_CONF_DIR", str(CONF_FOLDER))
