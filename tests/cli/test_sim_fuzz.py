"""The fuzzer's command: what it prints, and that its own advice works."""

import json
import shlex

import pytest

from smartpubsub.cli.main import main
from smartpubsub.cli.sim import progress
from smartpubsub.protocols.registry import PROTOCOLS
from tests.sim.broken import Pushy, spec_with

Captured = pytest.CaptureFixture[str]


def test_a_clean_report(capsys: Captured) -> None:
    assert main(["sim", "fuzz", "--runs", "3", "--seed", "70", "--json"]) == 0

    document = json.loads(capsys.readouterr().out)
    assert set(document) == {"runs", "seed", "failures", "judged", "excused", "wall_s"}
    assert (document["runs"], document["seed"], document["failures"]) == (3, 70, [])


def test_the_command_that_is_printed_shows_the_same_again(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setitem(PROTOCOLS.specs, "pushy", spec_with("pushy", Pushy))
    assert main(["sim", "fuzz", "--runs", "2", "--protocol", "pushy", "--json"]) == 1
    captured = capsys.readouterr()
    failure = json.loads(captured.out)["failures"][-1]
    assert f"again: {failure['command']}" in captured.err
    _, *arguments = shlex.split(failure["command"])

    assert main([*arguments, "--json"]) == 1

    (again,) = json.loads(capsys.readouterr().out)["failures"]
    assert again == failure
    assert again["violations"][0]["invariant"] == 2


def test_the_text_is_one_line_and_progress_goes_elsewhere(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setattr(progress, "TELL_EVERY_S", 0.0)

    assert main(["sim", "fuzz", "--runs", "2", "--protocol", "floodsub"]) == 0

    captured = capsys.readouterr()
    assert captured.out.startswith("2 runs from seed 1 in ")
    assert captured.err.splitlines()[-1] == "2 of 2 runs, 0 with violations"


def test_an_interrupt_prints_what_was_done(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    def interrupt(_line: progress.ChangingLine, text: str) -> None:
        if text.startswith("2 of"):
            raise KeyboardInterrupt

    monkeypatch.setattr(progress, "TELL_EVERY_S", 0.0)
    monkeypatch.setattr(progress.ChangingLine, "show", interrupt)

    assert main(["sim", "fuzz", "--runs", "9", "--json"]) == 130
    assert json.loads(capsys.readouterr().out)["runs"] == 2


def test_time_is_a_limit(capsys: Captured) -> None:
    assert main(["sim", "fuzz", "--runs", "100000", "--time", "0.01", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"] < 100


@pytest.mark.parametrize(
    "arguments", [["--runs", "0"], ["--time", "nan"], ["--protocol", "no-such"]]
)
def test_wrong_options_end_it_with_2(arguments: list[str], capsys: Captured) -> None:
    assert main(["sim", "fuzz", *arguments]) == 2
    assert arguments[0] in capsys.readouterr().err
