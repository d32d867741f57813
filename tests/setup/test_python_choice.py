"""The scripts in bin/ find a Python that is new enough, or say in one line that there is none."""

import sys
from pathlib import Path

import pytest

from tests.setup.fake_checkout import FakeCheckout
from tests.setup.programs import folder_without_python, write_program, write_python_claiming

SCRIPTS = ("bin/demo", "bin/test", "bin/check", "bin/smartpubsub")


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_python_that_is_too_old_is_told_in_one_line(
    script: str, checkout: FakeCheckout, tmp_path: Path
) -> None:
    programs = folder_without_python(tmp_path / "programs")
    write_python_claiming(programs / "python3", (3, 9, 18))

    result = checkout.run(script, variables={"PATH": str(programs)})

    assert result.returncode == 1
    assert result.stdout == ""
    assert result.stderr == (
        "smartpubsub: Python 3.11 or newer is needed; found python3 (3.9.18)\n"
    )


def test_no_python_at_all_is_told_in_one_line(checkout: FakeCheckout, tmp_path: Path) -> None:
    programs = folder_without_python(tmp_path / "programs")

    result = checkout.run("bin/demo", variables={"PATH": str(programs)})

    assert result.returncode == 1
    assert result.stderr == "smartpubsub: Python 3.11 or newer is needed; found no Python\n"


def test_a_program_that_is_no_python_is_not_taken_for_one(
    checkout: FakeCheckout, tmp_path: Path
) -> None:
    programs = folder_without_python(tmp_path / "programs")
    write_program(programs / "python3", "echo Python 3.9.18")

    result = checkout.run("bin/demo", variables={"PATH": str(programs)})

    assert result.returncode == 1
    assert len(result.stderr.splitlines()) == 1
    assert "python3 (Python 3.9.18)" in result.stderr


def test_a_newer_python_is_taken_when_python3_is_too_old(
    checkout: FakeCheckout, tmp_path: Path
) -> None:
    programs = folder_without_python(tmp_path / "programs")
    write_python_claiming(programs / "python3", (3, 10, 0))
    write_program(programs / "python3.12", f'exec "{sys.executable}" "$@"')
    (checkout.root / "tools" / "bootstrap.py").write_text("raise SystemExit(42)\n")

    result = checkout.run("bin/smartpubsub", variables={"PATH": str(programs)})

    assert result.returncode == 42
    assert result.stderr == ""
