"""docs/cli.md says what the commands' own help says, and every help has an example."""

import subprocess
import sys
from pathlib import Path

import click
import pytest

from smartpubsub.cli.reference import commands, help_of

DOCUMENT = Path(__file__).parents[2] / "docs" / "cli.md"


def lacks_example(path: str, command: click.Command) -> bool:
    _, _, examples = help_of(command, path).partition("Example")
    return f"\n    {path}" not in examples


def test_the_document_is_up_to_date() -> None:
    # click keeps what other tests have made of the commands' help, so this needs a new process.
    made = subprocess.run(
        [sys.executable, "-m", "smartpubsub.cli.reference"], capture_output=True, check=True
    ).stdout.decode()
    assert DOCUMENT.read_text(encoding="utf-8") == made, (
        "write it again: .venv/bin/python -m smartpubsub.cli.reference > docs/cli.md"
    )


@pytest.mark.parametrize(("path", "command"), list(commands()))
def test_every_command_has_an_example(path: str, command: click.Command) -> None:
    assert not lacks_example(path, command)


def test_a_command_without_example_is_found() -> None:
    assert lacks_example(
        "smartpubsub sample", click.Command("sample", help="Do it.\n\nExample: no")
    )
