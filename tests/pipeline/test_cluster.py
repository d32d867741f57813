"""Stages and nodes work on a real cluster, and lose nothing with a worker that dies."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from smartpubsub.matching import Index
from smartpubsub.pipeline.one_run import CampaignFolder, carry_out
from smartpubsub.pipeline.plan import read_plan
from tests.pipeline.datasource.nodes import node_in, published
from tests.pipeline.given import table_in
from tests.pipeline.standalone import cluster
from tests.pipeline.waiting import PATIENCE_S, until

PLAN = """
[[experiment]]
protocol = ["scoutsubs", "gossipsub"]
nodes = 20
seed = { from = 1, to = 30 }
traces = true
"""


SAID = [f"surf/price={number}" for number in range(300)]
WANTED = [f"surf/price[{number},{number + 7}]" for number in range(200)]
PROGRAM = """
import sys
from smartpubsub.pipeline import session, stages

url, folder, node = sys.argv[1:]
quick = "-XX:TieredStopAtLevel=1"
settings = {
    "spark.executor.memory": "512m",
    "spark.driver.extraJavaOptions": quick,
    "spark.executor.extraJavaOptions": quick,
    # The driver would do so little alone.
    "spark.smartpubsub.littleBytes": "0",
}
with session(master=url, memory_mb=1024, settings=settings) as spark:
    stages.campaign(spark, f"{folder}/plan.toml", f"{folder}/out")
    stages.match(spark, f"{folder}/e", f"{folder}/s", f"{folder}/m")
    past = spark.read.format("smartpubsub").options(node=node, topic="in").load()
    sink = past.select("payload").write.format("smartpubsub").mode("append")
    sink.options(node=node, topic="out").save()
"""


def test_stages_survive_the_loss_of_a_worker(tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN, encoding="utf-8")
    table_in(tmp_path / "e", pa.table({"event_id": range(len(SAID)), "predicate": SAID}))
    table_in(tmp_path / "s", pa.table({"subscription_id": range(len(WANTED)), "predicate": WANTED}))
    out = tmp_path / "out"
    node = tmp_path / "node"
    with cluster(tmp_path) as machines, node_in(node) as client:
        target = client.create_topic("out").id
        published(client, client.create_topic("in").id, range(3))
        command = [sys.executable, "-c", PROGRAM, machines.url, str(tmp_path), str(node)]
        stages = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        until(lambda: len([*out.glob("results/run=*")]) >= 5, stages)
        machines.kill_worker()
        # What is left of the cluster does the rest.
        assert stages.wait(timeout=PATIENCE_S) == 0
        written = [json.loads(entry.payload) for entry in client.topic(target).history()]
        assert written == [{"number": number} for number in range(3)]

    _check_matches(tmp_path / "m")
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


def _check_matches(folder: Path) -> None:
    index = Index()
    for number, predicate in enumerate(WANTED):
        index.add(number, predicate)
    pairs = {(n, key) for n, event in enumerate(SAID) for key in index.match(event)}
    rows = pq.ParquetDataset(folder).read().to_pylist()
    assert {(row["event_id"], row["subscription_id"]) for row in rows} == pairs
