"""Campaigns run every run of a plan once, wherever they are stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from smartpubsub.cli.main import main
from smartpubsub.pipeline.campaign import batches, weight
from smartpubsub.pipeline.campaign_progress import CampaignProgress
from smartpubsub.pipeline.folders import locked
from smartpubsub.pipeline.one_run import CampaignFolder, carry_out, result_row
from smartpubsub.pipeline.plan import read_plan
from smartpubsub.pipeline.result_schemas import RESULTS, flattened
from smartpubsub.sim.judging import result as results
from tests.pipeline.waiting import QUICK, until

pytestmark = pytest.mark.usefixtures("spark")

PLANS = Path(__file__).parents[2] / "plans"
PLAN = """
[[experiment]]
name = "all"
protocol = ["scoutsubs", "floodsub"]
nodes = [6, 9]
seed = { from = 1, to = 2 }
traces = true
"""

Captured = pytest.CaptureFixture[str]


def plan_in(folder: Path, text: str = PLAN) -> Path:
    path = folder / "plan.toml"
    path.write_text(text, encoding="utf-8")
    return path


def run(plan: Path, out: Path, capsys: Captured, code: int = 0) -> dict[str, Any]:
    assert main(["pipeline", "campaign", str(plan), "--out", str(out), "--json"]) == code
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def results_in(out: Path) -> dict[str, dict[str, Any]]:
    return {row["run"]: row for row in pq.read_table(out / "results").to_pylist()}


def times_in(out: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in (out / "results").iterdir()}


def test_every_run_gives_what_sim_run_gives(tmp_path: Path, capsys: Captured) -> None:
    plan = plan_in(tmp_path)

    summary = run(plan, tmp_path / "out", capsys)

    assert (summary["done"], summary["kept"], summary["failed"]) == (8, 0, 0)
    found = results_in(tmp_path / "out")
    planned = read_plan(plan).runs
    assert found.keys() == planned.keys()
    for id, one in planned.items():
        options = one.options
        workload = options.load([one.protocol])
        alone = results.run(
            options.experiment(one.protocol, one.variant, workload), options.scenario_name
        )
        wanted = result_row(one, alone)
        for took in ("wall_s", "cpu_s", "peak_rss_mb"):
            wanted[took] = found[id][took]
        assert found[id] == wanted
        assert (tmp_path / "out" / "traces" / f"run={id}" / "part-00000.parquet").exists()
    manifest = pq.read_table(tmp_path / "out" / "manifest").to_pylist()
    assert [row["run"] for row in manifest] == list(planned)


def test_a_result_has_all_figures_of_the_document() -> None:
    options = next(iter(read_plan(PLANS / "smartpubsub-small.toml").runs.values())).options
    workload = options.load(["floodsub"])
    document = results.run(
        options.experiment("floodsub", "redirect-reliable", workload), "normal"
    ).document()

    left_out = {"interrupted", "cpu_s_per_node", "peak_rss_mb_per_node"}
    # Excuses have names of their own in each run.
    figures = {name for name in flattened(document) if not name.startswith("excused_")}
    assert figures - left_out <= set(RESULTS.names)


def test_a_folder_has_one_campaign_at_a_time(tmp_path: Path, capsys: Captured) -> None:
    words = ["pipeline", "campaign", str(plan_in(tmp_path)), "--out", str(tmp_path / "out")]

    with locked(tmp_path / "out", "campaign"):
        assert main(words) == 1

    assert "out: another campaign is running there" in capsys.readouterr().err


def test_what_is_there_is_kept_and_what_was_begun_is_done_again(
    tmp_path: Path, capsys: Captured
) -> None:
    plan, out = plan_in(tmp_path), tmp_path / "out"
    run(plan, out, capsys)
    whole, times = results_in(out), times_in(out)
    lost = sorted(times)[:3]
    for name in lost:
        (out / "results" / name).unlink()
    (out / "results" / ".run=begun.1").write_bytes(b"half")
    (out / "traces" / ".run=begun.2").mkdir()

    summary = run(plan, out, capsys)

    assert (summary["done"], summary["kept"]) == (3, 5)
    again = results_in(out)
    for id, row in whole.items():
        assert again[id]["trace_digest"] == row["trace_digest"]
    assert {n: t for n, t in times_in(out).items() if n not in lost} == {
        n: t for n, t in times.items() if n not in lost
    }
    assert not [*out.glob("*/.run=*")]


def test_a_larger_plan_only_runs_what_is_new(tmp_path: Path, capsys: Captured) -> None:
    out = tmp_path / "out"
    run(plan_in(tmp_path), out, capsys)

    larger = plan_in(tmp_path, PLAN.replace("to = 2", "to = 3"))

    assert run(larger, out, capsys)["done"] == 4


def test_a_campaign_that_is_killed_goes_on_where_it_was(tmp_path: Path, capsys: Captured) -> None:
    plan, out = plan_in(tmp_path, PLAN.replace("to = 2", "to = 15")), tmp_path / "out"
    program = Path(sys.executable).with_name("smartpubsub")
    command = [str(program), "pipeline", "campaign", str(plan)]
    process = subprocess.Popen(
        [*command, "--out", str(out), "--memory-mb", "1024", "--set", QUICK],
        start_new_session=True,
    )
    try:
        until(lambda: len([*out.glob("results/run=*")]) >= 2, process)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    times = times_in(out)

    summary = run(plan, out, capsys)

    assert summary["kept"] >= 2
    assert summary["kept"] + summary["done"] == 60
    after = times_in(out)
    assert {name: after[name] for name in times if name.startswith("run=")} == {
        name: at for name, at in times.items() if name.startswith("run=")
    }


def test_a_run_that_fails_is_told_and_stops_no_other(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "bad.jsonl").write_text('{"node": "a", "publish": "surf[1"}\n', encoding="utf-8")
    bad = '[[experiment]]\nprotocol = "floodsub"\nworkload = "bad.jsonl"\n'

    arguments = [str(plan_in(tmp_path, PLAN + bad)), "--out", str(tmp_path / "out")]
    assert main(["pipeline", "campaign", *arguments]) == 1

    output = capsys.readouterr()
    command = f"smartpubsub sim run --protocol floodsub --workload {tmp_path / 'bad.jsonl'}"
    assert output.err.count("\n") == 1
    assert f"failed: {tmp_path / 'bad.jsonl'}:1: " in output.err
    assert output.err.endswith(f"; to repeat it: {command}\n")
    assert len(results_in(tmp_path / "out")) == 8
    assert main(command.split()[1:]) == 1
    assert "bad.jsonl:1: " in capsys.readouterr().err


def test_an_error_that_was_not_made_to_be_shown_tells_its_kind(tmp_path: Path) -> None:
    plan = read_plan(plan_in(tmp_path, PLAN.replace("true", "false")))

    row = carry_out(next(iter(plan.runs.values())), CampaignFolder(tmp_path / "absent"))

    assert row["state"] == "failed"
    assert str(row["error"]).startswith("FileNotFoundError: ")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[[experiment]]\nprotocol = "scoutsub"', "protocol: 'scoutsub' is not a protocol"),
        ("", "one block [[experiment]] or more"),
    ],
)
def test_a_bad_plan_is_one_line(text: str, said: str, tmp_path: Path, capsys: Captured) -> None:
    plan = plan_in(tmp_path, text)

    assert main(["pipeline", "campaign", str(plan), "--out", str(tmp_path / "out")]) == 1
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_plan_that_is_not_there_is_one_line(tmp_path: Path, capsys: Captured) -> None:
    assert main(["pipeline", "campaign", str(tmp_path / "no.toml"), "--out", str(tmp_path)]) == 1
    assert "no.toml: No such file or directory; give the path of a plan" in capsys.readouterr().err


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "file").touch()
    out = tmp_path / "file" / "below"

    assert main(["pipeline", "campaign", str(plan_in(tmp_path)), "--out", str(out)]) == 1
    assert "choose another folder" in capsys.readouterr().err


def test_parts_are_about_as_heavy_as_each_other_and_lose_nothing() -> None:
    runs = list(read_plan(PLANS / "smartpubsub-2021.toml").runs.values())

    parts = batches(runs, 20)

    loads = [sum(map(weight, part)) for part in parts]
    assert loads == sorted(loads, reverse=True)
    heaviest = max(map(weight, runs))
    assert loads[0] - loads[-1] <= heaviest
    assert sorted(one.id for part in parts for one in part) == sorted(one.id for one in runs)
    assert batches(runs, 20) == parts
    assert [len(part) for part in batches(runs[:3], 20)] == [1, 1, 1]


def test_progress_tells_how_many_are_done(tmp_path: Path, capsys: Captured) -> None:
    plan, out = plan_in(tmp_path), tmp_path / "out"
    progress = CampaignProgress(read_plan(plan), CampaignFolder(out))
    assert (progress() or "").endswith("] 0 of 8 runs")

    run(plan, out, capsys)

    assert progress() is None
    next(out.glob("results/run=*")).unlink()
    assert "] 7 of 8 runs, about " in (progress() or "")
