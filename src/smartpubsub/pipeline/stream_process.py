"""Starts the Python process that plans a stream, as Spark does, but faster.

Spark ends a query whose process takes longer than ten seconds to start, as on a busy machine.
"""

from __future__ import annotations

import sys
from runpy import run_module

from smartpubsub.pipeline.worker_daemon import path_without_zip

if __name__ == "__main__":
    sys.path[:] = path_without_zip(sys.path)
    run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
