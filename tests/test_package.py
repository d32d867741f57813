"""What `import smartpubsub` gives, and what it does not make anybody wait for."""

import subprocess
import sys
from pathlib import Path

import pytest

import smartpubsub
from tests.client.running import running_node


def run(program: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout


def test_matching_is_there_without_an_import_of_its_own() -> None:
    assert run("import smartpubsub; print(len(smartpubsub.matching.Index()))") == "0\n"


def test_arrow_is_imported_only_with_matching() -> None:
    assert run("import smartpubsub, sys; print('pyarrow' in sys.modules)") == "False\n"


HEAVY = ("libp2p", "trio", "pyarrow", "numpy", "anyio", "click", "smartpubsub.sim")
LOADED = f"print([name for name in {HEAVY} if name in sys.modules])"


def test_a_program_that_imports_the_package_waits_for_nothing() -> None:
    assert run(f"import smartpubsub, sys; {LOADED}") == "[]\n"


def test_a_blocking_client_needs_no_event_loop(tmp_path: Path) -> None:
    with running_node(tmp_path):
        use = f"with smartpubsub.connect(data={str(tmp_path)!r}) as node: node.publish('a')"
        assert run(f"import smartpubsub, sys\n{use}\n{LOADED}") == "[]\n"


def test_pub_loads_little(tmp_path: Path) -> None:
    with running_node(tmp_path):
        pub = f"main(['pub', 'surf', 'hello', '--data', {str(tmp_path)!r}])"
        program = f"import sys; from smartpubsub.cli.main import main; {pub}; {LOADED}"
        assert run(program).splitlines()[1] == "[]"


def test_a_node_loads_no_arrow_and_no_unused_parts_of_libp2p() -> None:
    heavy = "('pyarrow', 'numpy', 'httpx', 'requests', 'zeroconf', 'libp2p.kad_dht')"
    program = (
        "import sys; from smartpubsub import Node;"
        f" print([name for name in {heavy} if name in sys.modules]);"
        " from libp2p.kad_dht.kad_dht import KadDHT; import httpx;"
        " print(KadDHT.__module__, httpx.Client.__module__)"
    )
    assert run(program) == "[]\nlibp2p.kad_dht.kad_dht httpx\n"


@pytest.mark.parametrize("name", ["Node", "AsyncioNode", "SyncNode", "connect", "Topic"])
def test_nodes_are_there_when_they_are_wanted(name: str) -> None:
    assert run(f"from smartpubsub import {name}; print({name}.__name__)") == f"{name}\n"


def test_what_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        smartpubsub.nothing  # noqa: B018
