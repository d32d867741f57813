"""smartpubsub pipeline campaign."""

from pathlib import Path

import click

from smartpubsub.cli.commands import FAILURE
from smartpubsub.cli.pipeline.options import SparkOptions, needing_spark, spark_options


@click.command()
@click.argument("plan", type=click.Path(path_type=Path))
@click.option(
    "--out",
    required=True,
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="The folder for results and traces; all workers must see it.",
)
@spark_options
@click.pass_context
def campaign(context: click.Context, /, plan: Path, out: Path, spark: SparkOptions) -> None:
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
        summary = stages.campaign(session, planned, str(out))
    spark.show(summary)
    if summary.notes:
        context.exit(FAILURE)
