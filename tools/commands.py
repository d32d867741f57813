"""Runs the commands of a set-up; their output goes to a log."""

import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import problems

Say = Callable[[str], None]

PATIENCE_SECONDS = 12

# Settings of the package source are kept; any other pip setting could redirect the install.
KEPT_PIP_SETTINGS = frozenset(
    {
        "PIP_CACHE_DIR",
        "PIP_CERT",
        "PIP_CLIENT_CERT",
        "PIP_CONFIG_FILE",
        "PIP_DEFAULT_TIMEOUT",
        "PIP_EXTRA_INDEX_URL",
        "PIP_FIND_LINKS",
        "PIP_INDEX_URL",
        "PIP_KEYRING_PROVIDER",
        "PIP_NO_CACHE_DIR",
        "PIP_NO_INDEX",
        "PIP_PROXY",
        "PIP_TRUSTED_HOST",
    }
)
UV_SETTINGS = {
    "PIP_CERT": "SSL_CERT_FILE",
    "PIP_DEFAULT_TIMEOUT": "UV_HTTP_TIMEOUT",
    "PIP_EXTRA_INDEX_URL": "UV_EXTRA_INDEX_URL",
    "PIP_FIND_LINKS": "UV_FIND_LINKS",
    "PIP_INDEX_URL": "UV_DEFAULT_INDEX",
    "PIP_NO_CACHE_DIR": "UV_NO_CACHE",
    "PIP_NO_INDEX": "UV_NO_INDEX",
    "PIP_TRUSTED_HOST": "UV_INSECURE_HOST",
}
"""The names of these settings in uv."""


class Commands:
    def __init__(self, log: Path, programs: Path, say: Say) -> None:
        self.log = log
        self._programs = programs
        self._say = say

    def run(self, step: str, command: Sequence[str | Path], *, when_slow: str = "") -> None:
        """Run a command; if it fails, raise the problem that its log shows."""
        with self.log.open("a+", encoding="utf-8", errors="replace") as log:
            log.write(f"$ {' '.join(map(str, command))}\n")
            log.flush()
            start = log.tell()
            with subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment(),
            ) as process:
                self._wait(process, when_slow)
            if process.returncode != 0:
                log.seek(start)
                raise problems.from_log(step, log.read(), self.log)

    def _wait(self, process: subprocess.Popen[bytes], when_slow: str) -> None:
        try:
            process.wait(PATIENCE_SECONDS if when_slow else None)
        except subprocess.TimeoutExpired:
            self._say(when_slow)
        except KeyboardInterrupt:
            process.terminate()
            raise

    def _environment(self) -> dict[str, str]:
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PYTHON", "PIP_", "UV_")) or name in KEPT_PIP_SETTINGS
        }
        same = {uv: kept[pip] for pip, uv in UV_SETTINGS.items() if pip in kept}
        return {
            **kept,
            **same,
            "PATH": f"{self._programs}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_NO_INPUT": "1",
            "PIP_USER": "0",
            # Problems are recognised by their English messages.
            "LC_ALL": "C.UTF-8",
            "UV_NO_CONFIG": "1",
        }
