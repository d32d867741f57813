"""The documentation as a site: it builds without warnings, and loads nothing from elsewhere."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tidy.source import CHECKOUT

DOCS = CHECKOUT / "docs"
LOADED = re.compile(
    r"<(?:script|link|img|iframe|source)\b[^>]*?(?:src|href)=[\"']?(https?:[^\"'\s>]+)"
)
IMPORTED = re.compile(r"(?:@import|url\()\s*[\"']?(https?:[^\"')\s]+)")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    shutil.copy(CHECKOUT / "zensical.toml", folder)
    shutil.copytree(DOCS, folder / "docs")
    zensical = Path(sys.executable).with_name("zensical")
    built = subprocess.run(
        [zensical, "build", "--strict"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT / "tools")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return folder / "site"


def test_every_page_is_in_the_navigation_and_in_the_site(site: Path) -> None:
    pages = {path.name for path in DOCS.glob("*.md")}
    named = set(re.findall(r'"([\w-]+\.md)"', (CHECKOUT / "zensical.toml").read_text()))
    assert named == pages
    assert (site / "index.html").is_file()
    for page in pages - {"index.md"}:
        assert (site / page.removesuffix(".md") / "index.html").is_file()


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    pages = [path.read_text(encoding="utf-8") for path in site.rglob("*.html")]
    styles = [path.read_text(encoding="utf-8") for path in site.rglob("*.css")]
    loaded = {url for text in pages for url in LOADED.findall(text)}
    assert loaded == set()
    assert {url for text in styles for url in IMPORTED.findall(text)} == set()


def test_state_diagrams_are_drawn(site: Path) -> None:
    written = sum(
        page.read_text(encoding="utf-8").count("```mermaid") for page in DOCS.glob("*.md")
    )
    pages = [path.read_text(encoding="utf-8") for path in site.rglob("*.html")]
    assert sum(page.count('<figure class="state-diagram"') for page in pages) == written > 0
    assert not any("stateDiagram" in page for page in pages)


def test_a_diagram_has_a_line_for_each_state_and_an_arrow_for_each_transition() -> None:
    from state_diagrams import Transition, read, svg

    transitions = read("stateDiagram-v2\n  a --> b: go\n  b --> b: stay\n")
    assert transitions == [Transition("a", "b", "go"), Transition("b", "b", "stay")]
    drawn = svg(transitions)
    assert drawn.count("<rect ") == 2
    assert [label in drawn for label in (">go<", ">stay<")] == [True, True]
    with pytest.raises(ValueError, match="c -> d"):
        read("stateDiagram-v2\n  c -> d\n")


def test_the_python_api_is_that_of_the_code() -> None:
    from api_reference import lines

    written = (DOCS / "api.md").read_text(encoding="utf-8")
    assert written == "\n".join(lines()).rstrip() + "\n", (
        "write it again: .venv/bin/python tools/api_reference.py > docs/api.md"
    )
