"""Brings .venv in line with a fingerprint, repeating only the steps that changes require."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import marker
from commands import Say
from fingerprint import Fingerprint
from installer import Installer
from problems import SetupProblemError

LOW_PRIORITY = 15


def prepare(checkout: Path, wanted: Fingerprint, say: Say, *, native_later: bool = False) -> None:
    """Make .venv ready; with `native_later`, another process then builds the native matcher."""
    if (checkout / ".venv").is_symlink():
        # A set-up would empty the folder behind it, which may be that of another checkout.
        raise SetupProblemError(".venv is a symbolic link; remove the link, then run again")
    with only_one_at_a_time(checkout, say):
        made_from = marker.read(checkout)
        if made_from == wanted:
            return
        # Without a marker, the next set-up sees that this one was interrupted.
        marker.remove(checkout)
        changed = {part for part in wanted if made_from.get(part) != wanted[part]}
        installer = Installer(checkout, say)
        install(installer, changed, say)
        if native_later and needs_native(changed):
            if os.fork():
                return  # The other process now holds the lock, and completes the set-up.
            os.nice(LOW_PRIORITY)
        if needs_native(changed):
            installer.install_native()
        marker.write(checkout, wanted)
        say(".venv is ready")


def install(installer: Installer, changed: set[str], say: Say) -> None:
    anew = bool(changed & {"checkout", "python"})
    if anew:
        say("setting up .venv (once, some minutes)")
        installer.create_environment()
    else:
        say(f"bringing .venv up to date (changed: {', '.join(sorted(changed))})")
    if anew or "requirements" in changed:
        installer.install_requirements()
    if anew or changed & {"requirements", "package"}:
        installer.install_package()


def needs_native(changed: set[str]) -> bool:
    return bool(changed & {"checkout", "python", "requirements", "native", "compiler"})


@contextlib.contextmanager
def only_one_at_a_time(checkout: Path, say: Say) -> Iterator[None]:
    with (checkout / ".venv.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another set-up of .venv is running; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
