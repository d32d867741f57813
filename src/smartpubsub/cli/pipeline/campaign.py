"""smartpubsub pipeline campaign."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from smartpubsub.cli.commands import FAILURE
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
    help="The folder for results and traces; all workers must see it.",
)
@format_option
@spark_options
@click.pass_context
def campaign(
    context: click.Context, /, plan: Path, out: Path, table_format: TableFormat, spark: SparkOptions
) -> None:
    """Run the simulations of a plan.

    A plan is a TOML file; docs/pipeline.md describes it, and plans/ has some. Finished runs stay: a
    killed campaign resumes where it stopped when it is started again. A failed run does not stop
    the others; the command that repeats it is printed, and the exit code is 1.

    \b
    Examples:
      smartpubsub pipeline campaign plans/smartpubsub-small.toml --out small
      smartpubsub pipeline campaign my.toml --out /shared/my --json --master spark://host:7077
    """
    with needing_spark():
        from smartpubsub.pipeline import stages
        from smartpubsub.pipeline.campaign_progress import CampaignProgress
        from smartpubsub.pipeline.one_run import CampaignFolder
        from smartpubsub.pipeline.plan import read_plan
    planned = read_plan(plan)
    progress = CampaignProgress(planned, CampaignFolder(out.absolute()))
    with spark.session("campaign", progress) as session:
        summary = stages.campaign(session, planned, str(out), table_format=table_format)
    spark.show(summary)
    if summary.notes:
        context.exit(FAILURE)
