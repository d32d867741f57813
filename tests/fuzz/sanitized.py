"""Builds the native engine with sanitizers, and runs the fuzzer with it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
SANITIZED = "SMARTPUBSUB_FUZZ_SANITIZED"
"""Set in the process that runs with the sanitized module."""


def run_sanitized(arguments: list[str]) -> int:
    """Run the fuzzer in a process that has the sanitized module."""
    folder = Path(sys.prefix) / "native-sanitized"
    _run("cmake", "-S", CHECKOUT / "native", "-B", folder, "-DSANITIZE=ON", _python(), _type())
    _run("cmake", "--build", folder)
    # The sanitizer has to be loaded before all else, also before the interpreter, and so has the
    # library whose exceptions it watches.
    libraries = [_path_of(name) for name in ("libasan.so", "libstdc++.so")]
    environment = {
        **os.environ,
        SANITIZED: "1",
        "LD_PRELOAD": " ".join(libraries),
        # The interpreter keeps some memory until its end; that is no leak.
        "ASAN_OPTIONS": "detect_leaks=0",
        "PYTHONMALLOC": "malloc",
        "PYTHONPATH": os.pathsep.join([str(folder), *filter(None, sys.path)]),
    }
    command = [sys.executable, "-m", "tests.fuzz", *arguments]
    return subprocess.run(command, env=environment, cwd=CHECKOUT, check=False).returncode


def _path_of(library: str) -> str:
    command = [os.environ.get("CXX", "g++"), f"-print-file-name={library}"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def _python() -> str:
    return f"-DPython_EXECUTABLE={sys.executable}"


def _type() -> str:
    return "-DCMAKE_BUILD_TYPE=Debug"


def _run(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
