"""Stages on paths: each reads tables, writes tables, and returns a summary.

The commands call them, and programs can: `measure(session(), ["trace"], "metrics")`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from smartpubsub.pipeline import match as matching
from smartpubsub.pipeline import measure as measuring
from smartpubsub.pipeline.campaign import run_campaign
from smartpubsub.pipeline.errors import PipelineError
from smartpubsub.pipeline.folders import Folder
from smartpubsub.pipeline.ingest_folder import BAD, salt_of, write_ingested
from smartpubsub.pipeline.little import sized
from smartpubsub.pipeline.mapping import REDDIT, ColumnMapping
from smartpubsub.pipeline.match_files import matches_in_files
from smartpubsub.pipeline.measure_little import measure_here
from smartpubsub.pipeline.metric_schemas import METRIC_TABLES
from smartpubsub.pipeline.one_run import CampaignFolder
from smartpubsub.pipeline.outputs import Output, TableFormat, is_delta, row_count
from smartpubsub.pipeline.plan import Plan, read_plan
from smartpubsub.pipeline.result_schemas import RESULTS
from smartpubsub.pipeline.schemas import EVENTS, MATCHES, RECORDS, SUBSCRIPTIONS
from smartpubsub.pipeline.sources import find_sources
from smartpubsub.pipeline.summary import Summary
from smartpubsub.pipeline.tables import (
    check_output,
    check_outputs,
    read_table,
)
from smartpubsub.pipeline.traces import read_traces, traces_in

COMPLAINTS_MAX = 20


def ingest(
    spark: SparkSession,
    sources: Sequence[str],
    out: str,
    *,
    mapping: ColumnMapping | None = None,
    salt: str | None = None,
    keeps_authors: bool = False,
    table_format: TableFormat = "parquet",
) -> Summary:
    """Read files of data into a table of records.

    Without a mapping they are dumps of comments on Reddit. Authors are hashed with the salt, by
    default that of the folder, unless they are kept.
    """
    began_at = time.monotonic()
    with sized(spark, sources):
        files = find_sources(spark, sources, mapping)
        for file in files:
            if mapping is None and file.format != "json":
                raise PipelineError(
                    f"{file.name} is {file.format}, which needs a mapping of its columns;"
                    " give one (--mapping)"
                )
        check_output(spark, out, sources)
        if not keeps_authors:
            salt = salt or salt_of(spark, out)
        chosen = mapping or REDDIT
        output = Output.of(spark, table_format, "ingest", sources, salt=salt, mapping=chosen)
        done = write_ingested(spark, files, chosen, salt, out, output)
        versions = output.versions(spark, {RECORDS.name: out})
    notes = []
    if done.bad:
        share = "all" if done.bad == done.lines else f"{done.bad:,} of {done.lines:,}"
        reasons = "; ".join(f"{reason} ({n:,})" for reason, n in done.reasons.items())
        notes = [f"{share} lines are bad and kept in {out.rstrip('/')}/{BAD}, mostly: {reasons}"]
    return Summary(
        stage="ingest",
        rows_in={"lines": done.lines},
        rows_out={"records": done.lines - done.bad},
        bad=done.bad,
        seconds=time.monotonic() - began_at,
        more={"sources": len(files), **versions},
        notes=tuple(notes),
    )


def match(
    spark: SparkSession,
    events: str,
    subscriptions: str,
    out: str,
    *,
    table_format: TableFormat = "parquet",
) -> Summary:
    """Pair every event of a table with every subscription of another that it matches."""
    began_at = time.monotonic()
    with sized(spark, [events, subscriptions]) as is_little:
        published = read_table(spark, events, EVENTS, matching.EVENT_COLUMNS)
        wanted = read_table(spark, subscriptions, SUBSCRIPTIONS, matching.SUBSCRIPTION_COLUMNS)
        check_output(spark, out, [events, subscriptions])
        output = Output.of(spark, table_format, "match", [events, subscriptions])
        subscribed = matching.collected(wanted, matching.SUBSCRIPTION_COLUMNS)
        few = None
        if is_little:
            said = matching.collected(published, matching.EVENT_COLUMNS)
            few = matching.matches_here(said, subscribed)
        if few is not None:
            output.write_rows(spark, few, out, MATCHES)
        else:
            index = matching.share_index(spark, matching.build_index(subscribed))
            can_open = Folder(spark, events).has_plain_files and not is_delta(spark, events)
            found = (
                matches_in_files(spark, events, index)
                if can_open
                else matching.matches_in(published, index)
            )
            output.write(found, out, MATCHES)
        return Summary(
            stage="match",
            rows_in={
                "events": row_count(spark, events, EVENTS),
                "subscriptions": row_count(spark, subscriptions, SUBSCRIPTIONS),
            },
            rows_out={"matches": row_count(spark, out, MATCHES)},
            seconds=time.monotonic() - began_at,
            more=output.versions(spark, {MATCHES.name: out}),
        )


def measure(
    spark: SparkSession,
    traces: Sequence[str],
    out: str,
    *,
    window_ms: int = measuring.WINDOW_MS,
    table_format: TableFormat = "parquet",
) -> Summary:
    """Compute tables of metrics from traces."""
    began_at = time.monotonic()
    folders = [traces_in(spark, path) for path in traces]
    with sized(spark, folders) as is_little:
        rows = read_traces(spark, traces)
        check_outputs(spark, out, [table.name for table in METRIC_TABLES])
        output = Output.of(spark, table_format, "measure", folders, window_ms=window_ms)
        count = measure_here(rows, out, window_ms, output) if is_little else None
        if count is None:
            count = measuring.measure(rows, out, window_ms=window_ms, output=output)
        paths = {table.name: f"{out}/{table.name}" for table in METRIC_TABLES}
        return Summary(
            stage="measure",
            rows_in={"traces": count},
            rows_out={t.name: row_count(spark, paths[t.name], t) for t in METRIC_TABLES},
            seconds=time.monotonic() - began_at,
            more=output.versions(spark, paths),
        )


def campaign(
    spark: SparkSession, plan: Plan | str, out: str, *, table_format: TableFormat = "parquet"
) -> Summary:
    """Run the simulations of a plan that are not done yet; the notes name what failed.

    `plan` is the path of a plan, or the plan itself.
    """
    began_at = time.monotonic()
    planned = read_plan(Path(plan)) if isinstance(plan, str) else plan
    folder = CampaignFolder(Path(out).absolute())
    outcome = run_campaign(spark, planned, folder)
    if is_delta(spark, str(folder.results)):
        table_format = "delta"
    output = Output.of(spark, table_format, "campaign", [str(folder.results)])
    output.adopt(spark, str(folder.results), RESULTS)
    complaints = [*outcome.complaints()]
    notes = complaints[:COMPLAINTS_MAX]
    if len(complaints) > COMPLAINTS_MAX:
        notes.append(f"and {len(complaints) - COMPLAINTS_MAX:,} more; see {Path(out) / 'manifest'}")
    return Summary(
        stage="campaign",
        rows_in={"runs": len(planned.runs)},
        rows_out={"results": len(planned.runs) - outcome.count("failed")},
        seconds=time.monotonic() - began_at,
        more={
            **outcome.document(),
            **output.versions(spark, {RESULTS.name: str(folder.results)}),
        },
        notes=tuple(notes),
    )
