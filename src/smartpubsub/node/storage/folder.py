"""The data folder of a node, which only one node uses at a time."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from smartpubsub.errors import SmartPubSubError

LOCK_FILE = "lock"
_PROCESS_ID_BYTES_MAX = 20


class FolderError(SmartPubSubError):
    """A data folder that cannot be used."""


class FolderInUseError(FolderError):
    """A data folder that another node uses, with that node's process id if it is known."""

    def __init__(self, folder: Path, process: int | None) -> None:
        by = "another node" if process is None else f"the node with process id {process}"
        super().__init__(f"{folder} is in use by {by}; stop it or choose another data folder")
        self.folder = folder
        self.process = process


def made_folder(folder: Path) -> Path:
    """Make a folder that only its user can open, unless it exists."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise _unusable(folder, error) from None
    return folder


def sync_folder(folder: Path) -> None:
    """Make created and renamed files in a folder survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class FolderLock:
    """A lock of a folder, held until it is released or the process ends."""

    def __init__(self, folder: Path) -> None:
        path = folder / LOCK_FILE
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except IsADirectoryError as error:
            raise FolderError(
                f"{path}: {error.strerror}; move it away: the node needs a lock file there"
            ) from None
        except OSError as error:
            raise _unusable(folder, error) from None
        try:
            # The file stays: if it were removed, two processes could lock two files.
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            process = self._process()
            self.release()
            if isinstance(error, BlockingIOError):
                raise FolderInUseError(folder, process) from None
            raise _unusable(folder, error) from None
        # The process id only helps readers of the file, and a full disk has no room for it.
        with suppress(OSError):
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, b"%d\n" % os.getpid(), 0)

    def release(self) -> None:
        """Release the lock."""
        os.close(self._descriptor)

    def _process(self) -> int | None:
        written = os.pread(self._descriptor, _PROCESS_ID_BYTES_MAX, 0).strip()
        return int(written) if written.isdigit() else None


def _unusable(folder: Path, error: OSError) -> FolderError:
    return FolderError(
        f"{folder}: {error.strerror}; choose a data folder in which you can create files"
    )
