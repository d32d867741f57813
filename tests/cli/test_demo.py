"""The demo goes through its steps in order and ends well."""

from pathlib import Path

import pytest

from smartpubsub.cli.demo import REPORT, STEPS
from smartpubsub.cli.main import main


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
