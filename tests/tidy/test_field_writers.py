"""State has one owner: at most one other module changes the fields of a class.

The test looks at changes of attributes of other objects than `self`: assignments to them, and to
entries of collections in them. It knows an attribute by its name, so it leaves out names that
several classes of a package have.
"""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.tidy.samples import write_files
from tests.tidy.source import CHECKOUT, PACKAGE

PROTOCOLS = CHECKOUT / "src" / PACKAGE / "protocols"
PARTS_OF_ONE = {
    "scoutsubs/filter_table.py": {"filters.py", "epochs.py", "overlaps.py"},
}
"""Modules that are one component, under the module that has its records."""
CHANGES = frozenset(
    ("add", "append", "clear", "extend", "insert", "pop", "popleft", "remove", "setdefault")
)
"""Methods of collections that change them."""


def fields_of(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """The classes of a module with the fields that they declare, or have when they are made."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.ClassDef):
            continue
        for part in node.body:
            if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
                yield node.name, part.target.id
            elif isinstance(part, ast.FunctionDef) and part.name in ("__init__", "__post_init__"):
                for target in changed_attributes(part):
                    if is_own(target):
                        yield node.name, target.attr


def changed_attributes(tree: ast.AST) -> Iterator[ast.Attribute]:
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(ctx=ast.Store() | ast.Del()):
                yield node
            case ast.Subscript(value=ast.Attribute() as changed, ctx=ast.Store() | ast.Del()):
                yield changed
            case ast.Call(func=ast.Attribute(value=ast.Attribute() as changed, attr=method)):
                if method in CHANGES:
                    yield changed


def is_own(target: ast.Attribute) -> bool:
    return isinstance(target.value, ast.Name) and target.value.id in ("self", "cls")


def writers(package: Path) -> dict[str, dict[str, list[str]]]:
    """By module and class: the other modules that change its fields, and which."""
    trees = {path.name: ast.parse(path.read_text("utf-8")) for path in package.glob("*.py")}
    owners: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
    for module, tree in trees.items():
        for name, field in fields_of(tree):
            owners[field].add((module, name))
    found: defaultdict[str, defaultdict[str, list[str]]]
    found = defaultdict(lambda: defaultdict(list))
    for module, tree in sorted(trees.items()):
        for target in changed_attributes(tree):
            if not is_own(target) and len(owners[target.attr]) == 1:
                ((home, name),) = owners[target.attr]
                if home != module:
                    found[f"{home} {name}"][module].append(target.attr)
    return {owner: dict(by_module) for owner, by_module in found.items()}


def shared(package: Path) -> dict[str, dict[str, list[str]]]:
    """Those whose fields several modules change that are not one component."""
    problems = {}
    for owner, by_module in writers(package).items():
        home = f"{package.name}/{owner.partition(' ')[0]}"
        if len(by_module) > 1 and not by_module.keys() <= PARTS_OF_ONE.get(home, set()):
            problems[owner] = by_module
    return problems


def test_the_fields_of_a_class_have_one_writer() -> None:
    packages = [path.parent for path in PROTOCOLS.glob("*/__init__.py")]
    assert {package.name: shared(package) for package in packages if shared(package)} == {}


def test_every_exception_is_needed() -> None:
    for home, parts in PARTS_OF_ONE.items():
        package, _, module = home.partition("/")
        found = [by for owner, by in writers(PROTOCOLS / package).items() if module in owner]
        assert {name for by_module in found for name in by_module} == parts


def test_a_second_writer_is_found(tmp_path: Path) -> None:
    write_files(
        tmp_path,
        {
            "group.py": "class Group:\n    members: dict\n    size: int = 0\n",
            "owner.py": "def add(group):\n    group.members[1], group.size = 2, 1\n",
            "helper.py": "def drop(group):\n    group.members.pop(1)\n",
            "other.py": "class Other:\n    def __init__(self):\n        self.size = 0\n",
        },
    )
    found = {"helper.py": ["members"], "owner.py": ["members"]}
    assert shared(tmp_path) == {"group.py Group": found}
