"""What `import smartpubsub` gives, and what it does not make anybody wait for."""

import subprocess
import sys

import pytest

import smartpubsub


def run(program: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout


def test_matching_is_there_without_an_import_of_its_own() -> None:
    assert run("import smartpubsub; print(len(smartpubsub.matching.Index()))") == "0\n"


def test_arrow_is_imported_only_with_matching() -> None:
    assert run("import smartpubsub, sys; print('pyarrow' in sys.modules)") == "False\n"


def test_libp2p_is_imported_only_with_the_node() -> None:
    program = "import smartpubsub, sys; print('libp2p' in sys.modules, 'trio' in sys.modules)"
    assert run(program) == "False False\n"


@pytest.mark.parametrize("name", ["Node", "AsyncioNode", "SyncNode", "connect", "Topic"])
def test_nodes_are_there_when_they_are_wanted(name: str) -> None:
    assert run(f"from smartpubsub import {name}; print({name}.__name__)") == f"{name}\n"


def test_what_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        smartpubsub.nothing  # noqa: B018
