"""smartpubsub bench client."""

import click

from smartpubsub.cli.bench.showing import show
from smartpubsub.cli.output import json_option


@click.command()
@json_option
def client(as_json: bool) -> None:
    """Measure pub beside an empty Python program, and the memory of an idle node.

    Starts a node, runs pub and python -c pass in turn, and compares the shortest time of each. The
    processor time of pub does not include that of the node. Takes less than a minute. The exit code
    is 0 for any ratios.

    \b
    Examples:
      smartpubsub bench client
      smartpubsub bench client --json
    """
    from smartpubsub.bench.client import run

    show(run, as_json)
