"""smartpubsub bench hostile."""

import click

from smartpubsub.cli.bench.showing import print_report, print_step
from smartpubsub.cli.output import json_option
from smartpubsub.testbed.hostile.attacks import ATTACKS


@click.command()
@click.option(
    "--attack",
    "names",
    type=click.Choice(list(ATTACKS)),
    multiple=True,
    help="An attack to measure; may be repeated.  [default: all]",
)
@json_option
def hostile(names: tuple[str, ...], as_json: bool) -> None:
    """Measure how much a hostile peer delays the events of other nodes.

    Three nodes in processes of their own publish to each other while a peer attacks all of them.
    The latency of an acknowledged event under each attack is divided by that of the quiet time just
    before it. Uses loopback only; takes about a minute. The exit code is 0 for any ratios.

    \b
    Examples:
      smartpubsub bench hostile
      smartpubsub bench hostile --attack attributes --attack probes --json
    """
    from smartpubsub.bench.hostile import run

    report = run(print_step, names)
    print_report(report, as_json)
