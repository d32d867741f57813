"""The wheel, installed into an empty environment, does what its extras promise.

The packages that it depends on come from the environment of the tests, as links: so the tests need
no network, and see only those packages that the wheel declares.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import venv
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from distributions import build
from tests.client.running import running_node
from tests.tidy.source import CHECKOUT

PROGRAMS = Path(sys.executable).parent
SURROUNDINGS = {"PATH": f"{PROGRAMS}:{os.environ['PATH']}", "HOME": os.environ.get("HOME", "/")}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return build(CHECKOUT, tmp_path_factory.mktemp("dist"))


Found = dict[str, metadata.Distribution]


def require(requirements: list[str], extras: set[str], own: list[str], found: Found) -> None:
    """Find what requirements name, and all that those packages require."""
    for wanted in map(Requirement, requirements):
        places = [{"extra": extra} for extra in (*extras, "")]
        if wanted.marker is not None and not any(map(wanted.marker.evaluate, places)):
            continue
        if wanted.name == "smartpubsub":
            require(own, wanted.extras, own, found)
        elif wanted.name not in found:
            found[wanted.name] = metadata.distribution(wanted.name)
            require(found[wanted.name].requires or [], wanted.extras, own, found)


class Environment:
    """An environment with the wheel and what it declares."""

    def __init__(self, folder: Path, wheel: Path, *extras: str) -> None:
        venv.create(folder, symlinks=True)
        self._programs = folder / "bin"
        install = f"uv pip install --quiet --offline --no-deps --python {self._programs}/python"
        subprocess.run([*install.split(), wheel], check=True, env=SURROUNDINGS)
        (site,) = folder.glob("lib/python*/site-packages")
        (information,) = site.glob("smartpubsub-*.dist-info")
        own = metadata.Distribution.at(information).requires or []
        found: Found = {}
        require(own, {*extras}, own, found)
        for distribution in found.values():
            for top in {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}:
                source = Path(str(distribution.locate_file(top)))
                if source.exists() and not (site / top).exists():
                    (site / top).symlink_to(source)

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self._programs / command[0], *command[1:]],
            cwd=self._programs,
            env=SURROUNDINGS,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )


@pytest.fixture(scope="module")
def plain(built: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return Environment(tmp_path_factory.mktemp("plain"), built[-1])


def test_the_sdist_has_all_that_the_wheel_is_built_from(built: list[Path]) -> None:
    with tarfile.open(built[0]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "LICENSE", "README.md", "src/smartpubsub/py.typed"} <= names


def test_plain_has_predicates_and_matching(plain: Environment) -> None:
    assert "matches" in plain.run("smartpubsub", "explain", "a/b[1,2]", "a/b=1").stdout
    program = """
import smartpubsub
index = smartpubsub.matching.Index()
index.add(1, "a/b[1,2]")
print(index.match("a/b=1"))
"""
    assert plain.run("python", "-c", program).stdout == "[1]\n"


def test_plain_is_a_client_of_a_running_node(plain: Environment, tmp_path: Path) -> None:
    program = """
import sys, asyncio, smartpubsub
with smartpubsub.connect(data=sys.argv[1]) as node:
    print(node.publish("a", text="1").replicas)
async def main():
    async with smartpubsub.connect(url=sys.argv[2]) as node, node.subscribe("a", last=1) as events:
        print((await anext(events)).text())
asyncio.run(main())
"""
    with running_node(tmp_path) as url:
        done = plain.run("python", "-c", program, str(tmp_path), url)
        assert (done.stdout, done.stderr) == ("1\n1\n", "")
        done = plain.run("smartpubsub", "pub", "b", "--data", str(tmp_path))
        assert done.returncode == 0, done.stderr


EXTRAS = [
    ("node", "node run"),
    ("tables", "sim run --protocol scoutsubs --nodes 3"),
    ("tables", "testbed run --protocol scoutsubs"),
    ("gateway", "token list"),
    ("pipeline", "pipeline measure . --out tables"),
]


@pytest.mark.parametrize(("extra", "command"), EXTRAS)
def test_a_command_names_the_extra_that_it_needs(
    plain: Environment, extra: str, command: str
) -> None:
    done = plain.run("smartpubsub", *command.split())
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1, done.stderr
    assert f"pip install 'smartpubsub[{extra}]'" in done.stderr


def test_the_demo_shows_what_it_can(plain: Environment) -> None:
    done = plain.run("smartpubsub", "demo")
    assert done.returncode == 0, done.stderr
    assert "temp=31 does not match" in done.stdout
    for extra in ("node", "tables"):
        assert f"pip install 'smartpubsub[{extra}]'" in done.stdout


def test_a_class_names_the_extra_that_it_needs(plain: Environment) -> None:
    done = plain.run("python", "-c", "from smartpubsub import Node")
    assert "Node: this needs trio; install it with: pip install" in done.stderr


def test_the_doctor_says_what_is_missing(plain: Environment) -> None:
    done = plain.run("smartpubsub", "doctor", "--json")
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert done.returncode == 0, done.stderr
    assert checks["libp2p"]["remedy"] == "pip install 'smartpubsub[node]'"
    assert checks["PySpark"]["remedy"] == "pip install 'smartpubsub[pipeline]'"
    assert checks["gateway"]["remedy"] == "pip install 'smartpubsub[gateway]'"


def test_the_gateway_extra_runs_a_node_with_a_gateway(built: list[Path], tmp_path: Path) -> None:
    environment = Environment(tmp_path / "environment", built[-1], "gateway")
    program = """
import smartpubsub, smartpubsub.gateway.server
with smartpubsub.SyncNode(data="node", listen=["/ip4/127.0.0.1/tcp/0"]) as node:
    with node.subscribe("a") as events:
        node.publish("a", text="1")
        print(events.get(timeout_s=60).text())
"""
    done = environment.run("python", "-c", program)
    assert (done.stdout, done.stderr) == ("1\n", "")
