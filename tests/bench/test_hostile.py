"""The benchmark of hostile peers, with numbers small enough for a test."""

import json

import pytest

from smartpubsub.bench import hostile
from smartpubsub.cli.main import main
from smartpubsub.testbed.hostile.attacks import ATTACKS


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"EVENTS": 5, "ROUNDS": 1, "SETTLE_S": 0.2}.items():
        monkeypatch.setattr(hostile, name, value)


def test_each_attack_is_compared_with_the_quiet_time_before_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    attacks = ["probes", "attributes"]
    options = [option for name in attacks for option in ("--attack", name)]
    assert main(["bench", "hostile", *options, "--json"]) == 0

    document = json.loads(capsys.readouterr().out)
    figures = {figure["name"]: figure["value"] for figure in document["figures"]}
    ratios = {ratio["name"]: ratio for ratio in document["ratios"]}
    times = ("quiet", "under attack")
    assert [*figures] == [f"{name}: {when}" for name in attacks for when in times]
    assert [*ratios] == [f"{name}/quiet latency" for name in attacks]
    for name in attacks:
        attacked, quiet = figures[f"{name}: under attack"], figures[f"{name}: quiet"]
        assert attacked > 0
        assert ratios[f"{name}/quiet latency"]["value"] == pytest.approx(attacked / quiet, rel=0.02)


def test_an_unknown_attack_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "hostile", "--attack", "nothing"]) == 2
    errors = capsys.readouterr().err
    assert all(name in errors for name in ATTACKS)
