"""One name, one meaning: class names of protocols are unique, and glossary terms are in use."""

import ast
import re
from collections import defaultdict
from pathlib import Path

from tests.tidy.samples import write_files
from tests.tidy.source import CHECKOUT, PACKAGE, modules

GLOSSARY = CHECKOUT / "docs" / "glossary.md"
TERMS_MIN = 40
ROW = re.compile(r"^\| ([^|]+?) \| ([^|]+?) \|[^|]*\|$", re.MULTILINE)


def shared_class_names(source_folder: Path) -> dict[str, list[str]]:
    """The class names that several places in the protocols define, with those places."""
    places: defaultdict[str, list[str]] = defaultdict(list)
    for module in modules(source_folder):
        if not module.name.startswith(f"{PACKAGE}.protocols."):
            continue
        for node in ast.walk(module.tree()):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(module.name)
    return {name: found for name, found in places.items() if len(found) > 1}


def terms_of(glossary: str) -> list[str]:
    rows = ROW.findall(glossary)
    return [term for term, _ in rows if term not in ("term", "---")]


def unused_terms(terms: list[str], texts: str) -> list[str]:
    """The terms that occur nowhere as words, in the singular or with an s."""
    return [term for term in terms if not re.search(pattern_of(term), texts, re.IGNORECASE)]


def pattern_of(term: str) -> str:
    return r"\b" + r"[\s_-]+".join(map(re.escape, term.split())) + r"s?\b"


def test_every_class_name_of_the_protocols_is_unique() -> None:
    assert shared_class_names(CHECKOUT / "src") == {}


def test_every_term_of_the_glossary_is_used_in_the_documents_or_the_code() -> None:
    terms = terms_of(GLOSSARY.read_text(encoding="utf-8"))
    documents = [path for path in (CHECKOUT / "docs").glob("*.md") if path != GLOSSARY]
    sources = list((CHECKOUT / "src" / PACKAGE).rglob("*.py"))
    texts = "\n".join(path.read_text(encoding="utf-8") for path in [*documents, *sources])

    assert len(terms) >= TERMS_MIN
    assert len(terms) == len(set(terms))
    assert unused_terms(terms, texts) == []


def test_a_class_name_in_two_protocols_is_found(tmp_path: Path) -> None:
    write_files(
        tmp_path,
        {
            f"{PACKAGE}/protocols/one/core.py": "class Child: ...\nclass ScoutChild: ...\n",
            f"{PACKAGE}/protocols/two.py": "def make():\n    class Child: ...\n",
            f"{PACKAGE}/sim/world.py": "class ScoutChild: ...\n",
        },
    )

    assert shared_class_names(tmp_path) == {
        "Child": [f"{PACKAGE}.protocols.one.core", f"{PACKAGE}.protocols.two"]
    }


def test_an_unused_term_is_found() -> None:
    glossary = (
        "| term | meaning | papers |\n| --- | --- | --- |\n| a b | One. | |\n| key | Two. | |\n"
    )

    assert terms_of(glossary) == ["a b", "key"]
    assert unused_terms(["a b", "key"], "keyed a\nb") == ["key"]
    assert unused_terms(["a b", "key"], "Keys: a_b") == []
