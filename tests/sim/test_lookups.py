"""Lookups find the closest live node and every stored value, dead nodes or not."""

import json

import pytest

from smartpubsub.cli.main import main
from smartpubsub.sim.experiments.lookups import Result, run
from smartpubsub.sim.kernel.overlay import Overlay
from smartpubsub.sim.kernel.population import quietly
from smartpubsub.sim.traces.trace import Trace


@pytest.mark.parametrize(("dead", "seed"), [(0.0, 1), (0.1, 2), (0.3, 3)])
def test_all_is_found(dead: float, seed: int) -> None:
    result = run(150, dead, lookups=200, seed=seed, progress=quietly)

    assert result.closest_found == 200
    assert result.values_stored == 200
    assert result.values_found == 200


@pytest.mark.parametrize("nodes", [2, 3, 10])
def test_small_networks_work_too(nodes: int) -> None:
    result = run(nodes, 0.0, lookups=30, seed=5, progress=quietly)

    assert result.closest_found == 30
    assert result.values_found == result.values_stored == 30


def test_same_seed_gives_the_same_network() -> None:
    def digest(seed: int) -> str:
        trace = Trace()
        Overlay(40, seed, trace=trace).join_all()
        return trace.digest()

    assert digest(1) == digest(1)
    assert digest(1) != digest(2)


def test_hops_are_summed_up() -> None:
    result = Result(3, 3, 0, 0, hops=[1, 2, 6])

    assert result.document()["hops"] == {"mean": 3.0, "p99": 6, "max": 6}


def test_command_prints_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [
        "sim",
        "lookups",
        "--nodes",
        "30",
        "--dead",
        "0.1",
        "--lookups",
        "20",
        "--seed",
        "4",
        "--json",
    ]

    assert main(arguments) == 0

    output = capsys.readouterr()
    document = json.loads(output.out)
    assert set(document) == {"lookups", "closest_found", "values_stored", "values_found", "hops"}
    assert document["closest_found"] == document["lookups"] == 20
    assert "30 of 30 nodes have joined" in output.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["--nodes", "1"],
        ["--dead", "1"],
        ["--dead", "-0.1"],
        ["--lookups", "0"],
        ["--nodes", "many"],
    ],
)
def test_bad_options_are_usage_errors(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sim", "lookups", *arguments]) == 2
    assert arguments[0] in capsys.readouterr().err


def test_a_node_has_to_be_left(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "lookups", "--nodes", "2", "--dead", "0.9"]) == 2
    assert "at least one node must be left" in capsys.readouterr().err
