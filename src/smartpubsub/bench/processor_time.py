"""The processor time of a command and of all processes that it starts.

python -m smartpubsub.bench.processor_time COMMAND...
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import subprocess
import sys
from collections.abc import Sequence

from smartpubsub.errors import SmartPubSubError

_PR_SET_CHILD_SUBREAPER = 36


def processor_seconds(command: Sequence[str]) -> float:
    """Run a command, wait for all processes that it starts, and return their processor time."""
    watcher = [sys.executable, "-m", __name__, *command]
    outcome = json.loads(subprocess.run(watcher, stdout=subprocess.PIPE, check=True).stdout)
    if outcome["code"]:
        raise SmartPubSubError(f"{command} failed with the code {outcome['code']}")
    return float(outcome["seconds"])


def _watch(command: Sequence[str]) -> dict[str, float]:
    # Orphans, such as Java after the end of its Python, become children of this process.
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    code = subprocess.call(command, stdout=subprocess.DEVNULL)
    while True:
        try:
            os.wait()
        except ChildProcessError:
            break
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {"code": code, "seconds": used.ru_utime + used.ru_stime}


if __name__ == "__main__":
    print(json.dumps(_watch(sys.argv[1:])))  # noqa: T201
