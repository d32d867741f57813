"""The journey of an event in ARCHITECTURE is short, and names modules that exist."""

import re
from pathlib import Path

from tests.tidy.samples import write_files
from tests.tidy.source import CHECKOUT, PACKAGE

DOCUMENT = CHECKOUT / "docs" / "ARCHITECTURE.md"
MODULES_MAX = 25
"""What a reader keeps in mind between publishing and delivery."""
BEGINNING, END = "5. **Publishing.**", "8. **Judging.**"


def modules_named(text: str) -> list[str]:
    """The modules that a text names in backticks, each once, in its order."""
    return list(dict.fromkeys(re.findall(r"`([a-z0-9_/]+\.py)`", text)))


def from_publishing_to_delivery(document: str) -> str:
    return document[document.index(BEGINNING) : document.index(END)]


def missing(named: list[str], package: Path) -> list[str]:
    """The named modules that are in no room or protocol; a bare name is in each protocol."""
    folders = (package, package / "protocols")
    return [
        name
        for name in named
        if "/" in name and not any((folder / name).is_file() for folder in folders)
    ]


def test_the_journey_from_publishing_to_delivery_names_few_modules_that_all_exist() -> None:
    named = modules_named(from_publishing_to_delivery(DOCUMENT.read_text(encoding="utf-8")))

    assert 0 < len(named) <= MODULES_MAX
    assert missing(named, CHECKOUT / "src" / PACKAGE) == []


def test_a_module_that_is_not_there_is_found(tmp_path: Path) -> None:
    write_files(tmp_path, {"node/host.py": "", "protocols/toy/owner.py": ""})
    named = modules_named(
        "`toy/owner.py`, `node/host.py`, `node/lane.py`, `spec.py`, `node/host.py`"
    )

    assert named == ["toy/owner.py", "node/host.py", "node/lane.py", "spec.py"]
    assert missing(named, tmp_path) == ["node/lane.py"]
