"""The studies: what each of them shows, in small."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from smartpubsub.cli.main import main
from smartpubsub.cli.sim import progress
from smartpubsub.cli.sim.progress import StderrProgress
from smartpubsub.cli.study import redirect as study_redirect
from smartpubsub.cli.study.group import COMMANDS
from smartpubsub.protocols.scoutsubs.spec import VARIANTS
from smartpubsub.sim.studies.redirect import Unpopular

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _no_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow machine would print it between what is compared."""
    monkeypatch.setattr(progress, "TELL_EVERY_S", math.inf)


def study(capsys: Captured, *arguments: str) -> list[dict[str, Any]]:
    assert main(["sim", "study", *arguments, "--json"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    found = json.loads(captured.out)
    assert isinstance(found, list)
    return found


def column(found: Sequence[dict[str, Any]], name: str) -> list[Any]:
    return [row[name] for row in found]


def test_attacks_are_written_as_a_table_and_drawn(capsys: Captured, tmp_path: Path) -> None:
    page, drawing = tmp_path / "attacks.md", tmp_path / "attacks.svg"
    files = ("--markdown", str(page), "--plot", str(drawing))
    few = ("--nodes", "12", "--events", "3", "--protocol", "gossipsub", "--protocol", "floodsub")

    found = study(capsys, "adversaries", *few, "--adversary", "censor:0.2", *files)

    assert column(found, "attack") == ["none", "censor:0.2"] * 2
    lines = page.read_text().splitlines()
    assert len(lines) == 2 + len(found)
    assert lines[-1].startswith(f"| {found[-1]['protocol']} | crash | censor:0.2 |")
    assert "censor:0.2" in drawing.read_text()


def test_a_table_that_cannot_be_written_is_refused_before_the_study(
    capsys: Captured, tmp_path: Path
) -> None:
    page = tmp_path / "none" / "attacks.md"
    assert main(["sim", "study", "adversaries", "--markdown", str(page)]) == 2
    assert f"{page}: No such file or directory; name a file that" in capsys.readouterr().err


def test_more_backups_cost_more_and_stages_add_up(capsys: Captured) -> None:
    found = study(capsys, "replication", "--nodes", "20")

    assert [(row["backups"], row["stage"]) for row in found] == [
        (backups, stage) for backups in (1, 2, 3, 5) for stage in (1, 2, 3, 4)
    ]
    assert column(found, "missing") == [0] * 16
    for measure in ("copies_mean", "table_bytes_mean"):
        for stages in (column(found[first : first + 4], measure) for first in range(0, 16, 4)):
            assert stages == sorted(stages)
            assert stages[0] > 0
        last = column(found[3::4], measure)
        assert last == sorted(set(last))
    assert all(row["event_latency_ms_mean"] > 0 for row in found)
    assert all(row["subscription_latency_ms"] > 0 for row in found)


def test_shortcuts_save_hops_and_messages(capsys: Captured) -> None:
    base, redirect = study(capsys, "redirect", "--nodes", "400")

    assert base["missing"] == redirect["missing"] == 0
    assert base["delivered"] == redirect["delivered"] > 0
    for measure in ("hops_mean", "messages_per_event", "latency_ms_mean"):
        assert redirect[measure] < base[measure]


def test_the_load_is_shown_for_every_way_to_spread_it(capsys: Captured) -> None:
    found = study(capsys, "load", "--nodes", "60")

    assert [(row["mapping"], row["fan_out_max"], row["keys"]) for row in found] == [
        ("shared", 0, 1),
        ("shared", 4, 1),
        ("shared", 0, 4),
        ("shared", 4, 4),
        ("nearest", 4, 4),
    ]
    assert column(found, "coverage") == [1] * 5
    none, _, _, both, _ = (row["bytes"] for row in found)
    assert both["max_over_mean"] < none["max_over_mean"]
    for row in found:
        for what in ("messages", "bytes", "filters"):
            assert row[what]["max_over_mean"] >= row[what]["p99_over_mean"] > 1


def test_overload_costs_time_and_nothing_else(capsys: Captured) -> None:
    found = study(capsys, "overload", "--nodes", "40")
    usual, slow = found[:2], found[2:]

    assert column(found, "missing") == [0] * 4
    assert [row["pace_factor"] for row in slow] == [1, 10]
    assert slow[1]["latency_ms_mean"] > 5 * slow[0]["latency_ms_mean"]
    assert usual[1]["latency_ms_mean"] < 2 * usual[0]["latency_ms_mean"]


def test_reliable_variants_lose_nothing_to_churn(capsys: Captured) -> None:
    found = study(capsys, "churn", "--nodes", "20", "--cycles", "1")

    assert column(found, "variant") == [*VARIANTS]
    assert column(found, "replaced") == [2] * 4
    assert column(found, "events") == [300] * 4
    for row in found:
        if row["variant"].endswith("-reliable"):
            assert (row["missing"], row["duplicates"]) == (0, 0)


def test_text_is_a_table(capsys: Captured) -> None:
    assert main(["sim", "study", "redirect", "--nodes", "301"]) == 0

    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split("  ")[0] == "variant"
    assert [row.split()[0] for row in rows] == ["base-reliable", "redirect-reliable"]


def test_violations_end_it_with_1(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    broken = Unpopular(
        variant="base-reliable",
        events=2,
        delivered=1,
        missing=1,
        hops_mean=1,
        hops_max=1,
        messages_per_event=1,
        latency_ms_mean=1,
        latency_ms_p99=1,
        violations=1,
    )
    monkeypatch.setattr(study_redirect, "study", lambda *_: [broken])

    assert main(["sim", "study", "redirect"]) == 1
    captured = capsys.readouterr()
    assert "base-reliable" in captured.out
    assert captured.err == "up to 1 violations in a run\n"


def test_an_interrupt_ends_all_of_it(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(StderrProgress, "tick", interrupt)

    assert main(["sim", "study", "load", "--nodes", "12"]) == 130
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("name", [*COMMANDS])
def test_too_few_nodes_are_refused(name: str, capsys: Captured) -> None:
    assert main(["sim", "study", name, "--nodes", "9"]) == 2
    assert "--nodes" in capsys.readouterr().err
