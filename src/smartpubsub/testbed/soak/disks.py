"""Small disks for the data folders of nodes, which can be filled and freed.

Root mounts a file system of limited size in memory for each node. Other users cannot mount one; for
them, filling a disk forbids the node's process to extend any file (RLIMIT_FSIZE).
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

SIZE_MB = 64
_BALLAST = "ballast"
_MOUNTS = Path("/proc/mounts")
_CHUNK = bytes(1 << 20)


class Disks:
    """The disks of the nodes of a soak."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.kind = "a tmpfs of 64 MB for each node" if _may_mount(folder) else "RLIMIT_FSIZE"
        """How disks become full."""

    @property
    def _are_mounted(self) -> bool:
        return self.kind != "RLIMIT_FSIZE"

    def make(self, folder: Path) -> None:
        """Make the disk of a node that has not started yet."""
        if self._are_mounted:
            _mount(folder)

    def fill(self, folder: Path, process: int) -> None:
        """Fill the disk of a node."""
        if self._are_mounted:
            with suppress(OSError), (folder / _BALLAST).open("ab", buffering=0) as file:
                while file.write(_CHUNK):  # A short write fills the rest.
                    pass
            return
        longest = max((path.stat().st_size for path in _files(folder)), default=0)
        _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
        with suppress(ProcessLookupError):
            resource.prlimit(process, resource.RLIMIT_FSIZE, (longest, most))

    def free(self, folder: Path, process: int | None) -> None:
        """Free the disk of a node; `process` is None if the node has stopped."""
        (folder / _BALLAST).unlink(missing_ok=True)
        if process is not None and not self._are_mounted:
            _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
            with suppress(ProcessLookupError):
                resource.prlimit(process, resource.RLIMIT_FSIZE, (most, most))


def used_bytes(folder: Path) -> int:
    """The bytes that a node's files take on its disk."""
    return sum(path.stat().st_blocks * 512 for path in _files(folder))


def remove(folder: Path) -> None:
    """Remove the folder of a testbed, with the disks that are mounted in it."""
    with suppress(OSError):
        mounts = [line.split()[1] for line in _MOUNTS.read_text().splitlines()]
        for mounted in mounts:
            if Path(mounted).is_relative_to(folder):
                subprocess.run(["umount", "--lazy", mounted], check=False)
    shutil.rmtree(folder, ignore_errors=True)


def _files(folder: Path) -> list[Path]:
    with suppress(OSError):
        return [path for path in folder.iterdir() if path.name != _BALLAST and path.is_file()]
    return []


def _may_mount(folder: Path) -> bool:
    if os.geteuid() != 0 or shutil.which("mount") is None:
        return False
    trial = folder / "trial"
    try:
        _mount(trial)
    except (OSError, subprocess.CalledProcessError):
        return False
    subprocess.run(["umount", str(trial)], check=False)
    return True


def _mount(folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    options = f"size={SIZE_MB}m,mode=700"
    command = ["mount", "-t", "tmpfs", "-o", options, "smartpubsub-soak", str(folder)]
    subprocess.run(command, check=True, capture_output=True)
