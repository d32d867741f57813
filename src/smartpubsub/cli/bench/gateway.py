"""smartpubsub bench gateway."""

from functools import partial

import click

from smartpubsub.cli.bench.showing import show
from smartpubsub.cli.output import json_option


@click.command()
@click.option("--readers", type=click.IntRange(1, 1_900), default=1_000, show_default=True)
@click.option("--rate", type=click.IntRange(1, 1_000), default=10, show_default=True)
@click.option("--seconds", type=click.IntRange(1, 3_600), default=20, show_default=True)
@json_option
def gateway(readers: int, rate: int, seconds: int, as_json: bool) -> None:
    """Measure many readers of Server-Sent Events on one node.

    Starts a node with its gateway, opens the readers, publishes --rate events a second for
    --seconds, and measures the events that each reader gets, and the memory and processor time of
    the node. The exit code is 0 for any ratios.

    \b
    Examples:
      smartpubsub bench gateway
      smartpubsub bench gateway --readers 100 --rate 50 --seconds 5 --json
    """
    from smartpubsub.bench.gateway import run

    show(partial(run, readers=readers, per_s=rate, seconds=seconds), as_json)
