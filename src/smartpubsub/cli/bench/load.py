"""smartpubsub bench load."""

from collections.abc import Callable
from pathlib import Path

import click

from smartpubsub.cli.bench.showing import show
from smartpubsub.cli.output import ChartPath, json_option


@click.command()
@click.option("--plot", type=ChartPath(), help="Write a chart (PNG or SVG).")
@json_option
def load(plot: Path | None, as_json: bool) -> None:
    """Measure the cost of an event as load and subscribers grow.

    Measures the processor time of all nodes for an event with 1 to 512 events outstanding, and for
    a delivery with 1 to 50 subscribers, of ScoutSubs, FastDelivery, Pulsarcast and py-libp2p's
    GossipSub. Divides it by the crypto floor as `bench node` does. Uses loopback only; takes some
    minutes.

    \b
    Examples:
      smartpubsub bench load
      smartpubsub bench load --json --plot load.svg
    """
    from smartpubsub.bench.load import run
    from smartpubsub.bench.report import Report

    def run_and_plot(progress: Callable[[str], None]) -> Report:
        report = run(progress)
        if plot:
            from smartpubsub.reports.load_chart import plot_load

            plot_load(report, plot)
        return report

    show(run_and_plot, as_json)
