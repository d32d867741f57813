"""Fenced examples of all pages: programs run or are type-checked, and commands exist."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path

import click
import pytest

from smartpubsub.cli.commands import smartpubsub
from tests.client.running import running_node
from tests.tidy.source import CHECKOUT

PAGES = {
    path.name: path.read_text(encoding="utf-8")
    for path in [CHECKOUT / "README.md", *sorted((CHECKOUT / "docs").glob("*.md"))]
}
FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
RUN_ELSEWHERE = {
    "README.md",
    "adding-a-protocol.md",
    "client.md",
    "matching.md",
    "node.md",
    "seam.md",
}
"""Pages whose programs tests of their own run."""
RUN_HERE = ("tutorial.md", "guide-applications.md")
TYPE_CHECKED = {"fastdelivery.md", "guide-data.md", "pulsarcast.md", "client.md", "pipeline.md"}
PRELUDE = """\
# mypy: disable-error-code="name-defined"
import smartpubsub
from smartpubsub import Node, Topic, Group
node: Node
topic: Topic
group: Group
async def example() -> None:
"""


def fences(page: str, *kinds: str) -> list[str]:
    return [code for kind, code in FENCE.findall(PAGES[page]) if kind in kinds]


PROGRAMS = [(page, code) for page in RUN_HERE for code in fences(page, "python")]


@pytest.mark.parametrize(("page", "program"), PROGRAMS)
def test_programs_print_what_they_say(
    page: str,
    program: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    with running_node(tmp_path / "a"):
        exec(compile(program, page, "exec"), {})
    said = re.findall(r"print\(.*#\s(.*)", program)
    assert capsys.readouterr().out.splitlines() == said != []


def test_all_programs_run_or_are_type_checked(tmp_path: Path) -> None:
    with_programs = {page for page in PAGES if fences(page, "python", "py")}
    assert with_programs <= RUN_ELSEWHERE | {*RUN_HERE} | TYPE_CHECKED
    fragments = [
        PRELUDE + textwrap.indent(code, "    ")
        for page in sorted(TYPE_CHECKED)
        for code in fences(page, *(["py"] if page in RUN_ELSEWHERE else ["python", "py"]))
    ]
    files = []
    for number, fragment in enumerate(fragments):
        files.append(tmp_path / f"fragment_{number}.py")
        files[-1].write_text(fragment, encoding="utf-8")
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-error-summary", *files],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert (checked.stdout, len(fragments) > 3) == ("", True)


def commands() -> list[tuple[str, str]]:
    """The command lines in examples for shells."""
    found = []
    for page in PAGES:
        for code in fences(page, "sh", "console"):
            for line in code.replace("\\\n", " ").splitlines():
                words = line.removeprefix("$ ").removeprefix("bin/")
                if words.startswith("smartpubsub "):
                    found.append((page, words))
    return found


@pytest.mark.parametrize(("page", "line"), commands())
def test_commands_and_their_options_exist(page: str, line: str) -> None:
    words = shlex.split(line.replace("…", "x"), comments=True)[1:]
    command: click.Command = smartpubsub
    context = click.Context(smartpubsub)
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        name = words.pop(0)
        found = command.get_command(context, name)
        assert found is not None, f"{page}: there is no command {name}"
        command = found
    known: set[str] = {"--help", "--version"}
    for parameter in command.params:
        known |= {*parameter.opts, *parameter.secondary_opts}
    options = {word.partition("=")[0] for word in words if re.match(r"--[a-z]", word)}
    assert options <= known, f"{page}: {line}"
