"""Ctrl-C ends a stage in silence, but for one line."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest
from pyspark.sql import SparkSession

from smartpubsub.pipeline import sessions
from smartpubsub.pipeline.interrupts import stopping_when_interrupted
from tests.pipeline.waiting import PATIENCE_S, QUICK, until

PLAN = """
[[experiment]]
protocol = "floodsub"
nodes = 100
seed = { from = 1, to = 10000 }
"""


def test_ctrl_c_while_spark_works_says_one_line(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(PLAN, encoding="utf-8")
    program = Path(sys.executable).with_name("smartpubsub")
    command = [str(program), "pipeline", "campaign", "plan.toml"]
    with subprocess.Popen(
        [*command, "--out", "out", "--memory-mb", "1024", "--set", QUICK],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        try:
            until(lambda: any(tmp_path.glob("out/results/*")), process)
            # As a terminal does: everyone in the group gets it.
            os.killpg(process.pid, signal.SIGINT)
            output, errors = process.communicate(timeout=PATIENCE_S)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)

    told = [line for line in errors.decode().splitlines() if not line.startswith("campaign: ")]
    assert (process.returncode, output) == (130, b"")
    assert told == [
        "smartpubsub: campaign was interrupted; its output is complete only after it has run to"
        " the end"
    ]


def test_a_call_of_spark_that_ctrl_c_interrupts_logs_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    spark = Mock()

    def call() -> None:
        """As py4j does it."""
        logging.error("something else")
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            logging.exception("KeyboardInterrupt while sending command.")
            raise

    with pytest.raises(KeyboardInterrupt), stopping_when_interrupted(spark):
        call()

    assert [record.message for record in caplog.records] == ["something else"]
    spark.stop.assert_called_once()


def test_a_start_of_spark_that_ctrl_c_interrupts_logs_nothing(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(_options: sessions.SessionOptions) -> SparkSession:
        """As py4j does it."""
        logging.error("something else")
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            logging.exception("KeyboardInterrupt while sending command.")
            raise

    monkeypatch.setattr(sessions, "start_session", start)
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)

    with pytest.raises(KeyboardInterrupt), sessions.spark_session():
        pass

    assert [record.message for record in caplog.records] == ["something else"]
