"""A soak of seconds: whole nodes under faults, judged, measured, and nothing left after it."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from smartpubsub.cli.main import main
from tests.cli.running import PROGRAM, WATCHDOG_S

Captured = pytest.CaptureFixture[str]

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="not Linux")


@pytest.fixture(autouse=True)
def own_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the nodes keep their data; nothing may be left in it."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return folder


def test_a_short_soak_loses_nothing_and_tells_what_it_did(
    capsys: Captured, tmp_path: Path, own_temporary_folder: Path
) -> None:
    arguments = ["--nodes", "3", "--minutes", "0.15", "--rate", "20", "--seed", "54", "--json"]
    code = main(["testbed", "soak", *arguments, "--report", str(tmp_path / "report")])
    output = capsys.readouterr()
    found: dict[str, Any] = json.loads(output.out)

    assert (code, found["violations"]) == (0, []), output.err
    assert found["missing"] == 0
    assert found["delivered"] == found["expected"] > 5
    assert "kills" in found["faults"]
    assert found["judged"]["delivery"] + found["judged"]["survival"] == found["expected"]
    assert found["publish_ms"]["p50"] > 0
    assert [usage["node"] for usage in found["usage"]] == [0, 1, 2]
    assert all(usage["rss_mb"]["max"] > 10 for usage in found["usage"])
    assert json.loads((tmp_path / "report" / "soak.json").read_text()) == found
    assert "Resident memory" in (tmp_path / "report" / "soak.html").read_text()
    assert list(own_temporary_folder.iterdir()) == []


def test_ctrl_c_ends_a_soak_with_its_report(own_temporary_folder: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, "testbed", "soak", "--nodes", "2", "--json"]
    soak = subprocess.Popen(
        [*command, "--without", "churn"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(own_temporary_folder)},
    )
    assert soak.stderr is not None
    deadline = time.monotonic() + WATCHDOG_S
    while "soaking" not in soak.stderr.readline():
        assert time.monotonic() < deadline
        assert soak.poll() is None
    soak.send_signal(signal.SIGINT)
    output, errors = soak.communicate(timeout=WATCHDOG_S)

    assert soak.returncode == 130, errors
    found = json.loads(output)
    assert found["interrupted"] is True
    assert found["without"] == ["churn"]
    assert found["violations"] == []
    assert "Traceback" not in errors
    assert list(own_temporary_folder.iterdir()) == []
