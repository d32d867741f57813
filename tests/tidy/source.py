"""What the tidiness rules look at: the modules of the package and what they import."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
PACKAGE = "smartpubsub"


@dataclass(frozen=True)
class Import:
    module: str
    """The absolute name of the module, relative imports being resolved."""
    name: str | None = None
    """What is imported from the module; None when the module itself is."""


@dataclass(frozen=True)
class Module:
    name: str
    path: Path

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"

    @property
    def room(self) -> str | None:
        """The first part of the name below the package; None for the package itself."""
        _, _, below = self.name.partition(".")
        return below.split(".")[0] or None

    def tree(self) -> ast.Module:
        return ast.parse(self.path.read_text(encoding="utf-8"), self.path)

    def imports(self) -> list[Import]:
        return [found for node in ast.walk(self.tree()) for found in self._imports_of(node)]

    def _imports_of(self, node: ast.AST) -> Iterator[Import]:
        match node:
            case ast.Import(names=names):
                yield from (Import(alias.name) for alias in names)
            case ast.ImportFrom(names=names):
                module = self._absolute(node)
                yield from (Import(module, alias.name) for alias in names)
            case ast.Call(
                func=ast.Attribute(attr="import_module") | ast.Name(id="import_module"),
                args=[ast.Constant(value=str(module)), *_],
            ):
                yield Import(module)

    def _absolute(self, node: ast.ImportFrom) -> str:
        if node.level == 0:
            return node.module or ""
        parts = self.name.split(".")
        kept = len(parts) - node.level + (1 if self.is_package else 0)
        return ".".join([*parts[:kept], *([node.module] if node.module else [])])


def modules(source_folder: Path) -> list[Module]:
    return [
        Module(module_name(path.relative_to(source_folder)), path)
        for path in sorted((source_folder / PACKAGE).rglob("*.py"))
    ]


def module_name(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
