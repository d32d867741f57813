"""Files on this machine, looked at before Spark starts: that takes seconds, and this does not.

Paths on other file systems are looked at when there is a session.
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
    """An input that is not there, or has nothing in it; or a file that cannot be written."""


def plain_paths_are_local(
    master: str | None, settings: Mapping[str, str], environ: Mapping[str, str] = os.environ
) -> bool:
    """Whether a path without a scheme is surely one of this machine.

    >>> plain_paths_are_local("spark://host:7077", {}, {}), plain_paths_are_local(None, {}, {})
    (False, True)
    """
    is_told_otherwise = _DEFAULT_FILE_SYSTEM in settings or "HADOOP_CONF_DIR" in environ
    return not is_told_otherwise and (master is None or bool(_LOCAL_MASTER.fullmatch(master)))


def check_local(path: str, what: str) -> None:
    """Raise an error if a path without a scheme has nothing in it.

    `what` is what should be there.
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
    """Raise an error if a file of this machine cannot be written."""
    if place.is_dir():
        raise InputError(f"{place} is a folder; give the name of a file")
    if not place.parent.is_dir():
        raise InputError(f"{place}: there is no folder {place.parent}; make it, or choose another")
    if not os.access(place if place.exists() else place.parent, os.W_OK):
        raise InputError(f"{place} cannot be written; choose another place")


def local_bytes(path: str) -> int | None:
    """How much lies at a path of this machine; None for one that is elsewhere, or many."""
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
    """Whether a path may stand for many.

    >>> has_wildcards("cars/*.car"), has_wildcards("cars")
    (True, False)
    """
    return any(mark in path for mark in "*?[{")


def missing_text(path: str, what: str) -> str:
    """What to say of a path where there is nothing."""
    return f"{path}: no such file or folder; give the path of {what}"


def empty_text(path: str, what: str) -> str:
    """What to say of a folder or a file with nothing in it."""
    return f"{path} is empty; give the path of {what}"


def is_hidden(name: str) -> bool:
    """Whether Spark and other readers of tables pass a file over.

    >>> is_hidden("_SUCCESS"), is_hidden("part-0.parquet")
    (True, False)
    """
    return name.startswith(("_", "."))
