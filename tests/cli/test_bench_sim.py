"""The simulator's benchmark, on worlds small enough for a test."""

import json
import subprocess
import sys

import pytest

from smartpubsub.bench import sim, sim_large
from smartpubsub.cli.main import INTERRUPTED, main


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sim, "RELAY_TOKENS", 20)
    monkeypatch.setattr(sim, "RELAY_US", 100_000)
    monkeypatch.setattr(sim, "STACK_NODES", 10)
    monkeypatch.setattr(sim, "STACK_EVENTS", 3)
    monkeypatch.setattr(sim, "HEAP_THOUSANDS", 1)
    monkeypatch.setattr(sim, "LARGE", {"1k": 10, "10k": 20})
    monkeypatch.setattr(sim, "LARGE_LOOKUPS", 5)


@pytest.mark.usefixtures("small")
def test_report_as_json(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "sim", "--full", "--json"]) == 0

    output = capfd.readouterr()
    document = json.loads(output.out)
    assert set(document) == {"machine", "figures", "ratios"}
    figures = {figure["name"]: figure["value"] for figure in document["figures"]}
    assert all(value > 0 for value in figures.values())
    assert figures["10k messages"] > figures["1k messages"]
    bounds = {ratio["name"]: ratio for ratio in document["ratios"]}
    assert bounds["kernel/simpy"]["at_least"] == 2
    assert bounds["stack/bare heap"]["at_least"] == 0.03
    assert bounds["10k/1k cost per message"]["at_most"] == 2
    assert bounds["10k memory/4 GB"]["ok"]
    assert "20 of 20 nodes have joined" in output.err


@pytest.mark.usefixtures("small")
def test_many_nodes_are_measured_only_if_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "sim"]) == 0

    text = capsys.readouterr().out
    assert "kernel/simpy" in text
    assert "10k" not in text


def test_without_simpy_it_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "smartpubsub.bench.sim")
    monkeypatch.delitem(sys.modules, "smartpubsub.bench.sim_peers")
    monkeypatch.setitem(sys.modules, "simpy", None)

    assert main(["bench", "sim"]) == 1

    assert "the benchmark needs simpy" in capsys.readouterr().err


@pytest.mark.usefixtures("small")
def test_interrupted_measurement_ends_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted = subprocess.CompletedProcess([], sim_large.INTERRUPTED, stdout="")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: interrupted)

    assert main(["bench", "sim", "--full"]) == INTERRUPTED


@pytest.mark.usefixtures("small")
def test_measurement_that_fails_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    killed = subprocess.CompletedProcess([], -9, stdout="")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: killed)

    assert main(["bench", "sim", "--full"]) == 1

    assert "the overlay of 10 nodes ended with -9" in capsys.readouterr().err
