""".ci/run tests what is committed, in a folder of its own that does not stay."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.setup.fake_checkout import REAL_CHECKOUT
from tests.setup.programs import write_program

pytestmark = pytest.mark.skipif(
    not (shutil.which("git") and shutil.which("bash")), reason="needs git and bash"
)


def git(repository: Path, *arguments: str) -> None:
    author = ("-c", "user.name=Nobody", "-c", "user.email=nobody@example.org")
    subprocess.run(["git", *author, *arguments], cwd=repository, check=True)


@pytest.mark.parametrize("exit_code", [0, 7])
def test_the_commit_is_tested_in_a_temporary_clone(exit_code: int, tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    write_program(repository / "bin" / "test", f'echo "$0"; exit {exit_code}')
    shutil.copytree(REAL_CHECKOUT / ".ci", repository / ".ci")
    git(repository, "init", "--quiet")
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "--message", "A test that says where it runs")
    write_program(repository / "bin" / "test", "echo uncommitted")

    result = subprocess.run(
        ["bash", ".ci/run"],
        cwd=repository,
        env=os.environ | {"TMPDIR": str(temporary)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )

    assert result.returncode == exit_code
    assert Path(result.stdout.strip()).is_relative_to(temporary)
    assert list(temporary.iterdir()) == []
