"""The file in .venv that records the inputs of a finished set-up."""

import os
from pathlib import Path

from fingerprint import Fingerprint


def path_in(checkout: Path) -> Path:
    return checkout / ".venv" / "made-from.txt"


def read(checkout: Path) -> Fingerprint:
    """Empty when there is no finished .venv."""
    if not os.access(checkout / ".venv" / "bin" / "python", os.X_OK):
        return {}
    try:
        lines = path_in(checkout).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return {}
    return {part: value for part, _, value in (line.partition("=") for line in lines)}


def write(checkout: Path, fingerprint: Fingerprint) -> None:
    text = "".join(f"{part}={value}\n" for part, value in fingerprint.items())
    unfinished = path_in(checkout).with_suffix(".new")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(path_in(checkout))


def remove(checkout: Path) -> None:
    path_in(checkout).unlink(missing_ok=True)
