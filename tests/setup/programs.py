"""Stand-ins for the programs that the scripts in bin/ call."""

import shutil
import sys
from pathlib import Path


def write_program(path: Path, script: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def write_python_claiming(path: Path, version: tuple[int, int, int]) -> None:
    """A Python that runs the code it is given as if it were of another version."""
    pretend = f"import sys; sys.version_info = {version}; exec(sys.argv[1])"
    write_program(path, f'for code; do :; done\nexec "{sys.executable}" -c "{pretend}" "$code"')


def folder_without_python(folder: Path) -> Path:
    """A folder for PATH that has what the scripts need of a POSIX system, and no Python."""
    folder.mkdir()
    for name in ("sh", "dirname", "readlink"):
        program = shutil.which(name)
        assert program
        (folder / name).symlink_to(program)
    return folder
