"""Read-only folders, also for tests that run as root."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

NOBODY = 65534


@contextmanager
def as_ordinary_user() -> Iterator[None]:
    """Drop root's rights for the block, if the process has them."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@contextmanager
def read_only_folder() -> Iterator[Path]:
    """A folder that all users can read, and an ordinary user cannot write to."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o555)
        try:
            yield folder
        finally:
            folder.chmod(0o700)
