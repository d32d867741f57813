"""Checks of files on this machine before Spark starts, which takes seconds.

Paths on other file systems are checked once there is a session.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from smartpubsub.errors import SmartPubSubError

_ELSEWHERE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
_DEFAULT_FILE_SYSTEM = "spark.hadoop.fs.defaultFS"
_LOCAL_MASTER = re.compile(r"local(\[.*\])?")


class InputError(SmartPubSubError):
    """An input that is missing or empty, or a file that cannot be written."""


def plain_paths_are_local(
    master: str | None, settings: Mapping[str, str], environ: Mapping[str, str] = os.environ
) -> bool:
    """Whether a path without a scheme is certainly on this machine.

    >>> plain_paths_are_local("spark://host:7077", {}, {}), plain_paths_are_local(None, {}, {})
    (False, True)
    """
    has_other_default = _DEFAULT_FILE_SYSTEM in settings or "HADOOP_CONF_DIR" in environ
    return not has_other_default and (master is None or bool(_LOCAL_MASTER.fullmatch(master)))


def check_local(path: str, what: str) -> None:
    """Raise an error if a path without a scheme is missing or empty.

    `what` describes the expected content.
    """
    if is_elsewhere(path):
        return
    place = Path(path)
    if has_wildcards(path) and not place.exists():
        return
    if not place.exists():
        raise InputError(missing_text(path, what))
    if place.is_dir():
        is_empty = not any(
            file.is_file() and not any(map(is_hidden, file.relative_to(place).parts))
            for file in place.rglob("*")
        )
    else:
        is_empty = place.is_file() and place.stat().st_size == 0
    if is_empty:
        raise InputError(empty_text(path, what))


def check_new_file(place: Path) -> None:
    """Raise an error if a local file cannot be written."""
    if place.is_dir():
        raise InputError(f"{place} is a folder; give the name of a file")
    if not place.parent.is_dir():
        raise InputError(
            f"{place}: there is no folder {place.parent}; create it, or choose another"
        )
    if not os.access(place if place.exists() else place.parent, os.W_OK):
        raise InputError(f"{place} cannot be written; choose another place")


def local_bytes(path: str) -> int | None:
    """The size of a local path; None for remote paths and patterns."""
    place = Path(path)
    if is_elsewhere(path) or not place.exists():
        return None
    files = place.rglob("*") if place.is_dir() else [place]
    return sum(file.stat().st_size for file in files if file.is_file())


def is_elsewhere(path: str) -> bool:
    """Whether a path has a scheme, and so may be on another file system.

    >>> is_elsewhere("hdfs://host/folder"), is_elsewhere("folder")
    (True, False)
    """
    return _ELSEWHERE.match(path) is not None


def has_wildcards(path: str) -> bool:
    """Whether a path has wildcards.

    >>> has_wildcards("cars/*.car"), has_wildcards("cars")
    (True, False)
    """
    return any(mark in path for mark in "*?[{")


def missing_text(path: str, what: str) -> str:
    """The error message for a missing path."""
    return f"{path}: no such file or folder; give the path of {what}"


def empty_text(path: str, what: str) -> str:
    """The error message for an empty folder or file."""
    return f"{path} is empty; give the path of {what}"


def is_hidden(name: str) -> bool:
    """Whether Spark and other readers of tables ignore a file.

    >>> is_hidden("_SUCCESS"), is_hidden("part-0.parquet")
    (True, False)
    """
    return name.startswith(("_", "."))
