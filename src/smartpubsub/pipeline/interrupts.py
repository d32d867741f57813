"""Ctrl-C while Spark is running.

PySpark's own handler calls Spark in the middle of another call on the same connection, and both
calls print long errors. Here a thread, which has its own connection, stops Spark.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession, is_remote

STOPPING_S_MAX = 20.0


@contextmanager
def stopping_when_interrupted(spark: SparkSession) -> Iterator[None]:
    """Stop Spark on SIGINT and raise KeyboardInterrupt instead of the errors of interrupted
    calls."""
    stopping = threading.Thread(target=_stop, args=(spark,), name="stopping", daemon=True)
    was_interrupted = False

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        nonlocal was_interrupted
        if was_interrupted:
            # A second Ctrl-C: Spark is already stopping, which does not take long.
            return
        was_interrupted = True
        # Errors of calls that Spark's end interrupts are expected.
        logging.getLogger("py4j").setLevel(logging.CRITICAL + 1)
        stopping.start()
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, interrupt)
    try:
        with not_logging_interrupts():
            yield
    except BaseException:
        if not was_interrupted:
            raise
        raise KeyboardInterrupt from None
    finally:
        if was_interrupted:
            stopping.join(STOPPING_S_MAX)
        signal.signal(signal.SIGINT, before)


@contextmanager
def not_logging_interrupts() -> Iterator[None]:
    """Keep py4j from logging the calls that Ctrl-C interrupts."""
    root = logging.getLogger()
    root.addFilter(_is_no_interrupt)
    try:
        yield
    finally:
        root.removeFilter(_is_no_interrupt)


def _is_no_interrupt(record: logging.LogRecord) -> bool:
    # py4j logs each call that a signal interrupts, with its traceback, and not by its own logger.
    return record.exc_info is None or record.exc_info[0] is not KeyboardInterrupt


def _stop(spark: SparkSession) -> None:
    # Errors here mean that Spark has already ended.
    with suppress(Py4JError, PySparkException, OSError):
        if is_remote():
            spark.interruptAll()
        else:
            spark.sparkContext.setLogLevel("OFF")
        spark.stop()
