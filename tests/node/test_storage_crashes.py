"""A node that is killed at any instant comes back with everything that was acknowledged."""

import sqlite3
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path
from random import Random

from smartpubsub.node.storage.store import SqliteStorage
from smartpubsub.node.storage.store_file import FILE
from tests.node import writer

KILLS = 25
GROUPS_MAX = 25
GROUP_S = 0.01
"""About how long a group takes, so that kills come at all stages of one."""


def acknowledged_before_a_kill(folder: Path, groups: int, seconds: float) -> list[int]:
    """What a process acknowledges that is killed some time after that many groups are."""
    command = [sys.executable, writer.__file__, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stderr
        lines = [process.stdout.readline() for _ in range(groups)]
        with suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
        process.kill()
        lines += process.stdout.readlines()
        assert process.stderr.read() == b""
    return [int(line) for line in lines]


def test_what_was_acknowledged_survives_kill_9(tmp_path: Path) -> None:
    rng = Random(5)
    expected: dict[bytes, bytes] = {}
    last = 0
    for _ in range(KILLS):
        acknowledged = acknowledged_before_a_kill(
            tmp_path, rng.randrange(1, GROUPS_MAX), rng.uniform(0, GROUP_S)
        )

        with SqliteStorage(tmp_path) as storage:
            found = dict(storage.load(b""))
        with closing(sqlite3.connect(tmp_path / FILE)) as database:
            assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]

        assert acknowledged == list(range(last + 1, acknowledged[-1] + 1))
        # The group that was being stored when the end came is there whole or not at all.
        assert int(found[writer.LAST]) in {acknowledged[-1], acknowledged[-1] + 1}
        for number in range(last + 1, int(found[writer.LAST]) + 1):
            for key, value in writer.group(number):
                expected.pop(key, None)
                expected |= {key: value} if value is not None else {}
        assert found == expected
        last = int(found[writer.LAST])
