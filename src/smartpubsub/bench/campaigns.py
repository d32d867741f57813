"""The time of a campaign, relative to its simulations alone on all cores."""

from __future__ import annotations

import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from smartpubsub.bench.report import Ratio, Report
from smartpubsub.pipeline.campaign import run_campaign
from smartpubsub.pipeline.one_run import CampaignFolder
from smartpubsub.pipeline.plan import Plan, PlannedRun
from smartpubsub.protocols.scoutsubs.spec import VARIANTS
from smartpubsub.sim.experiments.options import SimOptions

NODE_COUNT = 40
"""With this many nodes a run of ScoutSubs takes 100 to 200 ms."""
RATIO_MAX = 1.3


def campaign_figures(spark: SparkSession, report: Report, runs: int) -> None:
    """Run many short simulations, and add their wall time and their own time to the report."""
    plan = plan_of(runs)
    cores = spark.sparkContext.defaultParallelism
    warm = replace(plan, runs=dict(list(plan.runs.items())[:cores]))
    with tempfile.TemporaryDirectory() as place:
        # The first use of a worker imports the simulator, which is no part of a campaign.
        run_campaign(spark, warm, CampaignFolder(Path(place, "warm")))
        folder = CampaignFolder(Path(place, "all"))
        began = time.perf_counter()
        run_campaign(spark, plan, folder)
        wall_s = time.perf_counter() - began
        simulated_s = sum(pq.read_table(folder.results, columns=["wall_s"])["wall_s"].to_pylist())
    report.add("campaign wall time", wall_s, "s")
    report.add("campaign simulation time", simulated_s, "s")
    report.add("campaign mean run", simulated_s / runs * 1000, "ms")
    ratio = wall_s / (simulated_s / cores)
    report.ratios.append(Ratio("campaign/ideal", ratio, at_most=RATIO_MAX))


def plan_of(runs: int) -> Plan:
    """Runs that differ in their seed."""
    planned = [
        PlannedRun(
            experiment="bench",
            protocol="scoutsubs",
            variant=VARIANTS[-1],
            options=SimOptions(nodes=NODE_COUNT, seed=seed),
        )
        for seed in range(1, runs + 1)
    ]
    return Plan(title="bench", about="", paper=None, runs={run.id: run for run in planned})
