"""smartpubsub bench matching."""

from pathlib import Path

import click

from smartpubsub.cli.bench.showing import print_report, print_step, seed_option
from smartpubsub.cli.extras import needing
from smartpubsub.cli.output import ChartPath, json_option


@click.command()
@seed_option("generated workloads")
@click.option("--huge", is_flag=True, help="Add ten million subscriptions (some minutes, 4 GB).")
@click.option("--plot", type=ChartPath(), help="Write a chart (PNG or SVG).")
@json_option
def matching(seed: int, huge: bool, plot: Path | None, as_json: bool) -> None:
    """Measure the matching engines beside databases.

    Compares the native engine, the pure-Python engine, DuckDB, SQLite and brute force on a thousand
    to a million generated subscriptions. Takes about a minute. The exit code is 0 for any
    ratios.

    \b
    Examples:
      smartpubsub bench matching
      smartpubsub bench matching --json --plot matching.svg
    """
    with needing("the benchmark", "bench"):
        from smartpubsub.bench.matching import run
        from smartpubsub.reports.matching_chart import plot_matching
    report = run(seed, huge=huge, progress=print_step)
    if plot:
        plot_matching(report, plot)
    print_report(report, as_json)
