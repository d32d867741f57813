"""The inputs of the environment in .venv, as text that can be stored and compared."""

import hashlib
import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

COMPILERS = ("c++", "g++", "clang++")
BUILD_OUTPUTS = frozenset({"build", "dist", "__pycache__", "_skbuild"})

Fingerprint = dict[str, str]


def take(checkout: Path) -> Fingerprint:
    return {
        "checkout": str(checkout),
        "python": f"{sys.version.split()[0]} {base_python()}",
        "requirements": digest([checkout / "requirements.txt"]),
        "package": digest([checkout / "pyproject.toml"]),
        "native": digest(source_files(checkout / "native")),
        "compiler": compiler_identity(),
    }


def base_python() -> Path:
    """The interpreter itself, even if a virtual environment's link to it is running."""
    return Path(sys.executable).resolve()


def digest(paths: Iterable[Path]) -> str:
    total = hashlib.sha256()
    for path in paths:
        content = path.read_bytes()
        total.update(os.fsencode(path) + b"\0%d\0" % len(content))
        total.update(content)
    return total.hexdigest()


def source_files(folder: Path) -> Iterator[Path]:
    for entry in sorted(folder.iterdir()):
        if not entry.is_dir():
            yield entry
        elif not is_build_output(entry.name):
            yield from source_files(entry)


def is_build_output(folder_name: str) -> bool:
    return folder_name in BUILD_OUTPUTS or folder_name.endswith((".egg-info", "_cache"))


def find_compiler() -> str | None:
    chosen = os.environ.get("CXX", "").split()[:1]
    return next(filter(None, map(shutil.which, chosen or COMPILERS)), None)


def compiler_identity() -> str:
    """Changes when a compiler is installed, removed, or upgraded in place."""
    compiler = find_compiler()
    if compiler is None:
        return "none"
    program = Path(compiler).resolve()
    state = program.stat()
    return f"{program} {state.st_size} {state.st_mtime_ns}"
