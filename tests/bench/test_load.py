"""The benchmark of growing loads, with numbers small enough for a test."""

import json
from pathlib import Path

import pytest

from smartpubsub.bench import live_costs, load
from smartpubsub.bench.live import GOSSIP
from smartpubsub.cli.main import main


def test_report_and_chart(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(live_costs, "TRIES", 1)
    small = {"SYSTEMS": ("scoutsubs", GOSSIP), "OUTSTANDING": (4,), "SUBSCRIBERS": (2,)}
    for name, value in {**small, "EVENTS_MIN": 8, "DELIVERIES": 8}.items():
        monkeypatch.setattr(load, name, value)
    plot = tmp_path / "load.svg"

    assert main(["bench", "load", "--json", "--plot", str(plot)]) == 0

    document = json.loads(capsys.readouterr().out)
    figures = {figure["name"]: figure["value"] for figure in document["figures"]}
    assert [*figures] == [
        "scoutsubs, 4 outstanding",
        "scoutsubs, 2 subscribers",
        f"{GOSSIP}, 4 outstanding",
        f"{GOSSIP}, 2 subscribers",
    ]
    assert all(value > 0 for value in figures.values())
    assert "verifications for one delivery" in plot.read_text(encoding="utf-8")
