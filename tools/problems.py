"""Set-up failures, each with a one-line message that says what to do."""

import errno
from pathlib import Path

NO_SPACE_CODES = frozenset({errno.ENOSPC, errno.EDQUOT})
NO_SPACE_WORDS = ("No space left on device", "Disk quota exceeded")
NO_NETWORK_WORDS = (
    "NewConnectionError",
    "ConnectTimeoutError",
    "ReadTimeoutError",
    "ProxyError",
    "SSLError",
    "connection broken by",
    "Connection aborted",
    "Could not fetch URL",
    "name resolution",
    "Network is unreachable",
)


class SetupProblemError(Exception):
    """A reason why the environment cannot be set up; its text is shown to the user."""


class NoSpaceError(SetupProblemError):
    def __init__(self) -> None:
        super().__init__("no disk space left for .venv; free about 1 GB, then run again")


def from_os_error(error: OSError) -> SetupProblemError:
    if error.errno in NO_SPACE_CODES:
        return NoSpaceError()
    subject = f": {error.filename}" if error.filename else ""
    return SetupProblemError(f"cannot set up .venv: {error.strerror or error}{subject}")


def from_log(step: str, log_text: str, log: Path) -> SetupProblemError:
    if any(words in log_text for words in NO_SPACE_WORDS):
        return NoSpaceError()
    if any(words in log_text for words in NO_NETWORK_WORDS):
        return SetupProblemError(
            "the package index cannot be reached; check the network and pip's settings, "
            f"then run again (details: {log})"
        )
    return SetupProblemError(f"{step} failed{last_error(log_text)} (details: {log})")


def last_error(log_text: str) -> str:
    errors = [line for line in log_text.splitlines() if line.startswith("ERROR: ")]
    return f": {errors[-1].removeprefix('ERROR: ')}" if errors else ""
