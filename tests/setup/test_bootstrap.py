"""The first command sets .venv up; later ones use it; what changes is repaired."""

import os
import signal
from pathlib import Path

import pytest

from tests.setup.fake_checkout import FakeCheckout

BOTH = ["smartpubsub", "smartpubsub_native"]

VARIABLES_OF_OTHER_PYTHONS = {
    "PYTHONHOME": "/nonexistent",
    "PYTHONPATH": "/nonexistent",
    "VIRTUAL_ENV": "/nonexistent",
    "PIP_PREFIX": "/nonexistent",
    "PIP_REQUIRE_VIRTUALENV": "1",
    "PIP_TARGET": "/nonexistent",
    "PIP_USER": "1",
}


def test_variables_of_other_pythons_do_not_break_a_set_up(checkout: FakeCheckout) -> None:
    first = checkout.run("bin/smartpubsub", "7", variables=VARIABLES_OF_OTHER_PYTHONS)
    second = checkout.run("bin/smartpubsub", "7", variables=VARIABLES_OF_OTHER_PYTHONS)

    assert (first.returncode, first.stdout) == (7, "7\n")
    assert (second.returncode, second.stdout, second.stderr) == (7, "7\n", "")
    assert checkout.builds() == BOTH


def test_a_ready_environment_is_used_as_it_is(ready: FakeCheckout) -> None:
    before = ready.marker.stat()

    result = ready.run("bin/smartpubsub")

    assert result.stderr == ""
    assert ready.builds() == []
    assert ready.marker.stat().st_mtime_ns == before.st_mtime_ns
    assert ready.marker.stat().st_ino == before.st_ino


def test_arguments_and_exit_code_are_passed_through_from_any_folder(
    ready: FakeCheckout, tmp_path: Path
) -> None:
    result = ready.run("bin/smartpubsub", "two words", "", "3", cwd=tmp_path)

    assert (result.returncode, result.stdout) == (3, "two words||3\n")


def test_demo_is_the_command_of_that_name(ready: FakeCheckout) -> None:
    assert ready.run("bin/demo", "--help").stdout == "demo|--help\n"


def test_a_link_to_a_script_works(ready: FakeCheckout, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(ready.root / "bin" / "smartpubsub")

    assert ready.run(os.path.relpath(link, ready.root), "5").returncode == 5


def test_an_interrupted_set_up_is_done_again(ready: FakeCheckout) -> None:
    ready.marker.unlink()
    leftover = ready.root / ".venv" / "leftover"
    leftover.touch()

    result = ready.run("bin/smartpubsub")

    assert result.returncode == 0
    assert ready.builds() == BOTH
    assert not leftover.exists()
    assert ready.marker.exists()


def test_the_environment_of_another_checkout_is_left_alone(
    ready: FakeCheckout, checkout: FakeCheckout
) -> None:
    (checkout.root / ".venv").symlink_to(ready.root / ".venv")

    result = checkout.run("bin/smartpubsub")

    assert result.returncode == 1
    assert "remove the link" in result.stderr
    assert ready.run("bin/smartpubsub", "5").stderr == ""


def test_a_python_that_went_away_leads_to_a_new_environment(ready: FakeCheckout) -> None:
    (ready.root / ".venv" / "bin" / "python").unlink()

    assert ready.run("bin/smartpubsub").returncode == 0
    assert ready.builds() == BOTH


@pytest.mark.parametrize(
    ("changed_file", "rebuilt"),
    [
        ("requirements.txt", BOTH),
        ("pyproject.toml", ["smartpubsub"]),
        ("native/source.cpp", ["smartpubsub_native"]),
    ],
)
def test_a_change_leads_to_a_repair(
    changed_file: str, rebuilt: list[str], ready: FakeCheckout
) -> None:
    with (ready.root / changed_file).open("a") as file:
        file.write("\n")

    assert ready.run("bin/smartpubsub").returncode == 0
    assert ready.builds() == rebuilt
    assert ready.run("bin/smartpubsub").stderr == ""


def test_build_outputs_in_native_do_not_lead_to_a_repair(ready: FakeCheckout) -> None:
    (ready.root / "native" / "build").mkdir()
    (ready.root / "native" / "build" / "object.o").touch()

    assert ready.run("bin/smartpubsub").stderr == ""


def test_two_set_ups_at_once_do_the_work_once(checkout: FakeCheckout) -> None:
    both = [checkout.start("bin/smartpubsub") for _ in range(2)]
    outcomes = [process.communicate() for process in both]

    assert [process.returncode for process in both] == [0, 0]
    assert checkout.builds() == BOTH
    assert sum("waiting" in errors for _, errors in outcomes) == 1


def test_ctrl_c_is_told_in_one_line_and_repaired_by_the_next_run(checkout: FakeCheckout) -> None:
    checkout.write_package("import os, signal; os.killpg(0, signal.SIGINT)")

    process = checkout.start("bin/smartpubsub")
    _, errors = process.communicate()

    assert process.returncode in (130, -signal.SIGINT)
    assert errors.splitlines()[1:] == ["smartpubsub: set-up interrupted; run again to repair"]
    checkout.write_package()
    assert checkout.run("bin/smartpubsub").returncode == 0
