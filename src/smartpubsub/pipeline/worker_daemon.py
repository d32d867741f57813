"""Starts Spark's Python worker processes, as Spark does, but ends them silently.

Spark ends a process that has been idle for a minute, and that process then prints a long error
about a broken pipe.
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
