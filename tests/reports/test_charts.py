"""Charts are written, and the same figures give the same file."""

from pathlib import Path

import pytest

from smartpubsub.cli.main import main
from smartpubsub.reports.hops_chart import log_fit, plot_hops
from smartpubsub.sim.experiments.lookups import Result

RESULTS = {
    nodes: Result(3, 3, 0, 0, hops) for nodes, hops in {100: [1, 1, 2], 1_000: [2, 2, 3]}.items()
}


@pytest.mark.parametrize(("name", "beginning"), [("a.png", b"\x89PNG"), ("a.svg", b"<?xml")])
def test_file_has_the_format_of_its_ending(tmp_path: Path, name: str, beginning: bytes) -> None:
    plot_hops(RESULTS, tmp_path / name)

    assert (tmp_path / name).read_bytes().startswith(beginning)


def test_same_figures_give_the_same_file(tmp_path: Path) -> None:
    for name in ("one.svg", "other.svg"):
        plot_hops(RESULTS, tmp_path / name)

    text = (tmp_path / "one.svg").read_text(encoding="utf-8")
    assert text == (tmp_path / "other.svg").read_text(encoding="utf-8")
    assert "0.30 more with every doubling" in text


def test_fit_of_one_point_is_flat() -> None:
    assert log_fit({100: 2.0}) == (2.0, 0.0)


def test_command_draws_smaller_networks_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chart = tmp_path / "hops.svg"

    assert main(["sim", "lookups", "--nodes", "40", "--lookups", "20", "--plot", str(chart)]) == 0

    assert "closest node found  20 of 20 lookups" in capsys.readouterr().out
    assert "every doubling" in chart.read_text(encoding="utf-8")
