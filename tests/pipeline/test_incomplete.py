"""A measure that was interrupted leaves tables out, and a report says which."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from smartpubsub.cli.main import main
from smartpubsub.pipeline.metric_schemas import METRIC_TABLES
from tests.pipeline.given import table_in

PLAN = '[[experiment]]\nprotocol = "floodsub"\nnodes = 5\n'
ABSENT = [table.name for table in METRIC_TABLES if table.name != "deliveries"]


def interrupted(metrics: Path) -> None:
    """What there is when the first table is written and the second is not yet."""
    table_in(metrics / "deliveries", pa.table({"run": ["a"]}))
    table_in(metrics / "subscribed" / "_temporary", pa.table({"run": ["a"]}))


@pytest.mark.usefixtures("spark")
def test_a_campaign_is_drawn_without_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "plan.toml").write_text(PLAN, encoding="utf-8")
    out = tmp_path / "out"
    assert main(["pipeline", "campaign", str(tmp_path / "plan.toml"), "--out", str(out)]) == 0
    interrupted(out / "metrics")
    capsys.readouterr()

    assert main(["pipeline", "report", str(out), "--out", str(tmp_path / "report")]) == 0

    (line,) = capsys.readouterr().err.splitlines()
    assert f"there is no table of {', '.join(ABSENT)}: run measure again" in line


@pytest.mark.usefixtures("spark")
def test_metrics_alone_cannot_be_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    interrupted(tmp_path / "metrics")
    arguments = [str(tmp_path / "metrics"), "--out", str(tmp_path / "report")]

    assert main(["pipeline", "report", *arguments]) == 1

    (line,) = capsys.readouterr().err.splitlines()
    assert f"has no table of {', '.join(ABSENT)}; run measure again" in line
