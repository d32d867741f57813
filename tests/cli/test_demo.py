"""The demo goes through its steps in order and ends well."""

import pytest

from smartpubsub.cli.demo import STEPS
from smartpubsub.cli.main import main


def test_every_step_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo"]) == 0

    output = capsys.readouterr().out
    for shown in (
        "temp=31 does not match",
        "relays have to keep   surf/price[10,30]",
        "brute force",
    ):
        assert shown in output
    titles = [f"{number}. {title}" for number, (title, _) in enumerate(STEPS, start=1)]
    assert [line for line in output.splitlines() if line in titles] == titles
