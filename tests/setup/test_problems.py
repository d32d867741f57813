"""What keeps a set-up from succeeding is told in one line, with exit code 1."""

import errno
import subprocess
import sys
from pathlib import Path

import pytest

import bootstrap
import commands
import installer
import problems
from tests.setup.fake_checkout import FakeCheckout


def told(result: subprocess.CompletedProcess[str]) -> str:
    """The one line after the progress."""
    assert result.returncode == 1
    assert result.stdout == ""
    progress, line = result.stderr.splitlines()
    assert progress == "smartpubsub: setting up .venv (once, some minutes)"
    return line


@pytest.mark.parametrize("listed", ["pip==0.0.1", "smartpubsub-no-such-package==1.0"])
def test_no_network(listed: str, checkout: FakeCheckout) -> None:
    (checkout.root / "requirements.txt").write_text(f"{listed}\n")

    line = told(checkout.run("bin/smartpubsub"))

    assert line.startswith("smartpubsub: the package index cannot be reached; check the network")


def test_no_disk_space_for_pip(checkout: FakeCheckout) -> None:
    checkout.write_package("raise OSError(28, 'No space left on device')")

    line = told(checkout.run("bin/smartpubsub"))

    assert line == "smartpubsub: no disk space left for .venv; free about 1 GB, then run again"
    assert not checkout.marker.exists()


def test_any_other_failure_names_its_step_and_the_log(checkout: FakeCheckout) -> None:
    checkout.write_package("raise SystemExit('broken')")

    line = told(checkout.run("bin/smartpubsub"))

    log = checkout.root / ".venv" / "setup.log"
    assert line == f"smartpubsub: installing smartpubsub failed (details: {log})"
    assert "broken" in log.read_text()


def test_a_file_that_cannot_be_written(checkout: FakeCheckout) -> None:
    (checkout.root / ".venv.lock").mkdir()

    result = checkout.run("bin/smartpubsub")

    assert result.returncode == 1
    assert result.stderr == (
        f"smartpubsub: cannot set up .venv: Is a directory: {checkout.root}/.venv.lock\n"
    )


def test_an_incomplete_checkout(checkout: FakeCheckout) -> None:
    (checkout.root / "requirements.txt").unlink()

    result = checkout.run("bin/smartpubsub")

    assert result.returncode == 1
    [line] = result.stderr.splitlines()
    assert line.endswith(f"No such file or directory: {checkout.root}/requirements.txt")


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (
            OSError(errno.ENOSPC, "No space left on device", ".venv"),
            "smartpubsub: no disk space left for .venv; free about 1 GB, then run again\n",
        ),
        (
            PermissionError(errno.EACCES, "Permission denied", ".venv"),
            "smartpubsub: cannot set up .venv: Permission denied: .venv\n",
        ),
    ],
)
def test_an_error_of_the_system(
    error: OSError,
    line: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(_checkout: Path) -> None:
        raise error

    monkeypatch.setattr(bootstrap, "make_ready", fail)

    assert bootstrap.main() == 1
    assert capsys.readouterr().err == line


def test_a_python_without_the_venv_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ensurepip", None)

    with pytest.raises(problems.SetupProblemError, match=r"apt install python3\.\d+-venv"):
        installer.require_venv_module()


def test_a_package_index_that_does_not_answer_is_told_while_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "PATIENCE_SECONDS", 0)
    said: list[str] = []
    runner = commands.Commands(tmp_path / "setup.log", tmp_path, said.append)

    runner.run("asking", [sys.executable, "-c", "pass"], when_slow="no answer yet")

    assert said == ["no answer yet"]
