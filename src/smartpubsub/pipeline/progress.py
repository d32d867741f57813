"""The progress of Spark, on standard error while a stage runs."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, TextIO

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession, is_remote

SHOW_EVERY_S = 0.5
TELL_EVERY_S = 30.0
"""Without a terminal, a log gets a line at this interval."""
_CLEAR_LINE = "\r\x1b[K"


class StageProgress:
    """One line on a terminal that changes; elsewhere a line from time to time.

    It is a context manager: a thread polls Spark while the block runs.
    """

    def __init__(
        self,
        spark: SparkSession,
        title: str,
        stream: TextIO | None = None,
        *,
        describe: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._tasks = _HeardTasks(spark) if is_remote() else _TrackedTasks(spark)
        self._title = title
        self._describe = describe
        """The progress of a stage, as long as it knows it better than by Spark's tasks."""
        self._stream = stream or sys.stderr
        self._is_terminal = self._stream.isatty()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)
        self._began_at = time.monotonic()

    def __enter__(self) -> StageProgress:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()
        self._tasks.close()
        if self._is_terminal:
            self._write(_CLEAR_LINE)

    def _run(self) -> None:
        while not self._over.wait(SHOW_EVERY_S if self._is_terminal else TELL_EVERY_S):
            try:
                line = self.line()
            except Py4JError:
                # Spark was stopped in the meantime; the code that stopped it reports why.
                return
            self._write(f"{_CLEAR_LINE}{line}" if self._is_terminal else f"{line}\n")

    def line(self) -> str:
        """The current progress as text."""
        seconds = time.monotonic() - self._began_at
        state = self._describe() or self._doing()
        return f"{self._title}: {state}, {seconds:,.0f} s"

    def _doing(self) -> str:
        done, total = self._tasks.counts()
        return f"{done:,} of {total:,} tasks" if total else "preparing"

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


class _TrackedTasks:
    """The tasks of the stages that Spark runs, as its driver knows them."""

    def __init__(self, spark: SparkSession) -> None:
        self._tracker = spark.sparkContext.statusTracker()

    def counts(self) -> tuple[int, int]:
        """The numbers of finished and of all tasks."""
        stages = [*map(self._tracker.getStageInfo, self._tracker.getActiveStageIds())]
        there = [stage for stage in stages if stage is not None]
        return sum(s.numCompletedTasks for s in there), sum(s.numTasks for s in there)

    def close(self) -> None:
        """Do nothing: no handler is registered."""


class _HeardTasks:
    """The tasks of the stages, as a server of Spark Connect reports them."""

    def __init__(self, spark: Any) -> None:
        self._spark = spark
        self._counts = 0, 0
        spark.registerProgressHandler(self._hear)

    def _hear(self, stages: Iterable[Any] | None, **_: object) -> None:
        there = [*(stages or ())]
        self._counts = sum(s.num_completed_tasks for s in there), sum(s.num_tasks for s in there)

    def counts(self) -> tuple[int, int]:
        """The numbers of finished and of all tasks."""
        return self._counts

    def close(self) -> None:
        """Stop listening."""
        self._spark.removeProgressHandler(self._hear)
