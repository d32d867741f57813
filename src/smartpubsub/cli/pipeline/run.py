"""smartpubsub pipeline run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from smartpubsub.cli.commands import FAILURE
from smartpubsub.cli.pipeline.measure import window_option
from smartpubsub.cli.pipeline.options import (
    SparkOptions,
    format_option,
    needing_spark,
    spark_options,
)

if TYPE_CHECKING:
    from smartpubsub.pipeline.outputs import TableFormat


@click.command()
@click.argument("plan", type=click.Path(path_type=Path))
@click.option(
    "--out",
    required=True,
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="The folder for results and traces, metrics/ and report/; all workers must see it.",
)
@window_option
@click.option("--title", help="The title of the page.  [default: that of the plan]")
@format_option
@spark_options
@click.pass_context
def run(
    context: click.Context,
    /,
    plan: Path,
    out: Path,
    window_ms: int,
    title: str | None,
    table_format: TableFormat,
    spark: SparkOptions,
) -> None:
    """Run the simulations of a plan, measure them and draw a report.

    Does what campaign, measure and report do, with one start of Spark. Finished runs stay, as with
    campaign. Runs that keep no trace are not measured. If a run fails, the others are measured and
    drawn, and the exit code is 1.

    \b
    Examples:
      smartpubsub pipeline run plans/smartpubsub-small.toml --out small
      smartpubsub pipeline run my.toml --out my --title "How many copies" --json
    """
    with needing_spark():
        from smartpubsub.pipeline import stages
        from smartpubsub.pipeline.campaign_progress import CampaignProgress
        from smartpubsub.pipeline.one_run import CampaignFolder
        from smartpubsub.pipeline.plan import read_plan
        from smartpubsub.reports import stage
    planned, folder = read_plan(plan), CampaignFolder(out.absolute())
    with spark.session("run", CampaignProgress(planned, folder)) as session:
        done = [stages.campaign(session, planned, str(out), table_format=table_format)]
        if any(folder.traces.iterdir()):
            metrics = str(folder.path / "metrics")
            done.append(
                stages.measure(
                    session,
                    [str(folder.path)],
                    metrics,
                    window_ms=window_ms,
                    table_format=table_format,
                )
            )
        done.append(stage.report(session, str(folder.path), str(out / "report"), title))
    spark.show_all("run", done)
    if done[0].notes:
        context.exit(FAILURE)
