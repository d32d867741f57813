"""How the command starts and ends: help, version, exit codes, one-line errors."""

import errno
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path

import click
import pytest

from smartpubsub.cli import commands
from smartpubsub.cli import main as cli
from smartpubsub.cli.lazy import LazyCommand, LazyGroup
from smartpubsub.cli.output import json_option
from smartpubsub.errors import SmartPubSubError
from tests.cli.running import PROGRAM

Captured = pytest.CaptureFixture[str]


@click.command()
@click.argument("outcome", type=click.Choice(["error", "file", "interrupt", "exit", "fine"]))
@json_option
def sample(outcome: str, as_json: bool) -> None:
    """End in the way that is asked for."""
    match outcome:
        case "error":
            raise SmartPubSubError("the event has no topic")
        case "file":
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", "there/x.csv")
        case "interrupt":
            raise KeyboardInterrupt
        case "exit":
            raise click.exceptions.Exit(3)
        case "fine":
            click.echo("{}" if as_json else "done")


@pytest.fixture
def _with_sample_command(monkeypatch: pytest.MonkeyPatch) -> None:
    only = {"sample": LazyCommand(f"{__name__}:sample", "End in the way that is asked for.")}
    monkeypatch.setattr(commands.smartpubsub, "lazy_commands", only)
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


@pytest.mark.usefixtures("_with_sample_command")
def test_a_file_that_cannot_be_opened_is_named_in_a_document(capsys: Captured) -> None:
    assert cli.main(["sample", "file", "--json"]) == 1
    captured = capsys.readouterr()
    problem = "there/x.csv: No such file or directory; check this path, or name another"
    assert captured.err == f"smartpubsub: {problem}\n"
    assert json.loads(captured.out) == {
        "error": problem,
        "kind": "FileNotFoundError",
        "exit_code": 1,
    }


class _Interrupts:
    """Finds modules; Ctrl-C is pressed while it looks for one."""

    def find_spec(self, name: str, *_: object) -> None:
        if name == "smartpubsub.cli.commands":
            raise KeyboardInterrupt


def test_ctrl_c_while_modules_are_imported_prints_no_traceback(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "smartpubsub.cli.commands")
    monkeypatch.setattr(sys, "meta_path", [_Interrupts(), *sys.meta_path])

    assert cli.main(["doctor"]) == 130
    assert capsys.readouterr() == ("", "")


def test_a_missing_option_is_an_error_of_one_line(capsys: Captured) -> None:
    assert cli.main(["token", "create", "x"]) == 2
    assert capsys.readouterr().err == (
        "smartpubsub: Missing option '--scope'. Choose from: read, publish, admin"
        " (see: smartpubsub token create --help)\n"
    )


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


def lazy_commands(commands: Mapping[str, LazyCommand]) -> Iterator[LazyCommand]:
    for entry in commands.values():
        yield entry
        command = entry.load()
        if isinstance(command, LazyGroup):
            yield from lazy_commands(command.lazy_commands)


@pytest.mark.parametrize(
    "entry", [*lazy_commands(commands.COMMANDS)], ids=lambda entry: entry.target
)
def test_summaries_are_the_first_lines_of_the_help(entry: LazyCommand) -> None:
    assert (entry.load().help or "").splitlines()[0] == entry.summary


def test_output_that_cannot_be_written_is_told_in_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        result = subprocess.run(
            [
                sys.executable,
                "-c",
                "import sys; from smartpubsub.cli.main import main; sys.exit(main(['doctor']))",
            ],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )

    assert result.returncode == 1
    assert result.stderr == "smartpubsub: output: No space left on device\n"


def test_a_target_that_is_no_command_is_refused() -> None:
    with pytest.raises(TypeError, match="is not a click command"):
        LazyCommand("smartpubsub.cli.commands:COMMANDS", "Is a table.").load()


def test_output_that_nobody_reads_any_more_is_no_failure_to_tell() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        result = subprocess.run(
            [sys.executable, "-c", PROGRAM, "--help"],
            stdout=writer,
            stderr=subprocess.PIPE,
            text=True,
        )
    finally:
        os.close(writer)

    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_failure_keeps_its_exit_code_without_a_reader(unbuffered: str, tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    usage = ["sim", "run", "--nodes", "x", "--json"]
    no_node = ["pub", "a", "--data", str(tmp_path), "--json"]
    try:
        for arguments, exit_code in ((usage, 2), (no_node, 1)):
            result = subprocess.run(
                [sys.executable, "-c", PROGRAM, *arguments],
                env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
                stdout=writer,
                stderr=subprocess.PIPE,
                text=True,
            )
            assert (result.returncode, result.stderr.count("\n")) == (exit_code, 1), result.stderr
    finally:
        os.close(writer)


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("without", ["0>&-", "1>&-", "2>&-", "2>/dev/full"])
def test_a_command_needs_no_standard_streams(without: str, unbuffered: str) -> None:
    # A shell closes the stream before the interpreter starts.
    script = f'"$0" "$@" {without}'
    odd_bytes = os.fsdecode(b"\xff[")
    for arguments, exit_code in (
        (["explain", "a", "a=1"], 0),
        (["explain", "a", "a["], 2),
        (["explain", "a", odd_bytes], 2),
    ):
        result = subprocess.run(
            ["sh", "-c", script, sys.executable, "-c", PROGRAM, *arguments],
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
            capture_output=True,
            text=True,
        )
        assert result.returncode == exit_code
        assert "Traceback" not in result.stderr


def test_short_help_and_what_was_meant(capsys: Captured) -> None:
    assert cli.main(["sub", "-h"]) == 0
    assert "Subscribe, and print events" in capsys.readouterr().out
    assert cli.main(["subb"]) == 2
    assert "Did you mean sub" in capsys.readouterr().err
    assert cli.main(["sub", "surf", "--jsno"]) == 2
    assert "--json" in capsys.readouterr().err


def test_errors_are_documents_with_json(tmp_path: Path, capsys: Captured) -> None:
    assert cli.main(["node", "info", "--json", "--data", str(tmp_path)]) == 1
    captured = capsys.readouterr()
    document = json.loads(captured.out)
    assert captured.err == f"smartpubsub: {document['error']}\n"
    assert (document["kind"], document["exit_code"]) == ("NoNodeError", 1)
    assert cli.main(["sub", "a[", "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["exit_code"] == 2
    assert cli.main(["pub", "a", "--json", "--data", str(tmp_path)]) == 1
    assert json.loads(capsys.readouterr().out)["state"] == "unpublished"


def test_completions_are_printed_for_shells() -> None:
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "_SMARTPUBSUB_COMPLETE": "bash_source"},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0
    assert "complete -o nosort -F" in result.stdout
