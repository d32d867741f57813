"""Every module is reached by imports from a package, a command or a program."""

import ast
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

from smartpubsub.cli.commands import COMMANDS
from smartpubsub.cli.lazy import LazyCommand, LazyGroup
from tests.tidy.samples import write_files
from tests.tidy.source import CHECKOUT, PACKAGE, Module, modules


def dead_modules(source_folder: Path, entry_points: set[str]) -> list[str]:
    by_name = {module.name: module for module in modules(source_folder)}
    alive: set[str] = set()
    reached = [
        name
        for name, module in by_name.items()
        if module.is_package or name in entry_points or is_program(module)
    ]
    while reached:
        name = reached.pop()
        if name in by_name and name not in alive:
            alive.add(name)
            reached += imported_names(by_name[name])
    return sorted(by_name.keys() - alive)


def imported_names(module: Module) -> Iterator[str]:
    for found in module.imports():
        yield found.module
        yield f"{found.module}.{found.name}"


def is_program(module: Module) -> bool:
    return any(
        isinstance(node, ast.If) and ast.unparse(node.test) == "__name__ == '__main__'"
        for node in module.tree().body
    )


def declared_entry_points() -> set[str]:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    targets = [*project["scripts"].values(), *lazy_targets(COMMANDS)]
    return {target.partition(":")[0] for target in targets}


def lazy_targets(commands: Mapping[str, LazyCommand]) -> Iterator[str]:
    for entry in commands.values():
        yield entry.target
        command = entry.load()
        if isinstance(command, LazyGroup):
            yield from lazy_targets(command.lazy_commands)


def test_no_module_is_dead() -> None:
    assert dead_modules(CHECKOUT / "src", declared_entry_points()) == []


def test_every_entry_point_is_a_module() -> None:
    assert declared_entry_points() <= {module.name for module in modules(CHECKOUT / "src")}


def test_a_dead_module_is_found(tmp_path: Path) -> None:
    room = f"{PACKAGE}/matching"
    write_files(
        tmp_path,
        {
            f"{room}/__init__.py": "from smartpubsub.matching.engine import Engine\n",
            f"{room}/engine.py": "from smartpubsub.matching import index\n",
            f"{room}/index.py": "",
            f"{room}/entry.py": "",
            f"{room}/program.py": "if __name__ == '__main__':\n    pass\n",
            f"{room}/dead.py": "import smartpubsub.matching.only_for_dead\n",
            f"{room}/only_for_dead.py": "import smartpubsub.matching.dead\n",
        },
    )

    assert dead_modules(tmp_path, {"smartpubsub.matching.entry"}) == [
        "smartpubsub.matching.dead",
        "smartpubsub.matching.only_for_dead",
    ]
