"""README.md and docs/matching.md: their Python and their commands do what the text says."""

import re
import shlex
from pathlib import Path
from typing import Any

import click
import pytest

from smartpubsub import PredicateError
from smartpubsub.bench.workloads import events
from smartpubsub.cli import main as cli
from smartpubsub.cli.reference import commands

CHECKOUT = Path(__file__).parents[1]
README = (CHECKOUT / "README.md").read_text(encoding="utf-8")
MATCHING = (CHECKOUT / "docs" / "matching.md").read_text(encoding="utf-8")

BLOCKS = re.findall(r"```python\n(.*?)```", README + MATCHING, re.DOTALL)
PROGRAMS = [block for block in BLOCKS if "print(" in block]
EXAMPLES = [block for block in BLOCKS if "print(" not in block]
LINE = re.compile(r"(?P<code>.+?)\s+# (?P<said>.+)")
VALUE = re.compile(r"(True|False|\[.*\]|Predicate\(.*?\))")
COMMAND = re.compile(r"^\$ bin/smartpubsub (.+)$", re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)")
DOCUMENTS = [
    "README.md",
    *(f"docs/{path.name}" for path in sorted((CHECKOUT / "docs").glob("*.md"))),
]


@pytest.mark.parametrize("block", EXAMPLES, ids=["predicates", "index", "summary"])
def test_every_value_is_the_one_in_the_comment(
    block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"table": events(5, seed=1).table()}
    for line in block.splitlines():
        said = LINE.fullmatch(line)
        if said is None:
            exec(line, names)
        elif said["said"].startswith("PredicateError: "):
            with pytest.raises(PredicateError, match=r"column 11: expected '\]'"):
                eval(said["code"], names)
        elif value := VALUE.match(said["said"]):
            assert repr(eval(said["code"], names)) == value[0], line
        else:
            exec(said["code"], names)


@pytest.mark.parametrize("program", PROGRAMS, ids=["two nodes", "trio"])
def test_every_program_prints_what_its_comment_says(
    program: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    exec(compile(program, "README.md", "exec"), {})

    said = re.findall(r"print\(.*#\s(.*)", program)
    assert capsys.readouterr().out.splitlines() == said != []


def test_the_shortest_program_comes_before_every_other_block_of_code() -> None:
    first = re.search(r"```(?!text)\w+\n(.*?)```", README, re.DOTALL)
    assert first is not None
    assert first[1] == PROGRAMS[0]
    assert "bin/demo" in README
    assert "bin/test" in README


def test_explain_prints_what_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    shown = re.search(r"\$ bin/smartpubsub (explain .+)\n((?:[^$`].*\n)+)", README)
    assert shown is not None

    assert cli.main(shlex.split(shown[1])) == 0
    assert capsys.readouterr().out == shown[2]


def test_every_command_and_option_that_is_shown_exists() -> None:
    by_path = dict(commands())
    shown = COMMAND.findall(README.replace("\\\n", " "))
    assert len(shown) > 10
    for text in shown:
        words = shlex.split(text, comments=True)
        path = "smartpubsub"
        while words and f"{path} {words[0]}" in by_path:
            path += f" {words.pop(0)}"
        command = by_path[path]
        assert not isinstance(command, click.Group), text
        options = {name for parameter in command.params for name in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= options, text


@pytest.mark.parametrize("path", DOCUMENTS)
def test_every_link_leads_to_a_file_and_a_heading(path: str) -> None:
    document = CHECKOUT / path
    for target, heading in LINK.findall(document.read_text(encoding="utf-8")):
        file = document.parent / target if target else document
        assert file.exists(), target
        if heading:
            assert heading in anchors(file.read_text(encoding="utf-8")), f"{target}#{heading}"


def anchors(document: str) -> list[str]:
    """The anchors that GitHub gives to the headings of a document."""
    headings = re.findall(r"^#+ (.+)$", document, re.MULTILINE)
    return [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]
