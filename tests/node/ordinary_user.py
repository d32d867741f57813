"""Folders that cannot be written to, also when the tests run as root, who can write anywhere."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

NOBODY = 65534


@contextmanager
def as_ordinary_user() -> Iterator[None]:
    """Without root's rights for a while, if they are there."""
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
    """A folder that anybody can read and an ordinary user cannot write to, until it goes."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o555)
        try:
            yield folder
        finally:
            folder.chmod(0o700)
