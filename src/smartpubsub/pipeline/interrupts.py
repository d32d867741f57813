"""Ctrl-C while Spark is at work.

PySpark's own handler calls Spark in the middle of another call, on the same connection, and what
both then say fills the screen. Here Spark is stopped from a thread, which has its own connection.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

STOPPING_S_MAX = 20.0


@contextmanager
def stopping_when_interrupted(spark: SparkSession) -> Iterator[None]:
    """Stop Spark on SIGINT and raise KeyboardInterrupt, whatever the calls that it ends raise."""
    stopping = threading.Thread(target=_stop, args=(spark,), name="stopping", daemon=True)
    was_interrupted = False

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        nonlocal was_interrupted
        if was_interrupted:
            # Asked again: it is being stopped, and that does not take long.
            return
        was_interrupted = True
        # Calls that end because Spark does are no news.
        logging.getLogger("py4j").setLevel(logging.CRITICAL + 1)
        stopping.start()
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    except BaseException:
        if not was_interrupted:
            raise
        raise KeyboardInterrupt from None
    finally:
        if was_interrupted:
            stopping.join(STOPPING_S_MAX)
        signal.signal(signal.SIGINT, before)


def _stop(spark: SparkSession) -> None:
    # Whatever fails here fails because Spark is gone already.
    with suppress(Py4JError, OSError):
        spark.sparkContext.setLogLevel("OFF")
        spark.stop()
