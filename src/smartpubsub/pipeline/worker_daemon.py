"""Starts Spark's Python worker processes, as Spark does, but faster, and ends them silently.

Spark ends a process that has been idle for a minute, and that process then prints a long error
about a broken pipe.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import PathFinder
from pathlib import Path
from socket import socket


def path_without_zip(path: list[str]) -> list[str]:
    """A path that has Spark's own package, but not the zip file of the same modules.

    Spark puts that file first. It has no compiled modules, so each process would compile them,
    which takes four times as long as all other imports. A file of another Spark stays.
    """
    for entry in path:
        zipped = Path(entry)
        rest = [other for other in path if other != entry]
        if zipped.name == "pyspark.zip" and (found := PathFinder.find_spec("pyspark", rest)):
            package = zipped.parents[2] / "__init__.py"  # The file is in pyspark/python/lib.
            if found.origin is not None and Path(found.origin) == package:
                return rest
    return path


def main() -> None:
    """Start processes until Spark ends this one."""
    sys.path[:] = path_without_zip(sys.path)
    from pyspark import daemon

    if sys.argv[1:] == ["pyspark.worker"]:
        # Imported before the forks, for all of them. Other modules import pyarrow, which starts a
        # thread, and that must not happen before a fork.
        import_module("pyspark.worker")

    original = daemon.worker

    def silent(sock: socket, authenticated: bool) -> int:
        try:
            return int(original(sock, authenticated))
        except BrokenPipeError:
            return 1

    daemon.worker = silent
    daemon.manager()


if __name__ == "__main__":
    main()
