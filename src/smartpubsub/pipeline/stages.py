"""Stages on paths: each reads tables, writes tables, and returns a summary.

The commands call them, and programs can: `measure(session(), ["trace"], "metrics")`. Little data in
files of this machine needs no session: `ingest`, `match` and `measure` take None instead, and raise
NeedsSparkError if they need one.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from smartpubsub.pipeline import match as matching
from smartpubsub.pipeline import measure as measuring
from smartpubsub.pipeline.campaign import run_campaign
from smartpubsub.pipeline.errors import PipelineError
from smartpubsub.pipeline.folders import Folder, MaybeSpark
from smartpubsub.pipeline.ingest_folder import BAD, salt_of, write_here, write_ingested
from smartpubsub.pipeline.ingest_little import judged_here
from smartpubsub.pipeline.little import NeedsSparkError, sized
from smartpubsub.pipeline.mapping import REDDIT, ColumnMapping
from smartpubsub.pipeline.match_files import matches_in_files
from smartpubsub.pipeline.measure_little import measure_here
from smartpubsub.pipeline.metric_schemas import METRIC_TABLES
from smartpubsub.pipeline.one_run import CampaignFolder
from smartpubsub.pipeline.outputs import PARQUET, Output, TableFormat, is_delta, row_count
from smartpubsub.pipeline.plan import Plan, read_plan
from smartpubsub.pipeline.result_schemas import RESULTS
from smartpubsub.pipeline.schemas import EVENTS, MATCHES, RECORDS, SUBSCRIPTIONS
from smartpubsub.pipeline.sources import find_sources
from smartpubsub.pipeline.summary import Summary
from smartpubsub.pipeline.tables import (
    check_output,
    check_outputs,
    read_files,
    read_table,
)
from smartpubsub.pipeline.traces import read_little_traces, read_traces, traces_in

COMPLAINTS_MAX = 20


def needed(spark: MaybeSpark) -> SparkSession:
    """The session; raise an error if there is none."""
    if spark is None:
        raise NeedsSparkError
    return spark


def ingest(
    spark: MaybeSpark,
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
    with sized(spark, sources) as is_little:
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
        few = judged_here(files, chosen, salt) if is_little and output == PARQUET else None
        if few is not None and Folder(spark, out).has_plain_files:
            done = write_here(spark, few, out)
        else:
            done = write_ingested(needed(spark), files, chosen, salt, out, output)
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
    spark: MaybeSpark,
    events: str,
    subscriptions: str,
    out: str,
    *,
    table_format: TableFormat = "parquet",
) -> Summary:
    """Pair every event of a table with every subscription of another that it matches."""
    began_at = time.monotonic()
    with sized(spark, [events, subscriptions]) as is_little:
        few = _few_matches(spark, events, subscriptions) if is_little else None
        check_output(spark, out, [events, subscriptions])
        output = Output.of(spark, table_format, "match", [events, subscriptions])
        if few is not None:
            output.write_rows(spark, few, out, MATCHES)
        else:
            _write_matches(needed(spark), events, subscriptions, out, output)
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


def _few_matches(spark: MaybeSpark, events: str, subscriptions: str) -> pa.Table | None:
    """The matches of little data, without Spark; None if that takes Spark."""
    said = read_files(spark, events, EVENTS, matching.EVENT_COLUMNS)
    wanted = read_files(spark, subscriptions, SUBSCRIPTIONS, matching.SUBSCRIPTION_COLUMNS)
    if said is None or wanted is None:
        return None
    return matching.matches_here(pa.concat_tables(said.values()), pa.concat_tables(wanted.values()))


def _write_matches(
    spark: SparkSession, events: str, subscriptions: str, out: str, output: Output
) -> None:
    published = read_table(spark, events, EVENTS, matching.EVENT_COLUMNS)
    wanted = read_table(spark, subscriptions, SUBSCRIPTIONS, matching.SUBSCRIPTION_COLUMNS)
    subscribed = matching.collected(wanted, matching.SUBSCRIPTION_COLUMNS)
    index = matching.share_index(spark, matching.build_index(subscribed))
    can_open = Folder(spark, events).has_plain_files and not is_delta(spark, events)
    found = (
        matches_in_files(spark, events, index)
        if can_open
        else matching.matches_in(published, index)
    )
    output.write(found, out, MATCHES)


def measure(
    spark: MaybeSpark,
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
        few = read_little_traces(spark, traces) if is_little else None
        check_outputs(spark, out, [table.name for table in METRIC_TABLES])
        output = Output.of(spark, table_format, "measure", folders, window_ms=window_ms)
        count = measure_here(spark, few, out, window_ms, output) if few is not None else None
        if count is None:
            rows = read_traces(needed(spark), traces)
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
    """Run the simulations of a plan that are not done yet; the notes name failed runs.

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
