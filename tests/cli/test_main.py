"""How the command starts and ends: help, version, exit codes, one-line errors."""

import os
import subprocess
import sys
from importlib import metadata

import click
import pytest

from smartpubsub.cli import main as cli
from smartpubsub.cli.lazy import LazyCommand, LazyGroup
from smartpubsub.errors import SmartPubSubError

Captured = pytest.CaptureFixture[str]


@click.command()
@click.argument("outcome", type=click.Choice(["error", "interrupt", "exit", "fine"]))
def sample(outcome: str) -> None:
    """End in the way that is asked for."""
    match outcome:
        case "error":
            raise SmartPubSubError("the event has no topic")
        case "interrupt":
            raise KeyboardInterrupt
        case "exit":
            raise click.exceptions.Exit(3)
        case "fine":
            click.echo("done")


@pytest.fixture
def _with_sample_command(monkeypatch: pytest.MonkeyPatch) -> None:
    commands = {"sample": LazyCommand(f"{__name__}:sample", "End in the way that is asked for.")}
    monkeypatch.setattr(cli.smartpubsub, "lazy_commands", commands)
    monkeypatch.setitem(sys.modules, __name__, sys.modules[__name__])


@pytest.mark.usefixtures("_with_sample_command")
@pytest.mark.parametrize(
    ("outcome", "exit_code", "output", "errors"),
    [
        ("fine", 0, "done\n", ""),
        ("exit", 3, "", ""),
        ("error", 1, "", "smartpubsub: the event has no topic\n"),
        ("interrupt", 130, "", "\n"),
    ],
)
def test_endings(outcome: str, exit_code: int, output: str, errors: str, capsys: Captured) -> None:
    assert cli.main(["sample", outcome]) == exit_code
    assert capsys.readouterr() == (output, errors)


@pytest.mark.parametrize(
    "arguments", [["no-such-command"], ["--no-such-option"], ["doctor", "surplus"]]
)
def test_wrong_usage_ends_with_2_and_says_how_to_get_help(
    arguments: list[str], capsys: Captured
) -> None:
    assert cli.main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "--help" in captured.err


def test_version(capsys: Captured) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"smartpubsub {metadata.version('smartpubsub')}\n"


def test_help_lists_the_commands_without_importing_them(capsys: Captured) -> None:
    lazy = LazyGroup(
        name="group", lazy_commands={"far": LazyCommand("no.such.module:command", "Is far away.")}
    )

    lazy.main(["--help"], standalone_mode=False)

    assert "far  Is far away." in capsys.readouterr().out


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_summaries_are_the_first_lines_of_the_help(name: str) -> None:
    entry = cli.COMMANDS[name]

    assert (entry.load().help or "").splitlines()[0] == entry.summary


def test_a_target_that_is_no_command_is_refused() -> None:
    with pytest.raises(TypeError, match="is not a click command"):
        LazyCommand("smartpubsub.cli.main:COMMANDS", "Is a table.").load()


def test_output_that_nobody_reads_any_more_is_no_failure_to_tell() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        result = subprocess.run(
            [sys.executable, "-c", "from smartpubsub.cli.main import main; main(['--help'])"],
            stdout=writer,
            stderr=subprocess.PIPE,
            text=True,
        )
    finally:
        os.close(writer)

    assert result.stderr == ""
