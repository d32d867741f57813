"""Imports, documents and docstrings name modules that exist.

Of imports the type checker says so too, but what it remembers from before a module was moved can
hide it.
"""

import re
from pathlib import Path

from tests.tidy.samples import write_files
from tests.tidy.source import CHECKOUT, PACKAGE, Import, Module

FOLDERS = ("examples", "tests", "tools")
"""A module of the package that imports what is not there fails at once."""


USERS_OWN = frozenset({"first.py", "warm.py"})
"""Files that a document has its reader write."""


def unresolved(source_folder: Path, files: list[Path]) -> list[str]:
    """The imports of the package in some files that name no module, and no name of a package."""
    found = []
    for path in files:
        for imported in dict.fromkeys(Module(path.stem, path).imports()):
            is_ours = imported.module.partition(".")[0] == PACKAGE
            if is_ours and not is_there(source_folder, imported):
                found.append(f"{path.name}: {imported.module} {imported.name or ''}".rstrip())
    return found


def is_there(source_folder: Path, imported: Import) -> bool:
    path = source_folder.joinpath(*imported.module.split("."))
    if path.with_suffix(".py").is_file():
        return True
    if not (path / "__init__.py").is_file():
        return False
    if imported.name is None or (path / f"{imported.name}.py").is_file():
        return True
    opening = (path / "__init__.py").read_text(encoding="utf-8")
    is_package = (path / imported.name / "__init__.py").is_file()
    return is_package or bool(re.search(rf"\b{imported.name}\b", opening))


def test_imports_name_modules_that_exist() -> None:
    files = [path for folder in FOLDERS for path in sorted((CHECKOUT / folder).rglob("*.py"))]
    assert unresolved(CHECKOUT / "src", files) == []


def unknown_files(texts: list[Path], known: list[str]) -> list[str]:
    """The Python files that texts name in backticks, with or without folders, and are not there."""
    ends = {"/".join(name.split("/")[-count:]) for name in known for count in range(1, 7)}
    return [
        f"{path.name}: {named}"
        for path in texts
        for named in dict.fromkeys(re.findall(r"`([\w/]+\.py)`", path.read_text("utf-8")))
        if named not in ends and named not in USERS_OWN
    ]


def test_documents_and_docstrings_name_files_that_exist() -> None:
    known = [
        path.relative_to(CHECKOUT).as_posix()
        for folder in ("src", *FOLDERS)
        for path in (CHECKOUT / folder).rglob("*.py")
    ]
    documents = [*CHECKOUT.glob("*.md"), *(CHECKOUT / "docs").glob("*.md")]
    documents.remove(CHECKOUT / "CHANGELOG.md")  # It names what there was.
    sources = list((CHECKOUT / "src").rglob("*.py"))
    assert unknown_files(sorted([*documents, *sources]), known) == []


def test_a_file_that_was_moved_is_found_in_a_text(tmp_path: Path) -> None:
    write_files(tmp_path, {"page.md": "`owner.py`, `node/host.py`, `old.py` and `sim/host.py`"})
    known = ["src/smartpubsub/node/host.py", "src/smartpubsub/owner.py"]
    assert unknown_files([tmp_path / "page.md"], known) == [
        "page.md: old.py",
        "page.md: sim/host.py",
    ]


def test_an_import_of_a_module_that_was_moved_is_found(tmp_path: Path) -> None:
    write_files(
        tmp_path,
        {
            "src/smartpubsub/__init__.py": "",
            "src/smartpubsub/seam/__init__.py": "from smartpubsub.seam.events import Event",
            "src/smartpubsub/seam/events.py": "",
            "user.py": "from smartpubsub.seam import Event, events, effects\n"
            "import smartpubsub.old\nfrom smartpubsub.seam.moved import Moved\n",
        },
    )
    assert unresolved(tmp_path / "src", [tmp_path / "user.py"]) == [
        "user.py: smartpubsub.seam effects",
        "user.py: smartpubsub.old",
        "user.py: smartpubsub.seam.moved Moved",
    ]
