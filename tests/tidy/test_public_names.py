"""What the library offers is documented: in the documents, and at the name itself."""

import importlib
import inspect
import re
from types import ModuleType

import pytest

from tests.tidy.source import CHECKOUT

DOCUMENTS = ("README.md", "docs/ARCHITECTURE.md")


def undocumented(module: ModuleType, documents: str) -> list[str]:
    words = set(re.findall(r"\w+", documents))
    return [name for name in module.__all__ if name not in words]


def without_docstring(module: ModuleType) -> list[str]:
    return [name for name in module.__all__ if not has_docstring(getattr(module, name))]


def has_docstring(item: object) -> bool:
    """Whether someone wrote one; a dataclass without one gets its signature for it."""
    if not (inspect.isclass(item) or inspect.isroutine(item)):
        return True
    text = item.__doc__ or ""
    return bool(text) and not text.startswith(f"{item.__name__}(")


@pytest.mark.parametrize("name", ["smartpubsub", "smartpubsub.matching"])
def test_public_names_are_documented(name: str) -> None:
    module = importlib.import_module(name)
    documents = "\n".join((CHECKOUT / path).read_text(encoding="utf-8") for path in DOCUMENTS)

    assert module.__all__
    assert undocumented(module, documents) == []
    assert without_docstring(module) == []


def sample() -> ModuleType:
    module = ModuleType("sample")
    source = '''
from dataclasses import dataclass

__all__ = ["Explained", "LIMIT", "Bare", "bare"]
LIMIT = 3

class Explained:
    """Has a docstring."""

@dataclass
class Bare:
    field: int

def bare(): ...
'''
    exec(source, module.__dict__)
    return module


def test_a_name_missing_from_the_documents_is_found() -> None:
    assert undocumented(sample(), "Explained, BareMinimum and `bare`; LIMIT") == ["Bare"]


def test_a_name_without_docstring_is_found() -> None:
    assert without_docstring(sample()) == ["Bare", "bare"]
