"""Starts the Python process that plans a stream, as Spark does, but connects to Spark at once.

Spark ends a query whose process does not connect within ten seconds. On a busy machine, the imports
before Spark's own connection take longer.
"""

from __future__ import annotations

import os
import socket
import sys
from importlib import import_module
from runpy import run_module

from smartpubsub.pipeline.worker_daemon import path_without_zip

BUFFER_BYTES = 1 << 16


def connected() -> socket.socket | None:
    """A connection to Spark; None if Spark listens on a port, which needs a secret."""
    path = os.environ.get("PYTHON_WORKER_FACTORY_SOCK_PATH")
    if path is None:
        return None
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(path)
    return connection


def main() -> None:
    """Run the module that the first argument names."""
    connection = connected()
    sys.path[:] = path_without_zip(sys.path)
    if connection is not None:
        # Spark's module would make a connection of its own.
        both = connection.makefile("rwb", BUFFER_BYTES), connection
        vars(import_module("pyspark.util"))["local_connect_and_auth"] = lambda *_: both
    run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
