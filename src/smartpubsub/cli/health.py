"""Checks of the machine, each with a remedy."""

import fcntl
import importlib
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path

from smartpubsub.cli.checks import (
    ALWAYS,
    FOR_DEVELOPMENT,
    FOR_SPEED,
    FOR_THE_PIPELINE,
    Check,
    verdict,
)
from smartpubsub.cli.node.health import node_checks
from smartpubsub.pipeline.java import OLDEST_JAVA, REMEDY, Java, find_java

OLDEST_PYTHON = (3, 11)
COMPILERS = ("c++", "g++", "clang++")
GIBIBYTE = 1 << 30
CHECKOUT = Path(__file__).parents[3]


def run_checks() -> Iterator[Check]:
    yield check_python()
    yield check_environment()
    native = check_native_matcher()
    yield native
    yield check_compiler(native_is_built=native.ok)
    yield check_loopback()
    yield check_temporary_folder()
    yield check_disk_space()
    yield from node_checks()
    yield check_gateway()
    yield check_java()
    yield check_pyspark()


def check_python(version: tuple[int, ...] = sys.version_info[:3]) -> Check:
    return verdict(
        "Python 3.11+",
        ok=version >= OLDEST_PYTHON,
        needed=ALWAYS,
        found=".".join(map(str, version)),
        remedy="install Python 3.11 or newer",
    )


def check_environment(
    checkout: Path = CHECKOUT, installed_version: Callable[[str], str] = metadata.version
) -> Check:
    """Check that the packages of a checkout are those of its requirements.txt."""
    name = "checkout's environment"
    requirements = checkout / "requirements.txt"
    if not requirements.is_file():
        found = "not a checkout, but an installed package"
        return verdict(name, ok=True, needed=FOR_DEVELOPMENT, found=found, remedy="")
    listed = [line.partition("==") for line in requirements.read_text().split()]
    different = [
        package
        for package, _, version in listed
        if not is_installed(package, version, installed_version)
    ]
    return verdict(
        name,
        ok=not different,
        needed=FOR_DEVELOPMENT,
        found=f"differs in {', '.join(different)}"
        if different
        else f"{len(listed)} packages as listed",
        remedy="run a command of bin/; if that does not help, remove .venv and run it again",
    )


def is_installed(package: str, version: str, installed_version: Callable[[str], str]) -> bool:
    try:
        return installed_version(package) == version
    except metadata.PackageNotFoundError:
        return False


def check_native_matcher(
    module: str = "smartpubsub_native", environment: Path = Path(sys.prefix)
) -> Check:
    problem = import_problem(module)
    remedy = "install a C++20 compiler, then run a command of bin/, or pip install ./native"
    if problem is not None and is_being_set_up(environment):
        problem, remedy = "being built", "wait until the set-up says that .venv is ready"
    return verdict(
        "native matcher",
        ok=problem is None,
        needed=FOR_SPEED,
        found=problem or "built",
        remedy=remedy,
    )


def is_being_set_up(environment: Path) -> bool:
    """Whether another process sets up the environment of a checkout."""
    try:
        with environment.with_name(f"{environment.name}.lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def check_compiler(
    *, native_is_built: bool, which: Callable[[str], str | None] = shutil.which
) -> Check:
    chosen = os.environ.get("CXX", "").split()[:1]
    found = next(filter(None, map(which, chosen or COMPILERS)), None)
    return verdict(
        "C++ compiler",
        ok=native_is_built or found is not None,
        needed="to build the native matcher",
        found=found
        or ("none, nor needed: the native matcher is built" if native_is_built else "none"),
        remedy="install g++ 10 or clang++ 12, or newer (Debian and Ubuntu: apt install g++)",
    )


def check_loopback(connect: Callable[[], None] | None = None) -> Check:
    try:
        (connect or connect_over_loopback)()
        problem = None
    except OSError as error:
        problem = error.strerror or str(error)
    return verdict(
        "loopback ports",
        ok=problem is None,
        needed=ALWAYS,
        found=problem or "can be opened",
        remedy="allow programs to listen on and connect to 127.0.0.1",
    )


def connect_over_loopback() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname(), timeout=1),
    ):
        pass


def check_temporary_folder(find_folder: Callable[[], str] = tempfile.gettempdir) -> Check:
    try:
        folder = find_folder()
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"smartpubsub")
        ok, found = True, folder
    except OSError as error:
        ok, found = False, error.strerror or str(error)
    return verdict(
        "temporary folder",
        ok=ok,
        needed=ALWAYS,
        found=found,
        remedy="set TMPDIR to a folder that can be written",
    )


def check_disk_space(free_bytes: Callable[[], int] | None = None) -> Check:
    free = (free_bytes or temporary_space)()
    return verdict(
        "disk space",
        ok=free >= GIBIBYTE,
        needed=ALWAYS,
        found=f"{free / GIBIBYTE:.1f} GiB free for temporary files",
        remedy="free 1 GiB, or set TMPDIR to a folder on a disk with room",
    )


def temporary_space() -> int:
    try:
        return shutil.disk_usage(tempfile.gettempdir()).free
    except OSError:
        return 0


def check_gateway() -> Check:
    problem = import_problem("smartpubsub.gateway.server")
    return verdict(
        "gateway",
        ok=problem is None,
        needed="for HTTP and the page",
        found=problem or "importable",
        remedy="pip install 'smartpubsub[gateway]'",
    )


def check_java(find: Callable[[], Java | None] = find_java) -> Check:
    java = find()
    return verdict(
        f"Java {OLDEST_JAVA}+",
        ok=java is not None,
        needed=FOR_THE_PIPELINE,
        found="none" if java is None else f"Java {java.major} by {java.origin}: {java.program}",
        remedy=REMEDY,
    )


def check_pyspark(module: str = "pyspark") -> Check:
    problem = import_problem(module)
    return verdict(
        "PySpark",
        ok=problem is None,
        needed=FOR_THE_PIPELINE,
        found=problem or "importable",
        remedy="pip install 'smartpubsub[pipeline]'",
    )


def import_problem(module: str) -> str | None:
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        return "not installed" if error.name == module else str(error)
    except ImportError as error:
        return str(error)
    return None
