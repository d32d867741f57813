"""A package of many modules opens with a map: its docstring names each of them."""

import ast
import re
from pathlib import Path

import pytest

from tests.tidy.samples import write_files
from tests.tidy.source import CHECKOUT, PACKAGE

SOURCE = CHECKOUT / "src" / PACKAGE
PROTOCOLS = SOURCE / "protocols"
MAPPED = [
    PROTOCOLS,
    *sorted(path.parent for path in PROTOCOLS.glob("*/__init__.py")),
    *(SOURCE / name for name in ("node/api", "node/transport", "client", "gateway")),
    *(SOURCE / name for name in ("sim/experiments", "testbed", "bench", "kademlia")),
]


def problems_of_map(package: Path) -> list[str]:
    """The modules that a package's docstring does not name, and the names that are no modules."""
    tree = ast.parse((package / "__init__.py").read_text(encoding="utf-8"))
    named = set(re.findall(r"`(\w+)`", ast.get_docstring(tree) or ""))
    modules = {path.stem for path in package.glob("*.py")} - {"__init__"}
    packages = {path.parent.name for path in package.glob("*/__init__.py")}
    unnamed = [f"{name} is not on the map" for name in sorted(modules - named)]
    return unnamed + [f"there is no {name}" for name in sorted(named - modules - packages)]


@pytest.mark.parametrize("package", MAPPED, ids=lambda package: package.name)
def test_the_docstring_of_a_package_names_its_modules(package: Path) -> None:
    assert problems_of_map(package) == []


def test_what_is_missing_on_a_map_is_found(tmp_path: Path) -> None:
    map_of_two = '"""`owner` serves members (`book`), from `inner`."""'
    write_files(tmp_path, {"__init__.py": map_of_two, "owner.py": "", "helper.py": ""})
    write_files(tmp_path, {"inner/__init__.py": ""})

    assert problems_of_map(tmp_path) == ["helper is not on the map", "there is no book"]
