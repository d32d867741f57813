"""smartpubsub bench pipeline."""

import click

from smartpubsub.cli.output import json_option, print_json
from smartpubsub.cli.pipeline.options import needing_spark


@click.command()
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=1,
    show_default=True,
    help="Seed of the generated data.",
)
@json_option
def pipeline(seed: int, as_json: bool) -> None:
    """Measure the data pipeline beside SQL and the engine alone.

    Matches events with a million subscriptions, by the stage and by a join in Spark SQL, both on
    this machine; ingests generated comments; and runs 400 short simulations. Takes about two
    minutes. The exit code is 0 whatever the ratios are.

    \b
    Examples:
      smartpubsub bench pipeline
      smartpubsub bench pipeline --json
    """
    with needing_spark():
        from smartpubsub.bench.pipeline import run
        from smartpubsub.pipeline.errors import told_plainly
    with told_plainly():
        report = run(seed, progress=lambda step: click.echo(step, err=True))
    if as_json:
        print_json(report.document())
    else:
        click.echo(report.text())
