"""Starts the processes that run Python for Spark, as Spark does, but lets them go in silence.

Spark ends a process that has had nothing to do for a minute, and that process then tells the user
about a broken pipe at length.
"""

from __future__ import annotations

from socket import socket

from pyspark import daemon

_original = daemon.worker


def _silent(sock: socket, authenticated: bool) -> int:
    try:
        return int(_original(sock, authenticated))
    except BrokenPipeError:
        return 1


if __name__ == "__main__":
    daemon.worker = _silent
    daemon.manager()
