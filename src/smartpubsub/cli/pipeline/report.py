"""smartpubsub pipeline report."""

from dataclasses import replace
from pathlib import Path

import click

from smartpubsub.cli.pipeline.options import SparkOptions, needing_spark, spark_options
from smartpubsub.cli.publishing import complain


@click.command()
@click.argument("source", metavar="DIR")
@click.option(
    "--out",
    required=True,
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="The folder for the page and its figures.",
)
@click.option("--title", help="The title of the page.  [default: that of the plan]")
@spark_options
def report(source: str, out: Path, title: str | None, spark: SparkOptions) -> None:
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
    with needing_spark():
        from smartpubsub.pipeline.report_data import report_data
        from smartpubsub.pipeline.summary import Summary
        from smartpubsub.reports.report import FIGURES, write_report
    with spark.session("report") as session:
        data = report_data(session, source)
    if data.missing:
        complain(
            f"the metrics of {source} are incomplete, so their figures are left out; there is no"
            f" table of {', '.join(data.missing)}: run measure again"
        )
    if title:
        data = replace(data, title=title)
    page = write_report(data, out)
    spark.show(
        Summary(
            stage="report",
            rows_in={"runs": len(data.runs)},
            rows_out={"figures": len([*(out / FIGURES).glob("*.png")])},
            seconds=spark.seconds(),
            more={"page": str(page)},
        )
    )
