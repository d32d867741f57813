"""smartpubsub pipeline workload."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from smartpubsub.cli.pipeline.options import (
    SparkOptions,
    format_option,
    needing_spark,
    spark_options,
)
from smartpubsub.cli.publishing import complain
from smartpubsub.pipeline.local_inputs import check_new_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from smartpubsub.pipeline.assign import Assigned
    from smartpubsub.pipeline.outputs import Output

WAYS = ("data", "power-law", "tables")
# Repeated here so that help needs no Spark; a test compares the two.
PUBLISHED = ("reddit-2007", "smartpubsub-60")


@click.command()
@click.option("--events", metavar="DIR", help="A table of records, as ingest and classify write.")
@click.option("--nodes", type=click.IntRange(min=1), help="The number of nodes.")
@click.option(
    "--by",
    type=click.Choice(WAYS),
    default="data",
    show_default=True,
    help="How to assign nodes: publishers subscribe to their own topics, a power law, or tables.",
)
@click.option("--publishers", metavar="DIR", help="With --by tables: the table of publishers.")
@click.option(
    "--subscriptions", metavar="DIR", help="With --by tables: the table of subscriptions."
)
@click.option(
    "--from",
    "given",
    metavar="PATH",
    help="A workload file, or a folder with the tables of a workload, instead of --events.",
)
@click.option(
    "--published",
    type=click.Choice(PUBLISHED),
    help="The name of a published distribution, instead of --events.",
)
@click.option("--out", metavar="DIR", help="The folder for events/ and subscriptions/.")
@click.option("--to", "file", metavar="FILE", help="Write a workload file, .gz to compress it.")
@click.option(
    "--pace-ms",
    type=click.FloatRange(min=0.001),
    default=10,
    show_default=True,
    help="The interval between events.",
)
@click.option(
    "--subscriptions-per-node",
    type=click.IntRange(min=1),
    default=2,
    show_default=True,
    help="With --by power-law: the average number per node.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of the random draws.")
@format_option
@spark_options
def workload(spark: SparkOptions, **chosen: Any) -> None:
    """Assign events to publishers and subscriptions to nodes.

    Reads ingested records, a workload file, the tables of a workload, or a published distribution;
    writes tables (--out), a workload file (--to), or both. Records that have neither topics nor
    numbers are left out: pipeline classify gives topics to texts.

    \b
    Examples:
      smartpubsub pipeline workload --events records --nodes 100 --out w
      smartpubsub pipeline workload --from my.jsonl --out w
      smartpubsub pipeline workload --from w --to again.jsonl.gz
      smartpubsub pipeline workload --published reddit-2007 --out w --json
    """
    check_usage(**chosen)
    check_inputs(spark, chosen)
    if chosen["file"]:
        check_new_file(Path(chosen["file"]))
    with spark.session("workload") as session:
        from smartpubsub.pipeline.summary import Summary

        make = from_records if chosen["events"] else from_workload
        made = make(session, chosen)
        summary = Summary(
            stage="workload",
            rows_in=made.rows_in,
            rows_out=made.rows_out,
            seconds=spark.seconds(),
            more={**({"left_out": made.left_out} if chosen["events"] else {}), **made.versions},
        )
    if made.left_out:
        complain(
            f"{made.left_out:,} of {made.rows_in['records']:,} records have neither topics nor"
            " numbers and are left out; smartpubsub pipeline classify gives topics to texts"
        )
    spark.show(summary)


def check_usage(**chosen: Any) -> None:
    """Raise a usage error if options exclude each other."""
    sources = [name for name in ("events", "given", "published") if chosen[name]]
    if len(sources) != 1:
        raise click.UsageError("give one of --events, --from and --published")
    if not (chosen["out"] or chosen["file"]):
        raise click.UsageError("give --out for tables or --to for a file, or both")
    if chosen["events"] and not chosen["nodes"] and chosen["by"] != "tables":
        raise click.UsageError("--events needs --nodes")
    if chosen["given"] and chosen["nodes"]:
        raise click.UsageError("--nodes has no meaning beside --from, which names its nodes")
    has_tables = bool(chosen["publishers"]), bool(chosen["subscriptions"])
    if chosen["by"] == "tables" and not all(has_tables):
        raise click.UsageError("--by tables needs --publishers and --subscriptions")
    if chosen["by"] != "tables" and any(has_tables):
        raise click.UsageError("--publishers and --subscriptions go with --by tables")


def check_inputs(spark: SparkOptions, chosen: dict[str, Any]) -> None:
    """Raise an error if an input is missing."""
    kinds = {
        "events": "a table of records",
        "publishers": "a table of publishers",
        "subscriptions": "a table of subscriptions",
        "given": "a workload file, or a folder with the tables of a workload",
    }
    for name, what in kinds.items():
        if chosen[name]:
            spark.check_inputs(what, chosen[name])


class Made(NamedTuple):
    """The numbers of rows read and written, by table, and of records left out."""

    rows_in: dict[str, int]
    rows_out: dict[str, int]
    left_out: int = 0
    versions: Mapping[str, object] = {}


def from_workload(session: SparkSession, chosen: dict[str, Any]) -> Made:
    """Convert an existing workload to tables or a file."""
    with needing_spark():
        from smartpubsub.pipeline import workload_folders as folders
        from smartpubsub.pipeline.published import published_workload
    from smartpubsub.workloads import read_workload, write_workload
    from smartpubsub.workloads.actions import Publish, Subscribe

    if chosen["out"]:
        folders.check_workload_output(session, chosen["out"])
    versions: Mapping[str, object] = {}
    if chosen["published"]:
        workload = published_workload(
            chosen["published"], nodes=chosen["nodes"], seed=chosen["seed"]
        )
    elif Path(chosen["given"]).is_file():
        workload = read_workload(Path(chosen["given"]))
    else:
        workload = folders.read_workload_folder(session, chosen["given"])
    if chosen["out"]:
        output = _output(session, chosen)
        folders.write_workload_folder(session, workload, chosen["out"], output)
        versions = _versions(session, chosen, output)
    if chosen["file"]:
        write_workload(workload, Path(chosen["file"]))
    actions = workload.actions()
    counts = {
        "events": sum(isinstance(action, Publish) for action in actions),
        "subscriptions": sum(isinstance(action, Subscribe) for action in actions),
    }
    return Made({"actions": len(actions)}, counts, versions=versions)


def from_records(session: SparkSession, chosen: dict[str, Any]) -> Made:
    """Make tables or a file from ingested records."""
    from smartpubsub.pipeline import workload_folders as folders
    from smartpubsub.pipeline.assign import publishable
    from smartpubsub.pipeline.errors import PipelineError
    from smartpubsub.pipeline.schemas import EVENTS, NODES, RECORDS, SUBSCRIPTIONS
    from smartpubsub.pipeline.tables import read_table
    from smartpubsub.pipeline.workload_tables import workload_of
    from smartpubsub.workloads import write_workload

    given = read_table(session, chosen["events"], RECORDS)
    records = publishable(given)
    total = given.count()
    left_out = total - records.count()
    if left_out and left_out == total:
        raise PipelineError(
            f"{chosen['events']}: no record has a topic or a number; give topics to texts with"
            " smartpubsub pipeline classify first"
        )
    if chosen["out"]:
        folders.check_workload_output(session, chosen["out"])
    assigned = assign(session, records, chosen)
    made = ((EVENTS, assigned.events), (SUBSCRIPTIONS, assigned.subscriptions))
    output = _output(session, chosen)
    versions: Mapping[str, object] = {}
    if chosen["out"]:
        for table, frame in (*made, (NODES, assigned.nodes)):
            output.write(frame, folders.folder_of(chosen["out"], table), table)
        versions = _versions(session, chosen, output)
    if chosen["file"]:
        tables = {table.name: folders.collected(frame) for table, frame in made}
        tables[NODES.name] = folders.collected(assigned.nodes)
        write_workload(workload_of(tables), Path(chosen["file"]))
    counts = {table.name: frame.count() for table, frame in made}
    return Made({"records": total}, counts, left_out, versions)


def _output(session: SparkSession, chosen: dict[str, Any]) -> Output:
    from smartpubsub.pipeline.outputs import Output

    names = ("events", "publishers", "subscriptions", "given")
    inputs = [chosen[name] for name in names if chosen[name]]
    others = {name: value for name, value in chosen.items() if name not in (*names, "table_format")}
    return Output.of(session, chosen["table_format"], "workload", inputs, **others)


def _versions(
    session: SparkSession, chosen: dict[str, Any], output: Output
) -> Mapping[str, object]:
    from smartpubsub.pipeline.workload_folders import ALWAYS_THERE, MAYBE_THERE, folder_of

    tables = {t.name: folder_of(chosen["out"], t) for t in (*ALWAYS_THERE, *MAYBE_THERE)}
    return output.versions(session, tables)


def assign(session: SparkSession, records: Any, chosen: dict[str, Any]) -> Assigned:
    """The tables of a workload, made as `--by` says."""
    from smartpubsub.pipeline import assign as ways
    from smartpubsub.pipeline.schemas import PUBLISHERS, SUBSCRIPTIONS
    from smartpubsub.pipeline.tables import read_table

    assignment = ways.Assignment(
        nodes=chosen["nodes"] or 1,
        pace_us=round(chosen["pace_ms"] * 1000),
        subscriptions_per_node=chosen["subscriptions_per_node"],
        seed=chosen["seed"],
    )
    if chosen["by"] == "data":
        return ways.from_data(records, assignment)
    if chosen["by"] == "power-law":
        return ways.by_power_law(records, assignment)
    publishers = read_table(session, chosen["publishers"], PUBLISHERS)
    columns = ["node", "predicate", "topics", "ranges"]
    subscriptions = read_table(session, chosen["subscriptions"], SUBSCRIPTIONS, columns)
    return ways.from_tables(records, publishers, subscriptions, assignment)
