"""The table of attacks names tests that are there."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "security.md"


def test_the_attacks_in_the_document_have_tests() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", DOCUMENT.read_text(encoding="utf-8"))
    assert len(named) > 20
    for path in {path for path, _ in named}:
        defined = ast.parse((ROOT / path).read_text(encoding="utf-8")).body
        tests = {each.name for each in defined if isinstance(each, ast.FunctionDef)}
        assert {test for where, test in named if where == path} <= tests, path
