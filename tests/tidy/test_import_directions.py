"""Rooms import only rooms below them, and node and sim never each other.

The cores touch no clock, network, thread or chance.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tidy.samples import write_files
from tests.tidy.source import CHECKOUT, PACKAGE, Import, Module, modules

ROOMS_FROM_BELOW = (
    "predicates",
    "matching",
    "seam",
    "kademlia",
    "protocols",
    "workloads",
    "sim",
    "node",
    "client",
    "testbed",
    "gateway",
    "pipeline",
    "bench",
    "reports",
    "cli",
    "__main__",
)
APART = frozenset({("node", "sim"), ("sim", "node")})
"""A live node runs without the simulator, and the simulator without libp2p."""
OPEN_TO_ALL = frozenset({"errors", "extras", "native"})
CORES = frozenset({"predicates", "matching", "seam", "kademlia", "protocols"})
CLOSED_TO_CORES = frozenset(
    {
        "asyncio",
        "click",
        "libp2p",
        "pyspark",
        "random",
        "secrets",
        "socket",
        "threading",
        "time",
        "trio",
        "uuid",
    }
)
SEEDED_RANDOMNESS = Import("random", "Random")


def violations(source_folder: Path) -> list[str]:
    return [
        f"{module.name}: {complaint}"
        for module in modules(source_folder)
        for complaint in complaints(module)
    ]


def complaints(module: Module) -> Iterator[str]:
    if module.room is None:
        return
    if module.room not in {*ROOMS_FROM_BELOW, *OPEN_TO_ALL}:
        yield f"{module.room} is no declared room"
        return
    for found in module.imports():
        if not may_import(module.room, found):
            yield f"imports {found.module}" + (f".{found.name}" if found.name else "")


def may_import(room: str, found: Import) -> bool:
    outermost = found.module.split(".")[0]
    if outermost == PACKAGE:
        return may_import_room(room, imported_room(found))
    return room not in CORES or outermost not in CLOSED_TO_CORES or found == SEEDED_RANDOMNESS


def imported_room(found: Import) -> str | None:
    _, _, below = found.module.partition(".")
    first = below.split(".")[0] or found.name
    return first if first in {*ROOMS_FROM_BELOW, *OPEN_TO_ALL} else None


def may_import_room(room: str, imported: str | None) -> bool:
    """None stands for the package itself, whose top gathers names from the rooms."""
    if imported is None:
        return room == "cli"
    if imported in OPEN_TO_ALL:
        return True
    if room in OPEN_TO_ALL:
        return False
    if (room, imported) in APART:
        return False
    return ROOMS_FROM_BELOW.index(imported) <= ROOMS_FROM_BELOW.index(room)


def test_imports_keep_to_the_directions() -> None:
    assert violations(CHECKOUT / "src") == []


@pytest.mark.parametrize(
    ("path", "statement"),
    [
        ("matching/engine.py", "import smartpubsub.bench.runner"),
        ("matching/engine.py", "from smartpubsub.bench import runner"),
        ("matching/engine.py", "from smartpubsub import bench"),
        ("matching/engine.py", "from ..bench import runner"),
        ("matching/engine.py", "from .. import bench"),
        ("matching/__init__.py", "from ..bench import runner"),
        ("matching/engine.py", "def late():\n    import smartpubsub.cli.main"),
        ("matching/engine.py", "import importlib\nimportlib.import_module('smartpubsub.cli')"),
        ("matching/engine.py", "import smartpubsub"),
        ("matching/engine.py", "from smartpubsub import Matcher"),
        ("errors.py", "import smartpubsub.predicates"),
        ("node/engine.py", "from smartpubsub.sim import world"),
        ("node/api/node.py", "from smartpubsub.sim.kernel.world import World"),
        ("sim/world.py", "from smartpubsub.node.engine import Engine"),
        ("predicates/value.py", "import time"),
        ("predicates/value.py", "from time import monotonic"),
        ("kademlia/table.py", "import random"),
        ("kademlia/table.py", "from random import random"),
        ("protocols/gossip.py", "import asyncio.subprocess"),
        ("protocols/gossip.py", "import click"),
        ("cellar/wine.py", ""),
    ],
)
def test_a_wrong_import_is_found(path: str, statement: str, tmp_path: Path) -> None:
    write_files(tmp_path, {f"smartpubsub/{path}": statement})

    assert len(violations(tmp_path)) == 1


@pytest.mark.parametrize(
    ("path", "statement"),
    [
        ("matching/engine.py", "from smartpubsub.predicates import parse"),
        ("matching/engine.py", "from .index import Index"),
        ("matching/engine.py", "from ..errors import SmartPubSubError"),
        ("matching/engine.py", "from smartpubsub import predicates"),
        ("kademlia/table.py", "from random import Random"),
        ("bench/runner.py", "import time"),
        ("cli/main.py", "from smartpubsub import __version__"),
        ("__init__.py", "from smartpubsub.matching import Matcher"),
    ],
)
def test_a_right_import_is_let_through(path: str, statement: str, tmp_path: Path) -> None:
    write_files(tmp_path, {f"smartpubsub/{path}": statement})

    assert violations(tmp_path) == []
