"""Each check passes and fails as it should; the command reports them and ends accordingly."""

import fcntl
import json
import socket
from importlib import metadata
from pathlib import Path

import pytest

from smartpubsub.cli import doctor, health
from smartpubsub.cli.checks import ALWAYS, Check
from smartpubsub.cli.main import main
from smartpubsub.pipeline.java import Java

GOOD = Check("disk space", ok=True, needed=ALWAYS, found="9.0 GiB free", remedy="")
BAD = Check("Python", ok=False, needed=ALWAYS, found="3.9", remedy="install another")
BAD_OPTION = Check("Java", ok=False, needed="for the data pipeline", found="none", remedy="get it")


def fail_with(error: OSError) -> None:
    raise error


def assert_verdict(check: Check, *, ok: bool, found: str) -> None:
    assert (check.ok, check.found) == (ok, found)
    assert bool(check.remedy) is not ok


@pytest.mark.parametrize(("version", "ok"), [((3, 11, 0), True), ((3, 10, 9), False)])
def test_python(version: tuple[int, ...], ok: bool) -> None:
    assert_verdict(health.check_python(version), ok=ok, found=".".join(map(str, version)))


@pytest.mark.parametrize(
    ("module", "ok", "found"), [("json", True, "built"), ("no_such_module", False, "not installed")]
)
def test_native_matcher(module: str, ok: bool, found: str) -> None:
    assert_verdict(health.check_native_matcher(module), ok=ok, found=found)


def test_a_native_matcher_that_does_not_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_native.py").write_text("raise ImportError('undefined symbol')\n")
    monkeypatch.syspath_prepend(tmp_path)

    check = health.check_native_matcher("broken_native")

    assert_verdict(check, ok=False, found="undefined symbol")


def test_a_native_matcher_that_is_being_built(tmp_path: Path) -> None:
    with (tmp_path / ".venv.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        check = health.check_native_matcher("no_such_module", tmp_path / ".venv")
        assert_verdict(check, ok=False, found="being built")
    check = health.check_native_matcher("no_such_module", tmp_path / ".venv")
    assert_verdict(check, ok=False, found="not installed")


@pytest.mark.parametrize(
    ("native_is_built", "compiler", "ok", "found"),
    [
        (False, "/usr/bin/c++", True, "/usr/bin/c++"),
        (True, "/usr/bin/c++", True, "/usr/bin/c++"),
        (True, None, True, "none, nor needed: the native matcher is built"),
        (False, None, False, "none"),
    ],
)
def test_compiler(native_is_built: bool, compiler: str | None, ok: bool, found: str) -> None:
    check = health.check_compiler(native_is_built=native_is_built, which=lambda _: compiler)

    assert_verdict(check, ok=ok, found=found)


def test_the_chosen_compiler_is_the_one_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "my-c++ -O2")

    check = health.check_compiler(native_is_built=False, which=lambda name: f"/opt/{name}")

    assert check.found == "/opt/my-c++"


def test_java() -> None:
    java = Java(Path("/opt/java/bin/java"), 21, "PATH")

    found = "Java 21 by PATH: /opt/java/bin/java"
    assert_verdict(health.check_java(lambda: java), ok=True, found=found)
    assert_verdict(health.check_java(lambda: None), ok=False, found="none")


@pytest.mark.parametrize(
    ("module", "ok", "found"),
    [("json", True, "importable"), ("no_such_module", False, "not installed")],
)
def test_pyspark(module: str, ok: bool, found: str) -> None:
    assert_verdict(health.check_pyspark(module), ok=ok, found=found)


def test_loopback() -> None:
    refused = PermissionError(1, "Operation not permitted")

    assert_verdict(health.check_loopback(), ok=True, found="can be opened")
    assert_verdict(
        health.check_loopback(lambda: fail_with(refused)), ok=False, found="Operation not permitted"
    )


def test_loopback_really_connects(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = ConnectionRefusedError(111, "Connection refused")
    monkeypatch.setattr(socket, "create_connection", lambda *_, **__: fail_with(refused))

    assert_verdict(health.check_loopback(), ok=False, found="Connection refused")


def test_temporary_folder(tmp_path: Path) -> None:
    missing = tmp_path / "missing"

    assert_verdict(
        health.check_temporary_folder(lambda: str(tmp_path)), ok=True, found=str(tmp_path)
    )
    assert_verdict(
        health.check_temporary_folder(lambda: str(missing)),
        ok=False,
        found="No such file or directory",
    )


@pytest.mark.parametrize(("gibibytes", "ok"), [(1.0, True), (0.5, False)])
def test_disk_space(gibibytes: float, ok: bool) -> None:
    check = health.check_disk_space(lambda: int(gibibytes * health.GIBIBYTE))

    assert_verdict(check, ok=ok, found=f"{gibibytes} GiB free for temporary files")


def test_environment_outside_a_checkout(tmp_path: Path) -> None:
    check = health.check_environment(tmp_path)

    assert_verdict(check, ok=True, found="not a checkout, but an installed package")


def test_environment_of_a_checkout(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("click==8.0\nnumpy==2.0\nruff==1.0\n")
    as_listed = {"click": "8.0", "numpy": "2.0", "ruff": "1.0"}

    def installed(package: str) -> str:
        if package == "ruff":
            raise metadata.PackageNotFoundError(package)
        return {"click": "8.0", "numpy": "1.9"}[package]

    assert_verdict(
        health.check_environment(tmp_path, as_listed.__getitem__),
        ok=True,
        found="3 packages as listed",
    )
    assert_verdict(
        health.check_environment(tmp_path, installed), ok=False, found="differs in numpy, ruff"
    )


@pytest.mark.parametrize(
    ("checks", "exit_code"), [([GOOD, BAD_OPTION], 0), ([GOOD, BAD, BAD_OPTION], 1)]
)
def test_the_exit_code_tells_whether_all_that_is_always_needed_is_there(
    checks: list[Check],
    exit_code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(doctor, "run_checks", lambda: checks)

    assert main(["doctor", "--json"]) == exit_code
    report = json.loads(capsys.readouterr().out)
    assert report["ok"] is (exit_code == 0)
    assert [check["name"] for check in report["checks"]] == [check.name for check in checks]


def test_a_check_in_json() -> None:
    assert doctor.report([BAD]) == {
        "ok": False,
        "checks": [
            {
                "name": "Python",
                "ok": False,
                "needed": "always",
                "found": "3.9",
                "remedy": "install another",
            }
        ],
    }


def test_lines_are_aligned_and_what_is_missing_has_its_remedy() -> None:
    assert doctor.table([GOOD, BAD_OPTION]).splitlines() == [
        "ok       disk space  9.0 GiB free",
        "missing  Java        none",
        "                     needed for the data pipeline; get it",
    ]


def test_every_check_of_this_machine_can_be_made() -> None:
    names = [check.name for check in health.run_checks()]

    assert len(names) == len(set(names)) == 15
