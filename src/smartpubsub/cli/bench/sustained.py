"""smartpubsub bench sustained."""

import click

from smartpubsub.cli.bench.showing import show
from smartpubsub.cli.output import json_option


@click.command()
@click.option(
    "--minutes",
    type=click.FloatRange(min=0, min_open=True),
    default=10,
    show_default=True,
    help="How long to publish at the steady rate.",
)
@click.option(
    "--subscribers",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Nodes that subscribe, each a process of its own.",
)
@json_option
def sustained(minutes: float, subscribers: int, as_json: bool) -> None:
    """Measure a steady load for long, and overload.

    Measures the highest rate that a publisher and its subscribers carry, publishes at 80 % of that
    rate, and compares the latency and the memory of the second half of that time with the first
    half. Then it offers twice that rate, with a limit of 5 seconds for each event: publishers wait,
    events that take longer are errors, and no acknowledged event may be lost. Uses loopback only.
    The exit code is 0 for any ratios.

    \b
    Examples:
      smartpubsub bench sustained
      smartpubsub bench sustained --minutes 2 --subscribers 9 --json
    """
    from smartpubsub.bench.sustained import run

    show(lambda progress: run(progress, minutes, subscribers), as_json)
