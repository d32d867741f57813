"""Creates .venv and installs into it: the listed packages, this package, the native matcher."""

import importlib.util
import shutil
import sys
from pathlib import Path

import fingerprint
from commands import Commands, Say
from problems import NoSpaceError, SetupProblemError

# A missing index must be noticed soon; large downloads from a slow one may take long.
FIRST_CONTACT = ("--timeout", "10", "--retries", "1")
LATER_CONTACT = ("--retries", "2")


class Installer:
    def __init__(self, checkout: Path, say: Say) -> None:
        self._checkout = checkout
        self._say = say
        self._environment = checkout / ".venv"
        programs = self._environment / "bin"
        self._python = programs / "python"
        self._commands = Commands(self._environment / "setup.log", programs, say)

    def create_environment(self) -> None:
        require_venv_module()
        self._environment.mkdir(exist_ok=True)
        empty_folder(self._environment)
        self._commands.run(
            "creating .venv", [fingerprint.base_python(), "-I", "-m", "venv", self._environment]
        )

    def install_requirements(self) -> None:
        requirements = self._checkout / "requirements.txt"
        for pip_itself in pinned_line(requirements, "pip"):
            self._pip(
                "installing pip",
                *("install", *FIRST_CONTACT, "--no-deps", pip_itself),
                when_slow="the package index has not answered yet; is there a network?",
            )
        if not self._install_with_uv(requirements):
            self._pip(
                "installing the packages in requirements.txt",
                *("install", *LATER_CONTACT, "--no-deps", "-r", requirements),
            )

    def _install_with_uv(self, requirements: Path) -> bool:
        """Install the list with uv, if it is listed; it takes a third of pip's time."""
        pinned = pinned_line(requirements, "uv")
        if not pinned:
            return False
        self._pip("installing uv", "install", *LATER_CONTACT, "--no-deps", *pinned)
        uv = self._python.with_name("uv")
        # As pip does, uv trusts the certificates that the machine trusts, such as a proxy's.
        options = ("--system-certs", "--python", self._python, "--no-deps", "-r", requirements)
        try:
            step = "installing the packages in requirements.txt"
            self._commands.run(step, [uv, "pip", "install", *options])
        except NoSpaceError:
            raise
        except SetupProblemError:
            # uv does not read all settings of pip, and pip's errors are clearer.
            self._say("uv could not install the packages, so pip does")
            return False
        return True

    def install_package(self) -> None:
        self._pip(
            "installing smartpubsub",
            *("install", "--no-deps", "--no-build-isolation", "--editable", self._checkout),
        )

    def install_native(self) -> None:
        """Build the native matcher; a failure is only reported, because there is a pure-Python
        engine."""
        if fingerprint.find_compiler() is None:
            self._do_without_native("no C++ compiler was found")
            return
        self._say("building the native matcher")
        try:
            self._pip(
                "its build",
                *("install", "--no-deps", "--no-build-isolation", "--force-reinstall"),
                f"--config-settings=build-dir={self._environment / 'native-build'}",
                self._checkout / "native",
            )
        except NoSpaceError:
            raise
        except SetupProblemError as problem:
            self._do_without_native(str(problem))

    def _do_without_native(self, reason: str) -> None:
        self._pip("removing the old native matcher", "uninstall", "--yes", "smartpubsub-native")
        self._say(
            f"native matcher not built: {reason}; the pure-Python engine is used; "
            "install a C++20 compiler and run again"
        )

    def _pip(self, step: str, *arguments: str | Path, when_slow: str = "") -> None:
        self._commands.run(step, [self._python, "-m", "pip", *arguments], when_slow=when_slow)


def require_venv_module() -> None:
    if all(importlib.util.find_spec(name) for name in ("venv", "ensurepip")):
        return
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    raise SetupProblemError(
        f"Python {version} has no venv module; install it "
        f"(Debian and Ubuntu: apt install python{version}-venv), then run again"
    )


def empty_folder(folder: Path) -> None:
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def pinned_line(requirements: Path, name: str) -> list[str]:
    """The installer's own line of the list, so that the listed version installs the rest."""
    lines = requirements.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line.startswith(f"{name}==")]
