"""smartpubsub pipeline report."""

import click

from smartpubsub.cli.pipeline.options import SparkOptions, spark_options


@click.command()
@click.argument("source", metavar="DIR")
@click.option(
    "--out",
    required=True,
    metavar="DIR",
    help="The folder for the page and its figures.",
)
@click.option("--title", help="The title of the page.  [default: that of the plan]")
@spark_options
def report(source: str, out: str, title: str | None, spark: SparkOptions) -> None:
    """Draw the figures of the papers from a campaign.

    DIR is the folder of a campaign, or one that measure has written. A campaign with metrics in its
    own folder metrics/ has more figures: histograms, topics, loads. The report is one
    self-contained HTML page, and each figure as PNG and SVG.

    \b
    Examples:
      smartpubsub pipeline report my-campaign --out my-campaign/report
      smartpubsub pipeline report metrics --out report --json
    """
    spark.check_inputs("a campaign, or of tables of metrics", source)
    with spark.session("report") as session:
        from smartpubsub.reports import stage

        summary = stage.report(session, source, out, title)
    spark.show(summary)
