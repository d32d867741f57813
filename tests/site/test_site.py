"""The documentation as a site: it builds without warnings, and loads nothing from elsewhere."""

from __future__ import annotations

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
        [zensical, "build", "--strict"], cwd=folder, capture_output=True, text=True, check=False
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


def test_the_python_api_is_that_of_the_code() -> None:
    from api_reference import lines

    written = (DOCS / "api.md").read_text(encoding="utf-8")
    assert written == "\n".join(lines()).rstrip() + "\n", (
        "write it again: .venv/bin/python tools/api_reference.py > docs/api.md"
    )
