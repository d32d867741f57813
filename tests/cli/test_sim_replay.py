"""Replaying a run shows what went on around its first violation."""

import json

import pytest

from smartpubsub.cli.main import main
from smartpubsub.cli.sim.progress import StderrProgress
from smartpubsub.protocols.registry import PROTOCOLS
from smartpubsub.sim.experiments.replay import Window
from smartpubsub.sim.judging.checkers.violation import Violation
from smartpubsub.sim.traces.trace import Row
from tests.sim.broken import Pushy, spec_with

Captured = pytest.CaptureFixture[str]

OPTIONS = ["sim", "replay", "--nodes", "10", "--events", "3"]


@pytest.fixture(autouse=True)
def _with_pushy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PROTOCOLS.specs, "pushy", spec_with("pushy", Pushy))


def test_rows_around_the_violation(capsys: Captured) -> None:
    assert main([*OPTIONS, "--protocol", "pushy", "--before", "4", "--after", "2", "--json"]) == 1

    document = json.loads(capsys.readouterr().out)
    violation, rows = document["violation"], document["rows"]
    assert (violation["invariant"], violation["node"]) == (2, 9)
    at_us = violation["at_ms"] * 1000
    before, then, after = rows[:4], rows[4:-2], rows[-2:]
    assert all(row["at_us"] < at_us for row in before)
    assert {row["at_us"] for row in then} == {at_us}
    assert [row["what"] for row in then][:2] == ["publish", "deliver"]
    assert all(row["at_us"] > at_us for row in after)


def test_the_text_names_the_violation_and_marks_the_moment(capsys: Captured) -> None:
    assert main([*OPTIONS, "--protocol", "pushy"]) == 1

    first, *rest = capsys.readouterr().out.splitlines()
    assert "invariant 2: node 9 got event" in first
    assert any(line.startswith(">") and "deliver" in line for line in rest)


def test_where_nothing_is_wrong_it_says_so(capsys: Captured) -> None:
    assert main([*OPTIONS, "--protocol", "floodsub"]) == 0
    assert "no violation" in capsys.readouterr().out

    assert main([*OPTIONS, "--protocol", "floodsub", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document == {"violation": None, "violations": 0, "rows": []}


def test_an_interrupt_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(StderrProgress, "tick", interrupt)

    assert main([*OPTIONS, "--protocol", "pushy"]) == 130


def test_a_window_keeps_what_concerns_the_same_node_or_event() -> None:
    window = Window(Violation(1, 100, 3, "node 3 never got event ab-0-1"), before=10, after=10)
    window(
        [
            Row(50, "send", 1, 2),
            Row(60, "send", 1, 3),
            Row(70, "deliver", 2, event="ab-0-1"),
            Row(80, "deliver", 2, event="cd-0-1"),
            Row(100, "timer", 3),
            Row(101, "receive", 3, 1),
        ]
    )

    assert [row.at_us for row in window.rows()] == [60, 70, 100, 101]
