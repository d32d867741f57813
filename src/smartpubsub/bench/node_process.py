"""A node in a process of its own, as a user starts it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from smartpubsub.errors import SmartPubSubError

COMMAND = "import sys; from smartpubsub.cli.main import main; sys.exit(main())"


class NodeProcess(NamedTuple):
    """A running node."""

    process: int
    said: dict[str, Any]
    """The document that it printed when it was ready."""

    def resident_mb(self) -> float:
        """Its resident memory."""
        for line in Path(f"/proc/{self.process}/status").read_text(encoding="utf-8").splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1_024 / 1_000_000
        raise SmartPubSubError("this system does not report the memory of a process")

    def cpu_s(self) -> float:
        """The processor time that it has used."""
        fields = Path(f"/proc/{self.process}/stat").read_text(encoding="utf-8").rpartition(")")[2]
        return sum(map(int, fields.split()[11:13])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def node_process(folder: str, *options: str) -> Iterator[NodeProcess]:
    """Run a node."""
    arguments = ["node", "run", "--json", "--data", folder, "--listen", "/ip4/127.0.0.1/tcp/0"]
    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND, *arguments, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        said = json.loads(process.stdout.readline() or "{}")
        if not said.get("ready"):
            raise SmartPubSubError("the node of the benchmark has not started; run it again")
        yield NodeProcess(process.pid, said)
    finally:
        process.terminate()
        process.communicate()
