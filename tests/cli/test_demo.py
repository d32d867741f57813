"""The demo goes through its steps in order and ends well."""

from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

import pytest

from smartpubsub.cli.demo import REPORT, STEPS, show_network
from smartpubsub.cli.main import main
from smartpubsub.sim.experiments.experiment import Experiment
from smartpubsub.workloads.actions import Action


def test_every_step_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    assert main(["demo"]) == 0

    output = capsys.readouterr().out
    for shown in (
        "temp=31 does not match",
        "a relay keeps         surf/price[10,30]",
        "brute force",
    ):
        assert shown in output
    titles = [f"{number}. {title}" for number, (title, _) in enumerate(STEPS, start=1)]
    assert [line for line in output.splitlines() if line in titles] == titles
    assert "violations    none" in output
    page = (tmp_path / REPORT / "report.html").read_text(encoding="utf-8")
    assert "How long events take" in page


def test_an_interrupt_of_the_simulated_network_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_self: Experiment, _phase: Iterable[Action]) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Experiment, "_run_phase", interrupt)

    with pytest.raises(KeyboardInterrupt), ExitStack() as stack:
        show_network(tmp_path, stack)
