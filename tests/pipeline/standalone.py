"""A real Spark cluster on this machine: a master and workers, each a process of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pyspark

from smartpubsub.pipeline.java import find_java, use_java
from smartpubsub.pipeline.sessions import CONF_FOLDER
from tests.pipeline.waiting import until

_MASTER = "org.apache.spark.deploy.master.Master"
_WORKER = "org.apache.spark.deploy.worker.Worker"


class Cluster:
    """A master and the workers that are left."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        use_java(find_java())
        self._environment = {
            **os.environ,
            "SPARK_HOME": str(Path(pyspark.__file__).parent),
            "SPARK_CONF_DIR": str(CONF_FOLDER),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_WORKER_DIR": str(folder / "work"),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "PYSPARK_PYTHON": sys.executable,
        }
        self.processes: list[subprocess.Popen[bytes]] = []
        self.url = ""

    def start(self, workers: int) -> None:
        """Start the master, and workers of one core each."""
        ports = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        master, log = self._start("master", _MASTER, *ports)
        until(lambda: _url_in(log) is not None, master)
        self.url = _url_in(log) or ""
        for number in range(workers):
            size = ["--cores", "1", "--memory", "1g"]
            name = f"worker-{number}"
            worker, log = self._start(name, _WORKER, *ports, *size, self.url)
            until(partial(_is_registered, log), worker)

    def kill_worker(self) -> None:
        """End a worker and all that it has started, as a machine that loses power does."""
        _kill(self.processes.pop())

    def _start(self, name: str, *command: str) -> tuple[subprocess.Popen[bytes], Path]:
        log = self._folder / f"{name}.log"
        program = Path(pyspark.__file__).parent / "bin" / "spark-class"
        options = f"-Dlog4j2.configurationFile={Path(__file__).parent / 'standalone.properties'}"
        environment = {**self._environment, "SPARK_MASTER_OPTS": options}
        environment["SPARK_WORKER_OPTS"] = options
        with log.open("wb") as output:
            process = subprocess.Popen(
                [str(program), *command],
                env=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.processes.append(process)
        return process, log

    def stop(self) -> None:
        """End all that is left."""
        for process in self.processes:
            _kill(process)


@contextmanager
def cluster(folder: Path, workers: int = 2) -> Iterator[Cluster]:
    """A cluster for as long as a block lasts."""
    made = Cluster(folder)
    try:
        made.start(workers)
        yield made
    finally:
        made.stop()


def _is_registered(log: Path) -> bool:
    return "Successfully registered" in log.read_text()


def _url_in(log: Path) -> str | None:
    found = re.search(r"spark://127\.0\.0\.1:\d+", log.read_text())
    return found[0] if found else None


def _kill(process: subprocess.Popen[bytes]) -> None:
    # A worker starts its executors in its own group, so they go with it.
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
