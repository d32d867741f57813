"""Stages run on a real cluster, and lose nothing with a worker that dies."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from smartpubsub.matching import Index
from smartpubsub.pipeline.little import LITTLE
from smartpubsub.pipeline.one_run import CampaignFolder, carry_out
from smartpubsub.pipeline.plan import read_plan
from tests.pipeline.given import table_in
from tests.pipeline.standalone import cluster
from tests.pipeline.waiting import until

PROGRAM = str(Path(sys.executable).with_name("smartpubsub"))
SMALL = ("--memory-mb", "1024", "--set", "spark.executor.memory=512m")
QUICK = (
    *("--set", "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1"),
    *("--set", "spark.executor.extraJavaOptions=-XX:TieredStopAtLevel=1"),
)
PLAN = """
[[experiment]]
protocol = ["scoutsubs", "gossipsub"]
nodes = 20
seed = { from = 1, to = 30 }
traces = true
"""


def test_a_campaign_and_match_survive_the_loss_of_a_worker(tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN, encoding="utf-8")
    out = tmp_path / "out"
    with cluster(tmp_path) as machines:
        where = ["--master", machines.url, *SMALL, *QUICK]
        command = [PROGRAM, "pipeline", "campaign", str(plan), "--out", str(out), *where]
        campaign = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        until(lambda: len([*out.glob("results/run=*")]) >= 5, campaign)
        machines.kill_worker()
        assert campaign.wait(timeout=240) == 0
        _check_match(tmp_path, where)

    runs = read_plan(plan).runs
    found = {row["run"]: row for row in pq.read_table(out / "results").to_pylist()}
    assert found.keys() == runs.keys()
    assert not [*out.glob("*/.run=*")]
    for id in [*runs][::20]:
        alone = CampaignFolder(tmp_path / "alone")
        alone.clear()
        assert carry_out(runs[id], alone)["state"] == "done"
        row = pq.read_table(alone.result(id)).to_pylist()[0]
        assert row["trace_digest"] == found[id]["trace_digest"]
        assert pq.read_table(alone.trace(id)).equals(pq.read_table(out / "traces" / f"run={id}"))


def _check_match(folder: Path, where: list[str]) -> None:
    """On what is left of the cluster."""
    said = [f"surf/price={number}" for number in range(300)]
    wanted = [f"surf/price[{number},{number + 7}]" for number in range(200)]
    table_in(folder / "e", pa.table({"event_id": range(300), "predicate": said}))
    table_in(folder / "s", pa.table({"subscription_id": range(200), "predicate": wanted}))
    paths = ["--events", "e", "--subscriptions", "s", "--out", "m"]
    # The driver would do so little alone.
    paths += ["--set", f"{LITTLE}=0"]
    subprocess.run([PROGRAM, "pipeline", "match", *paths, *where], check=True, cwd=folder)

    index = Index()
    for number, predicate in enumerate(wanted):
        index.add(number, predicate)
    pairs = {(n, key) for n, event in enumerate(said) for key in index.match(event)}
    rows = pq.ParquetDataset(folder / "m").read().to_pylist()
    assert {(row["event_id"], row["subscription_id"]) for row in rows} == pairs
