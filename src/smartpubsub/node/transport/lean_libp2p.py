"""Imports libp2p without its parts that a node does not use.

`import libp2p` imports its DHT, bitswap, relays and discovery, and for these two HTTP libraries: 23
MB of memory for code that a node never calls. While libp2p's own module is executed, the names that
it imports from these parts are empty classes. Afterwards the importer is normal again: a program
that imports one of these modules gets the real one.
"""

from __future__ import annotations

import sys
from collections.abc import MutableSequence, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

LIBP2P = "libp2p"
UNUSED = (
    "httpx",
    "requests",
    "libp2p.bitswap",
    "libp2p.discovery",
    "libp2p.kad_dht",
    "libp2p.relay",
)


class _Unused(ModuleType):
    """A module in which every name is an empty class."""

    __path__: MutableSequence[str] = []  # noqa: RUF012

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        bases = (Exception,) if name.endswith(("Error", "Exception")) else ()
        made = type(name, bases, {})
        setattr(self, name, made)
        return made


class _UnusedFinder(MetaPathFinder, Loader):
    """Finds empty modules instead of the unused ones."""

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        is_unused = any(fullname == name or fullname.startswith(f"{name}.") for name in UNUSED)
        return ModuleSpec(fullname, self, is_package=True) if is_unused else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Unused(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing: the module is empty."""


class _LeanLoader(Loader):
    """Executes libp2p's module with empty modules instead of the unused ones."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        finder = _UnusedFinder()
        sys.meta_path.insert(0, finder)
        try:
            self._loader.exec_module(module)
        finally:
            sys.meta_path.remove(finder)
            for name, loaded in list(sys.modules.items()):
                if isinstance(loaded, _Unused):
                    del sys.modules[name]


class _LeanFinder(MetaPathFinder):
    """Finds libp2p once, with the lean loader."""

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != LIBP2P:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(LIBP2P)
        if spec is not None and spec.loader is not None:
            spec.loader = _LeanLoader(spec.loader)
        return spec


def install() -> None:
    """Have the next import of libp2p, if it is the first, leave out what a node does not use."""
    if LIBP2P not in sys.modules and not any(isinstance(f, _LeanFinder) for f in sys.meta_path):
        sys.meta_path.insert(0, _LeanFinder())
